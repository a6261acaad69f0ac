"""A Memory from which everything is taken back stays a Memory."""

import numpy as np
import pytest

from everlearn import Memory, NearestClassMean, StreamingLDA
from everlearn.memory.storage.journal import WINDOW


def taught(path, count, classifier=None):
    rng = np.random.default_rng(5)
    memory = Memory(path, classifier=classifier)
    for number, vector in enumerate(rng.normal(size=(count, 12))):
        memory.teach(vector, f"name {number % 3}", source="/shelf/picture")
    return memory


@pytest.mark.parametrize("count", [WINDOW - 1, WINDOW, WINDOW + 44])
@pytest.mark.parametrize("classifier", [None, StreamingLDA(), NearestClassMean()])
def test_forgetting_everything_leaves_a_memory_that_opens_and_learns(tmp_path, count, classifier):
    with taught(tmp_path / "m", count, classifier) as memory:
        memory.forget(source="/shelf")
    for _ in range(2):
        with Memory(tmp_path / "m") as memory:
            assert memory.names() == {}
            assert memory.ask(np.ones(12)).unknown
            assert memory.verify().ok
    with Memory(tmp_path / "m") as memory:
        memory.undo()
        assert sum(record.count for record in memory.names().values()) == count
    with Memory(tmp_path / "m", read_only=True) as memory:
        assert len(memory.ask(np.ones(12))) == 3
        assert memory.verify().ok


def test_undoing_everything_leaves_a_memory_that_opens_and_learns(tmp_path):
    rng = np.random.default_rng(6)
    with Memory(tmp_path / "m") as memory:
        memory.teach_many((vector, "cup") for vector in rng.normal(size=(WINDOW + 10, 12)))
        memory.undo()
    with Memory(tmp_path / "m") as memory:
        assert memory.verify().ok
        memory.teach(np.ones(12), "pen")
        assert memory.ask(np.ones(12))[0].name == "pen"
