"""Search of a rival's learning rate and regularization weight on held-out pictures.

The base and the first new tasks are run with some training pictures held out. First the learning
rate is chosen at the middle regularization weight, then the weight
(:mod:`everlearn_papers.grid`). The criterion is the final accuracy on held-out pictures of all
classes so far, without the task given or, for task-aware columns, with it. Test pictures are not
used. A candidate whose training diverges scores 0.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from everlearn.errors import NotFinite
from everlearn_papers.deep.incremental import Course
from everlearn_papers.grid import search


@dataclass(frozen=True)
class Choice:
    """The chosen settings, and the score of each candidate by "rate regularization"."""

    learning_rate: float
    regularization: float
    tried: dict[str, float]

    def in_order(self) -> list[tuple[float, float]]:
        """Return pairs of rate and regularization weight, best first."""
        first = (self.learning_rate, self.regularization)
        keys = sorted(self.tried, key=self.tried.__getitem__, reverse=True)
        others = [
            (float(rate), float(regularization)) for rate, regularization in map(str.split, keys)
        ]
        return [first, *(each for each in others if each != first)]


def chosen(
    attempt: Callable[[float, float], Course],
    rates: Sequence[float],
    regularizations: Sequence[float],
    *,
    told: bool = False,
) -> Choice:
    """Return the learning rate and regularization weight that are best on held-out pictures.

    Parameters
    ----------
    attempt : callable
        Runs the rival at a learning rate and regularization weight; returns its held-out results.
    rates, regularizations : sequences
        Candidates, ascending. The rate is chosen at the middle of the weights.
    told : bool
        Whether the criterion is accuracy with the task given.
    """
    tried: dict[str, float] = {}

    def score(rate: float, regularization: float) -> float:
        key = f"{rate:g} {regularization:g}"
        if key not in tried:
            try:
                course = attempt(rate, regularization)
                tried[key] = (course.told if told else course.accuracies)[-1]
            except NotFinite:  # the step was too large for this penalty
                tried[key] = 0.0
        return tried[key]

    middle = regularizations[len(regularizations) // 2]
    rate = search(rates, lambda candidate: score(candidate, middle)).best
    regularization = search(regularizations, lambda candidate: score(rate, candidate)).best
    return Choice(rate, regularization, tried)
