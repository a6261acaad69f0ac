"""Boxes and background are the same in every storage, bit for bit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everlearn import Memory, Pixels
from everlearn.memory.storage.regions import with_box, without_box
from everlearn.regions import region_embedder
from everlearn.regions.boxes import Box, rounded
from tests.memory.test_finding import (
    SquareFinder,
    SquareProposer,
    find_weights,
    scene,
    square,
)


@pytest.fixture(autouse=True)
def no_networks(monkeypatch):
    monkeypatch.setattr(region_embedder, "Proposer", SquareProposer)
    monkeypatch.setattr(region_embedder, "MainThing", SquareFinder)


def edited(place) -> tuple[list, np.ndarray, list]:
    """Teach, forget, undo, erase; the remaining rows, and the weights for finding things."""
    with Memory(place, embedder=Pixels(size=6, colour=True), regions="things") as memory:
        both = scene(1, ("red", 0, 0), ("blue", 80, 80))
        memory.teach(both, "red", box=square(0, 0))
        memory.teach(both, "blue", box=square(80, 80))
        assert not memory.teach(both, "red", box=square(0, 0))
        memory.teach(scene(2, ("green", 40, 40)), "green", box=square(40, 40))
        memory.forget(name="green")
        memory.undo()
        memory.teach(scene(3, ("red", 60, 10)), "red")
        memory.forget(name="green", erase=True)
        assert memory.verify().ok
        boxes = [(t.name, t.box) for t in memory.teachings()]
        things = [(t.name, t.box) for t in memory.find(scene(50, ("red", 20, 20)))]
        return boxes, find_weights(memory), things


def test_every_storage_keeps_the_same_boxes(where, tmp_path) -> None:
    boxes, weights, things = edited(where)
    expected = edited(tmp_path / "plain")
    assert boxes == expected[0]
    assert np.array_equal(weights, expected[1])
    assert things == expected[2]


def test_a_box_at_minus_zero_is_stored_as_zero(where) -> None:
    """SQLite stores -0.0 as 0.0, PostgreSQL keeps the sign."""
    with Memory(where, embedder=Pixels(size=6, colour=True)) as memory:
        picture = scene(1, ("red", 0, 0))
        assert memory.teach(picture, "red", box=(-0.0, -0.0, 0.5, 0.5))
        assert not memory.teach(picture, "red", box=(0.0, 0.0, 0.5, 0.5))
        (taught,) = memory.teachings()
        assert repr(taught.box) == repr(Box(0.0, 0.0, 0.5, 0.5))
        assert memory.verify().ok


@settings(deadline=None)
@given(
    source=st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
    | st.sampled_from(["a#xywh=", "b#xywh=percent:1.0000,2.0000,3.0000,4.0000", "c#xywh=#xywh="]),
    edges=st.none() | st.tuples(*[st.floats(0.0, 1.0)] * 4),
)
def test_a_source_with_a_box_is_split_again(source, edges) -> None:
    box = None
    if edges is not None:
        left, top, right, bottom = edges
        box = rounded((min(left, right), min(top, bottom), max(left, right), max(top, bottom)))
    assert without_box(with_box(source, box)) == (source, box)


def test_a_box_is_appended_to_a_source_as_a_media_fragment() -> None:
    """Media Fragments URI 1.0, 4.2.2: x, y, width and height in percent."""
    written = with_box("photo.jpg", Box(0.1, 0.2, 0.4, 0.6))
    assert written == "photo.jpg#xywh=percent:10.0000,20.0000,30.0000,40.0000"
