"""Boxes in a picture, their overlap, and the suppression of duplicates.

A box is (left, top, right, bottom) as shares of the picture's width and height, so that it is
independent of the size of the picture. Several boxes are an array of shape (n, 4) in float64.

    overlap(a, b)  = |a ∩ b| / |a ∪ b|        intersection over union
    inside(a, b)   = |a ∩ b| / |a|            the share of a that is inside b

Cost: O(n m) for n and m boxes; choosing k of n boxes costs O(k n).
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from everlearn.errors import InvalidBox

Boxes = NDArray[np.float64]
Indices = NDArray[np.intp]

# Boxes are rounded to a millionth of a side: less than a pixel in every supported picture.
DECIMALS = 6
# Rounding tolerance of an edge, in pixels of the widest picture.
SLACK = 0.05
# Maximum number of boxes per picture.
MOST_BOXES = 1000
# Boxes of one name are merged if they overlap by this much, or contain each other by that much.
SAME_OVERLAP = 0.4
SAME_INSIDE = 0.7


class Box(NamedTuple):
    """A part of a picture, as shares of its width and height.

    Examples
    --------
    >>> from everlearn.regions.boxes import as_box
    >>> as_box((32, 24, 64, 48), width=64, height=48)
    Box(left=0.5, top=0.5, right=1.0, bottom=1.0)
    """

    left: float
    top: float
    right: float
    bottom: float

    @property
    def area(self) -> float:
        """The area as a share of the picture."""
        return (self.right - self.left) * (self.bottom - self.top)

    def pixels(self, width: int, height: int) -> tuple[int, int, int, int]:
        """The pixels that the box touches: left, top, right, bottom; at least one."""
        left = min(math.floor(self.left * width + SLACK), width - 1)
        top = min(math.floor(self.top * height + SLACK), height - 1)
        right = max(math.ceil(self.right * width - SLACK), left + 1)
        bottom = max(math.ceil(self.bottom * height - SLACK), top + 1)
        return left, top, min(right, width), min(bottom, height)


WHOLE = Box(0.0, 0.0, 1.0, 1.0)


def as_box(given: Any, width: int, height: int) -> Box:
    """Convert a user's box: left, top, right, bottom in pixels, or as shares.

    Numbers that are all between 0 and 1 are shares; anything else is pixels.

    Parameters
    ----------
    given : sequence of four numbers
    width, height : int
        Of the upright picture, in pixels.

    Raises
    ------
    InvalidBox
        If it is not four numbers, or is empty or outside of the picture.
    """
    numbers = _four_numbers(given)
    shares = max(numbers) <= 1.0
    across, down = (1.0, 1.0) if shares else (float(width), float(height))
    left, top, right, bottom = numbers
    size = "" if shares else f" of {width} x {height} pixels"
    if left < 0.0 or top < 0.0 or right > across or bottom > down:
        raise InvalidBox(f"the box {_written(numbers)} reaches outside of the picture{size}")
    if right <= left or bottom <= top:
        raise InvalidBox(
            f"the box {_written(numbers)} is empty; a box is left, top, right, bottom with left < "
            "right and top < bottom"
        )
    return rounded((left / across, top / down, right / across, bottom / down))


def rounded(numbers: Iterable[float]) -> Box:
    """A box as shares, rounded to a millionth, and never empty."""
    # Zero is added because SQLite stores -0.0 as 0.0, and checksums tell the two apart.
    left, top, right, bottom = (
        min(max(round(float(number), DECIMALS) + 0.0, 0.0), 1.0) for number in numbers
    )
    least = 10.0**-DECIMALS
    if right - left < least:
        left, right = (left, left + least) if left + least <= 1.0 else (1.0 - least, 1.0)
    if bottom - top < least:
        top, bottom = (top, top + least) if top + least <= 1.0 else (1.0 - least, 1.0)
    return Box(left, top, round(right, DECIMALS), round(bottom, DECIMALS))


def areas(boxes: Boxes) -> Boxes:
    """The area of each box."""
    sides = np.clip(boxes[:, 2:] - boxes[:, :2], 0.0, None)
    return np.asarray(sides[:, 0] * sides[:, 1])


def overlap(a: Boxes, b: Boxes) -> Boxes:
    """Intersection over union of every box of a with every box of b."""
    common = _intersections(a, b)
    union = areas(a)[:, None] + areas(b)[None, :] - common
    return np.divide(common, union, out=np.zeros_like(common), where=union > 0.0)


def inside(a: Boxes, b: Boxes) -> Boxes:
    """The share of every box of a that is inside every box of b."""
    common, own = _intersections(a, b), areas(a)[:, None]
    return np.divide(common, own, out=np.zeros_like(common), where=own > 0.0)


def suppressed(
    boxes: Boxes, scores: Boxes, *, most_overlap: float, most: int | None = None
) -> Indices:
    """Non-maximum suppression: the boxes kept, best first."""
    return _suppress(boxes, scores, most_overlap, 1.0, most)


def merged(
    boxes: Boxes,
    scores: Boxes,
    *,
    most_overlap: float = SAME_OVERLAP,
    most_inside: float = SAME_INSIDE,
) -> Indices:
    """One box for each thing, best first.

    As :func:`suppressed`, and a box that is mostly inside a better one, or mostly contains it, is
    removed, too: a head is a part of its animal.
    """
    return _suppress(boxes, scores, most_overlap, most_inside, None)


def _suppress(
    boxes: Boxes, scores: Boxes, most_overlap: float, most_inside: float, most: int | None
) -> Indices:
    order = np.argsort(-scores, kind="stable")
    boxes = boxes[order]
    own = areas(boxes)
    kept: list[int] = []
    free = np.arange(len(boxes))
    while len(free) and (most is None or len(kept) < most):
        best, rest = free[0], free[1:]
        kept.append(int(best))
        common = _intersections(boxes[best][None], boxes[rest])[0]
        union = own[best] + own[rest] - common
        smaller = np.minimum(own[best], own[rest])
        # Products instead of quotients, which are undefined for empty boxes.
        duplicate = (common > most_overlap * union) | (common > most_inside * smaller)
        free = rest[~duplicate]
    return order[np.array(kept, dtype=np.intp)]


def _intersections(a: Boxes, b: Boxes) -> Boxes:
    corner = np.maximum(a[:, None, :2], b[None, :, :2])
    opposite = np.minimum(a[:, None, 2:], b[None, :, 2:])
    sides = np.clip(opposite - corner, 0.0, None)
    return np.asarray(sides[..., 0] * sides[..., 1])


def _four_numbers(given: Any) -> Sequence[float]:
    try:
        numbers = [float(number) for number in given]
    except (TypeError, ValueError):
        numbers = []
    if len(numbers) != 4 or isinstance(given, (str, bytes)):
        raise InvalidBox(f"a box needs four numbers, left, top, right, bottom, not {given!r:.80}")
    if not all(math.isfinite(number) for number in numbers):
        raise InvalidBox(f"the box {_written(numbers)} holds NaN or infinity")
    return numbers


def _written(numbers: Sequence[float]) -> str:
    return "(" + ", ".join(f"{number:g}" for number in numbers) + ")"
