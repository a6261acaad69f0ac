"""The best setting of a grid, which goes on where the best is at one of its ends.

Every candidate of the grid is tried. While the best is the first or the last of them, the next one
in that direction, in the ratio of the last two, is tried as well, at most ``FURTHER`` times; none
beyond one that is no better. So the setting that is taken has a neighbour on either side that is
not better, unless ``at_end`` says that the search was stopped before. Of equals the one nearest the
middle of the grid is taken.
"""

from collections.abc import Callable, Sequence
from math import inf
from typing import NamedTuple

FURTHER = 3


class Found(NamedTuple):
    """The best candidate, what each came to, and whether better ones may lie beyond the grid."""

    best: float
    tried: dict[float, float]
    at_end: bool


def search(
    candidates: Sequence[float],
    worth: Callable[[float], float],
    *,
    most: float = inf,
    further: int = FURTHER,
) -> Found:
    """The best of ascending candidates, and of further ones while the best is at an end.

    Parameters
    ----------
    candidates : ascending; whole numbers go on as whole numbers, of which the least is 1; nothing
        is below a candidate of 0
    worth : what is to be as large as possible
    most : no candidate beyond it is tried; this one is the last
    further : how many candidates may be added
    """
    tried = {candidate: worth(candidate) for candidate in candidates}
    if len(tried) == 1:
        return Found(candidates[0], tried, at_end=False)
    middle = (len(candidates) - 1) / 2
    place = max(range(len(candidates)), key=lambda i: (tried[candidates[i]], -abs(i - middle)))
    best, known = candidates[place], list(candidates)
    for _ in range(further):
        more = _beyond(known, best, most)
        if more is None:
            return Found(best, tried, at_end=False)
        tried[more] = worth(more)
        known = sorted(tried)
        if tried[more] <= tried[best]:
            return Found(best, tried, at_end=False)
        best = more
    return Found(best, tried, at_end=_beyond(known, best, most) is not None)


def _beyond(known: list[float], best: float, most: float) -> float | None:
    """The next candidate where the best is at an end; none where it is not, or nothing is left."""
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
    """Without the last digits that a division leaves."""
    return float(f"{value:.12g}")
