"""Boxes and background are the same in every storage, bit for bit."""

import numpy as np
import pytest

from everlearn import Memory, Pixels
from everlearn.regions import looking
from tests.memory.test_finding import (
    SquareFinder,
    SquareProposer,
    find_weights,
    scene,
    square,
)


@pytest.fixture(autouse=True)
def no_networks(monkeypatch):
    monkeypatch.setattr(looking, "Proposer", SquareProposer)
    monkeypatch.setattr(looking, "MainThing", SquareFinder)


def lived(place) -> tuple[list, np.ndarray, list]:
    """Teach, forget, undo, erase; what is left, and what things are found by."""
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


def test_a_storage_keeps_boxes_as_a_folder_does(where, tmp_path) -> None:
    boxes, weights, things = lived(where)
    expected = lived(tmp_path / "plain")
    assert boxes == expected[0]
    assert np.array_equal(weights, expected[1])
    assert things == expected[2]
