"""Boxes: accepted input, and overlaps against counted pixels."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everlearn.errors import InvalidBox
from everlearn.regions.boxes import (
    Box,
    as_box,
    inside,
    merged,
    overlap,
    rounded,
    suppressed,
)

SIDE = 12
cells = st.integers(0, SIDE - 1)


@st.composite
def grid_boxes(draw: st.DrawFn) -> np.ndarray:
    left, top = draw(cells), draw(cells)
    right, bottom = draw(st.integers(left + 1, SIDE)), draw(st.integers(top + 1, SIDE))
    return np.array([left, top, right, bottom], dtype=np.float64) / SIDE


def painted(box: np.ndarray) -> np.ndarray:
    canvas = np.zeros((SIDE, SIDE), dtype=bool)
    left, top, right, bottom = np.rint(box * SIDE).astype(int)
    canvas[top:bottom, left:right] = True
    return canvas


@given(grid_boxes(), grid_boxes())
def test_overlap_and_inside_are_shares_of_counted_cells(a, b) -> None:
    first, second = painted(a), painted(b)
    common, union = (first & second).sum(), (first | second).sum()
    assert overlap(a[None], b[None])[0, 0] == pytest.approx(common / union)
    assert inside(a[None], b[None])[0, 0] == pytest.approx(common / first.sum())


def naive_suppression(boxes, scores, most_overlap, most_inside):
    kept: list[int] = []
    for index in sorted(range(len(boxes)), key=lambda i: (-scores[i], i)):
        a = boxes[index][None]
        if all(
            overlap(a, boxes[k][None])[0, 0] <= most_overlap + 1e-12
            and inside(a, boxes[k][None])[0, 0] <= most_inside + 1e-12
            and inside(boxes[k][None], a)[0, 0] <= most_inside + 1e-12
            for k in kept
        ):
            kept.append(index)
    return kept


@given(st.lists(st.tuples(grid_boxes(), st.integers(0, 5)), max_size=12))
def test_merging_equals_a_naive_loop(pairs) -> None:
    boxes = np.array([box for box, _ in pairs]).reshape(-1, 4)
    scores = np.array([score for _, score in pairs], dtype=np.float64)
    # Thresholds that no ratio of cells meets exactly.
    found = merged(boxes, scores, most_overlap=0.4003, most_inside=0.7003)
    assert found.tolist() == naive_suppression(boxes, scores, 0.4003, 0.7003)
    plain = suppressed(boxes, scores, most_overlap=0.6003)
    assert plain.tolist() == naive_suppression(boxes, scores, 0.6003, 1.0)
    assert suppressed(boxes, scores, most_overlap=0.6003, most=2).tolist() == plain.tolist()[:2]


def test_pixels_and_shares_are_the_same_box() -> None:
    assert as_box((16, 12, 48, 36), 64, 48) == as_box((0.25, 0.25, 0.75, 0.75), 64, 48)
    assert as_box((0, 0, 1, 1), 64, 48) == Box(0.0, 0.0, 1.0, 1.0)
    assert as_box(np.array([0, 0, 64, 48]), 64, 48) == Box(0.0, 0.0, 1.0, 1.0)


@pytest.mark.parametrize(
    "given_box",
    [
        (10, 10, 10, 20),
        (20, 10, 10, 20),
        (0, 0, 65, 48),
        (-1, 0, 10, 10),
        (-0.1, 0, 0.5, 0.5),
        (0, 0, math.nan, 1),
        (0, 0, math.inf, 1),
        (0, 0, 1),
        "0011",
        "auto ",
        None,
        7,
        (0, 0, 1, "x"),
    ],
)
def test_invalid_boxes_raise_a_named_error(given_box) -> None:
    with pytest.raises(InvalidBox):
        as_box(given_box, 64, 48)


@given(st.lists(st.floats(-1, 2), min_size=4, max_size=4))
def test_a_rounded_box_lies_in_the_picture_and_is_not_empty(numbers) -> None:
    left, top, right, bottom = numbers
    box = rounded((min(left, right), min(top, bottom), max(left, right), max(top, bottom)))
    assert 0.0 <= box.left < box.right <= 1.0
    assert 0.0 <= box.top < box.bottom <= 1.0
    assert rounded(box) == box


@given(st.integers(1, 300), st.integers(1, 300), st.data())
def test_a_box_of_whole_pixels_comes_back_as_those_pixels(width, height, data) -> None:
    left = data.draw(st.integers(0, width - 1))
    top = data.draw(st.integers(0, height - 1))
    right = data.draw(st.integers(left + 1, width))
    bottom = data.draw(st.integers(top + 1, height))
    if right <= 1 and bottom <= 1:
        return  # reads as shares
    box = as_box((left, top, right, bottom), width, height)
    assert box.pixels(width, height) == (left, top, right, bottom)
