"""Learning rate and strength of a rival: the same search for each, on pictures held out.

The base and the first new tasks are run with a tenth of the new pictures held out. First the
learning rate is chosen with the strength in the middle of its range, then the strength. What counts
is the accuracy at the end on held-out pictures of all classes so far; test pictures have no say. A
candidate whose descent runs away counts as nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from everlearn.errors import NotFinite
from everlearn_papers.deep.incremental import Course


@dataclass(frozen=True)
class Choice:
    """What was chosen, and what each candidate came to."""

    learning_rate: float
    strength: float
    tried: dict[str, float]


def chosen(
    attempt: Callable[[float, float], Course],
    rates: Sequence[float],
    strengths: Sequence[float],
) -> Choice:
    """The learning rate and strength that do best on held-out pictures.

    Parameters
    ----------
    attempt : callable
        Runs the rival with a learning rate and a strength, and is asked about held-out pictures.
    rates, strengths : sequences
        Candidates. The strength in the middle is used while the rate is chosen.
    """
    tried: dict[str, float] = {}

    def worth(rate: float, strength: float) -> float:
        key = f"{rate:g} {strength:g}"
        if key not in tried:
            try:
                tried[key] = attempt(rate, strength).accuracies[-1]
            except NotFinite:  # a step too large for so stiff a penalty
                tried[key] = 0.0
        return tried[key]

    middle = strengths[len(strengths) // 2]
    rate = max(rates, key=lambda candidate: worth(candidate, middle))
    strength = max(strengths, key=lambda candidate: worth(rate, candidate))
    return Choice(rate, strength, tried)
