"""Grid search that extends the grid when the best candidate is at one of its ends.

Every candidate of the grid is evaluated. While the best is the first or the last, the grid is
extended in that direction by the ratio of its last two values, at most ``FURTHER`` times, until a
new candidate is no better. The chosen candidate therefore has a neighbour on either side that is
not better, unless ``at_end`` says that the limit was reached first. Ties go to the candidate
nearest the middle of the grid.
"""

from collections.abc import Callable, Sequence
from math import inf
from typing import NamedTuple

FURTHER = 3


class Found(NamedTuple):
    """Best candidate, value of each candidate, and whether better ones may lie beyond the grid."""

    best: float
    tried: dict[float, float]
    at_end: bool


def search(
    candidates: Sequence[float],
    score: Callable[[float], float],
    *,
    most: float = inf,
    further: int = FURTHER,
) -> Found:
    """Find the candidate with the highest value; extend the grid while the best is at an end.

    Parameters
    ----------
    candidates : ascending; integers are extended by integers, not below 1; a candidate of 0 is
        never extended downwards
    score : the function to maximise
    most : largest candidate that may be added
    further : largest number of candidates that may be added
    """
    tried = {candidate: score(candidate) for candidate in candidates}
    if len(tried) == 1:
        return Found(candidates[0], tried, at_end=False)
    middle = (len(candidates) - 1) / 2
    place = max(range(len(candidates)), key=lambda i: (tried[candidates[i]], -abs(i - middle)))
    best, known = candidates[place], list(candidates)
    for _ in range(further):
        more = _beyond(known, best, most)
        if more is None:
            return Found(best, tried, at_end=False)
        tried[more] = score(more)
        known = sorted(tried)
        if tried[more] <= tried[best]:
            return Found(best, tried, at_end=False)
        best = more
    return Found(best, tried, at_end=_beyond(known, best, most) is not None)


def _beyond(known: list[float], best: float, most: float) -> float | None:
    """Next candidate if the best is at an end; None if it is not, or at the limit."""
    whole = all(isinstance(value, int) for value in known)
    if best == known[-1]:
        more = min(_plain(known[-1] ** 2 / known[-2]), most)
        more = round(more) if whole else more
        return more if more > known[-1] else None
    if best == known[0]:
        more = _plain(known[0] ** 2 / known[1])
        if whole:
            more = round(more)
        return more if int(whole) <= more < known[0] else None
    return None


def _plain(value: float) -> float:
    """Round to 12 significant digits, to remove division noise."""
    return float(f"{value:.12g}")
