"""The random-feature head of AutoClassifier, with as many features as memory and time allow.

While all examples are kept, the number of features is infinite
(:mod:`everlearn.learners.auto.arc_cosine`). From the first example that no longer fits, the moments
of ReLU features of a fixed seed are accumulated beside the plain ones, beginning with everything
kept so far. The sums are therefore a function of the set of examples, like all other statistics.

    memory          two matrices of D × D numbers, 16 D² bytes; for n kept examples one, 8 n² bytes
    time            2 d D + D² operations per example, at ``NOMINAL`` operations per microsecond

D depends on d and on the two budgets, never on the machine: learners can be merged.
"""

import math
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from everlearn.arrays import AnyArray, Array, Slots
from everlearn.learners.closed_form.leave_one_out import LearnedRows
from everlearn.preprocessing.fixed_map import in_blocks
from everlearn.preprocessing.random_features import RandomFeatures
from everlearn.statistics.moments import BLOCK_ROWS, Moments

# Operations per microsecond of one core, to convert a time budget.
NOMINAL = 20_000.0
# More features than this many times d gain little; fewer than this many times d gain nothing.
WIDEST, NARROWEST = 16, 4
BYTES_A_NUMBER, BYTES_A_PAIR = 16.0, 8.0
PREFIX = "wide_"
# Examples of before the beginning that are accumulated with every one after it.
ACCUMULATED = 32


class RandomFeatureMoments:
    """Moments of ReLU features, accumulated once there are too many examples to keep."""

    def __init__(
        self, n_features: int, kept: int, memory_mb: float, microseconds: float | None
    ) -> None:
        self.width = width_within(n_features, memory_mb, microseconds)
        self._keeps = kept_within(kept, memory_mb, microseconds)
        self._moments: Moments | None = None
        # Examples to be accumulated, the first of them first.
        self._behind: deque[LearnedRows] = deque()
        # A file from before there were heads on random features holds none: they begin with all
        # examples, or never.
        self.missed = False
        self._n_features = n_features
        self._features: RandomFeatures | None = None
        # The last single example and its features: a stream learns what it was asked about.
        self._last: tuple[Array, Array] | None = None

    @property
    def keeps(self) -> int:
        """Up to how many examples the kernel is used."""
        return 0 if self.missed else self._keeps

    @property
    def begins_beyond(self) -> int:
        """Number of examples beyond which features are accumulated."""
        return self._keeps

    @property
    def has_begun(self) -> bool:
        return self._moments is not None

    @property
    def is_behind(self) -> bool:
        """Whether examples wait to be accumulated."""
        return bool(self._behind)

    @property
    def moments(self) -> Moments | None:
        """The moments of all examples, which accumulates those that wait."""
        self._catch_up()
        return self._moments

    def learn(self, X: Array, slots: Slots, weights: Array | None) -> None:
        """Add examples that were learned after the beginning.

        A single one has some of those that wait accumulated, and waits while there are others.
        """
        if self._moments is None:
            return
        if len(X) > 1 or not self.is_behind:
            self._catch_up()
            self._accumulate(X, slots, weights)
            return
        share = np.ones(1) if weights is None else weights
        self._behind.append(LearnedRows(X.copy(), slots, share))
        n_left = ACCUMULATED
        while self._behind and n_left > 0:
            rows = self._behind.popleft()
            self._accumulate(rows.X, rows.slots, rows.weights)
            n_left -= len(rows)

    def begin(self, kept: Callable[[], LearnedRows]) -> None:
        """Start accumulating, unless that was done; ``kept`` returns all examples so far."""
        if self.width and self._moments is None and not self.missed:
            self._moments = Moments(self.width)
            rows = kept()
            parts = in_blocks(len(rows), ACCUMULATED)
            self._behind.extend(
                LearnedRows(rows.X[part], rows.slots[part], rows.weights[part]) for part in parts
            )

    def _catch_up(self) -> None:
        if self._behind:
            waiting = [(rows.X, rows.slots, rows.weights) for rows in self._behind]
            self._behind.clear()
            X, slots, weights = (np.concatenate(each) for each in zip(*waiting, strict=True))
            self._accumulate(X, slots, weights)

    def _accumulate(self, X: Array, slots: Slots, weights: Array | None) -> None:
        assert self._moments is not None
        for part in in_blocks(len(X), BLOCK_ROWS):
            share = None if weights is None else weights[part]
            self._moments.add(self.seen(X[part]), slots[part], share)

    def forget(self, X: Array, slots: Slots, weights: Array | None) -> None:
        if self.moments is not None:
            self.moments.remove(self.seen(X), slots, weights)
        self._last = None  # nothing of what was forgotten stays

    def merge(self, other: "RandomFeatureMoments", kept: LearnedRows, slots: Slots) -> None:
        """Add another's moments, or its kept examples if it has not begun, under our slots."""
        self.missed = self.missed or other.missed
        if self.missed:
            self._moments = None
            self._behind.clear()
        elif self.moments is not None and other.moments is not None:
            self.moments.merge(other.moments, slots)
        elif self.moments is not None and len(kept):
            self.learn(kept.X, kept.slots, kept.weights)

    def seen(self, X: Array) -> Array:
        """Examples as random features; not to be written to."""
        if len(X) == 1 and self._last is not None and np.array_equal(X, self._last[0]):
            return self._last[1]
        if self._features is None:
            self._features = RandomFeatures(n_components=self.width)
            self._features.fit(np.zeros((1, self._n_features)))
        seen = self._features.transform(X)
        if len(X) == 1:
            self._last = X.copy(), seen
        return seen

    def state(self) -> tuple[dict[str, AnyArray], dict[str, Any]]:
        found = {} if self.moments is None else self.moments.state()
        return {PREFIX + name: array for name, array in found.items()}, {"wide": not self.missed}

    def restore(self, arrays: dict[str, AnyArray], known: bool, is_all: bool) -> None:
        """Restore from the result of :meth:`state`."""
        own = {
            name.removeprefix(PREFIX): a for name, a in arrays.items() if name.startswith(PREFIX)
        }
        if own and self.width:
            self._moments = Moments(self.width)
            self._moments.restore(own)
        self.missed = not known or (bool(self.width) and not own and not is_all)


def width_within(n_features: int, memory_mb: float, microseconds: float | None) -> int:
    """The largest number of features within the budgets; 0 if too few to be useful."""
    width = min(float(WIDEST * n_features), math.sqrt(memory_mb * 1e6 / BYTES_A_NUMBER))
    if microseconds is not None:
        width = min(width, math.sqrt(n_features**2 + NOMINAL * microseconds) - n_features)
    return int(width) if width >= NARROWEST * n_features else 0


def kept_within(kept: int, memory_mb: float, microseconds: float | None) -> int:
    """The largest number of examples for which a kernel is used; 0 if not worthwhile."""
    most = math.sqrt(memory_mb * 1e6 / BYTES_A_PAIR)
    if microseconds is not None:
        most = min(most, math.sqrt(NOMINAL * microseconds / 4.0))
    return kept if kept <= most else int(most)
