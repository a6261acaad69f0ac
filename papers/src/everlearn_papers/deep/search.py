"""Learning rate and strength of a rival: the same search for each, on pictures held out.

The base and the first new tasks are run with a tenth of the new pictures held out. First the
learning rate is chosen with the strength in the middle of its range, then the strength
(:mod:`everlearn_papers.grid`). What counts is the accuracy at the end on held-out pictures of all
classes so far, without being told the task or, for columns in which it is told, with it; test
pictures have no say. A candidate whose descent runs away counts as nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from everlearn.errors import NotFinite
from everlearn_papers.deep.incremental import Course
from everlearn_papers.grid import search


@dataclass(frozen=True)
class Choice:
    """What was chosen, and what each candidate came to."""

    learning_rate: float
    strength: float
    tried: dict[str, float]

    def in_order(self) -> list[tuple[float, float]]:
        """Rates and strengths, the best first."""
        first = (self.learning_rate, self.strength)
        keys = sorted(self.tried, key=self.tried.__getitem__, reverse=True)
        others = [(float(rate), float(strength)) for rate, strength in map(str.split, keys)]
        return [first, *(each for each in others if each != first)]


def chosen(
    attempt: Callable[[float, float], Course],
    rates: Sequence[float],
    strengths: Sequence[float],
    *,
    told: bool = False,
) -> Choice:
    """The learning rate and strength that do best on held-out pictures.

    Parameters
    ----------
    attempt : callable
        Runs the rival with a learning rate and a strength, and is asked about held-out pictures.
    rates, strengths : sequences
        Candidates, ascending. The strength in the middle is used while the rate is chosen.
    told : bool
        Choose for questions in which the task is told.
    """
    tried: dict[str, float] = {}

    def worth(rate: float, strength: float) -> float:
        key = f"{rate:g} {strength:g}"
        if key not in tried:
            try:
                course = attempt(rate, strength)
                tried[key] = (course.told if told else course.accuracies)[-1]
            except NotFinite:  # a step too large for so stiff a penalty
                tried[key] = 0.0
        return tried[key]

    middle = strengths[len(strengths) // 2]
    rate = search(rates, lambda candidate: worth(candidate, middle)).best
    strength = search(strengths, lambda candidate: worth(rate, candidate)).best
    return Choice(rate, strength, tried)
