"""Finds the best of many classes without reading all of their means in double precision.

Closed-form scores are products of class means with one vector that depends on the question,

    score_k = a_k (μ_k·z + c) + b_k,

so that screening the means (:mod:`everlearn.statistics.screening`) leaves a handful of candidates.
They are scored as all would be; the answer is the same, ties included.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from everlearn.arrays import Array, Slots
from everlearn.statistics.class_means import ClassMeans
from everlearn.statistics.screening import MANY_ROWS, Products, Screen, Shares

# Centre and copy are rebuilt when there are this many times as many classes.
GROWTH = 4.0


@dataclass(frozen=True)
class ScreenedQuestion:
    """A question to many classes.

    Attributes
    ----------
    products : callable
        The question to a screen.
    exact : callable
        Scores of some slots in double precision.
    unit : float
        What these scores are multiplied by to be those of ``decision_function``.
    """

    products: Callable[[Screen], Products]
    exact: Callable[[Slots], Array]
    unit: float = 1.0


class ScreenedMeans:
    """A screen of class means that follows them; a cache, built slice by slice."""

    def __init__(self) -> None:
        self._screen: Screen | None = None
        self._means: ClassMeans | None = None
        self._mark = 0
        self._planned_for = 0

    def candidates(
        self, means: ClassMeans, question: Callable[[Screen], Products], *, best: int = 1
    ) -> Slots | None:
        """Slots that may have one of the best scores; ``None`` if all have to be scored.

        That is the case for few classes, while the copy is being built, and if too many may be
        best.
        """
        screen = self._ready(means)
        return (
            None if screen is None else screen.candidates(question(screen), means.counts, best=best)
        )

    def shares(
        self,
        means: ClassMeans,
        asked: ScreenedQuestion,
        *,
        best: int,
        temperature: float,
        tolerance: float,
    ) -> Shares | None:
        """The same with their shares of probability, see :meth:`Screen.shares`."""
        screen = self._ready(means)
        if screen is None:
            return None
        if screen.wants_fine and not screen.is_fine:
            screen.refine(means.means)
        return screen.shares(
            asked.products(screen),
            means.counts,
            asked.exact,
            best=best,
            temperature=temperature / asked.unit,
            tolerance=tolerance,
        )

    def build(self, means: ClassMeans, *, fine: bool = False) -> None:
        """Build the screen at once; ``fine`` with the second byte, for :meth:`shares`."""
        if means.n_slots < MANY_ROWS:
            return
        while (screen := self._ready(means)) is None:
            pass
        while fine and not screen.is_fine:
            screen.refine(means.means)

    def _ready(self, means: ClassMeans) -> Screen | None:
        """The screen, with all classes in it; ``None`` where there is none yet."""
        if means.n_slots < MANY_ROWS:
            self._screen = None
            return None
        screen = self._followed(means)
        if screen.n_rows < means.n_slots and not screen.extend(means.means):
            return None
        return screen

    def _followed(self, means: ClassMeans) -> Screen:
        changed = means.changes.since(self._mark) if self._means is means else None
        if self._screen is None or changed is None or means.n_slots > GROWTH * self._planned_for:
            self._screen = Screen(means.mean)
            self._means, self._planned_for = means, means.n_slots
        elif changed:
            self._screen.mend(means.means, np.array(sorted(changed), dtype=np.intp))
        self._mark = means.changes.mark()
        return self._screen

    def __getstate__(self) -> dict[str, object]:
        return ScreenedMeans().__dict__  # a copy builds its own when needed
