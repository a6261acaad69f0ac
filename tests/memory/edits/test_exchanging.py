"""A Memory in parts that are sent one by one."""

import numpy as np
import pytest

from everlearn import Memory, Pixels
from everlearn.errors import AlreadyThere, CannotWrite


@pytest.fixture
def memory(tmp_path, rng):
    """Twenty pictures of two names; one has both, one was forgotten, one was taught again."""
    X = rng.normal(size=(20, 8)).astype(np.float32)
    with Memory(tmp_path / "memory") as opened:
        opened.teach_many((x, f"name {i % 2}") for i, x in enumerate(X))
        opened.teach(X[0], "name 1", also=True)
        opened.forget(X[3])
        opened.forget(X[4], erase=True)
        opened.teach(X[4], "name 0")
        yield opened


@pytest.mark.parametrize("most_bytes", [1, 8_000, 10**9])
def test_merging_all_parts_equals_merging_the_memory(memory, tmp_path, rng, most_bytes):
    """Also what was forgotten after a first merge."""
    other = rng.normal(size=(3, 8)).astype(np.float32)
    with Memory(tmp_path / "whole") as whole, Memory(tmp_path / "sent") as sent:
        for receiver in (whole, sent):
            receiver.teach_many((x, "other") for x in other)
        whole.merge(memory)
        files = list(memory.parts(tmp_path / "parts", most_bytes))
        assert (len(files) > 10, len(files) == 1) == (most_bytes == 1, most_bytes == 10**9)
        done = [sent.merge(path.parent) for path in files]
        assert sum(done) == 20
        assert not any(one.conflicts for one in done)
        assert sent.counting() == whole.counting() >= memory.counting()
        memory.forget(name="name 1")
        again = [sent.merge(path.parent) for path in memory.parts(tmp_path / "again", most_bytes)]
        assert sum(one.forgotten for one in again) == whole.merge(memory).forgotten == 10
        assert sent.counting() == whole.counting()
        assert sent.verify().ok


@pytest.mark.parametrize("erase", [False, True])
@pytest.mark.parametrize("most_bytes", [1, 10**9])
def test_parts_pass_on_that_one_of_many_boxes_was_forgotten(tmp_path, rng, most_bytes, erase):
    picture = rng.integers(0, 255, (64, 64, 3), dtype=np.uint8)
    corners = [(0.1 * i, 0.05 * i, 0.1 * i + 0.2, 0.05 * i + 0.3) for i in range(8)]
    with (
        Memory(tmp_path / "memory", embedder=Pixels(size=4)) as memory,
        Memory(tmp_path / "sent", embedder=Pixels(size=4)) as sent,
    ):
        for box in (*corners, None):
            memory.teach(picture, "cup", box=box)
        memory.teach(picture, "mug", box=corners[3], also=True)
        files = list(memory.parts(tmp_path / "parts", most_bytes))
        # Only the box with two names has to be sent with the last part.
        assert len(files) == (9 if most_bytes == 1 else 1)
        done = [sent.merge(path.parent) for path in files]
        assert (sum(done), sum(len(one.conflicts) for one in done)) == (10, 0)
        assert sent.counting() == memory.counting()
        memory.forget(id=1, erase=erase)
        memory.forget(id=4, erase=erase)
        memory.forget(id=9, erase=erase)
        memory.teach(picture, "cup", box=corners[0])
        again = [sent.merge(path.parent) for path in memory.parts(tmp_path / "two", most_bytes)]
        assert sum(one.forgotten for one in again) == 2
        assert sent.counting() == memory.counting()
        assert len(sent.counting()) == 8
        assert sum(memory.merge(path.parent) for path in sent.parts(tmp_path / "back", 1)) == 0
        assert sent.verify().ok


def test_parts_are_never_written_over_existing_files(memory, tmp_path):
    list(memory.parts(tmp_path / "parts", 8_000))
    before = sorted((path, path.stat().st_size) for path in (tmp_path / "parts").rglob("*"))
    with pytest.raises(AlreadyThere, match="new folder"):
        list(memory.parts(tmp_path / "parts", 8_000))
    assert sorted((path, path.stat().st_size) for path in (tmp_path / "parts").rglob("*")) == before
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(CannotWrite, match="cannot be created"):
        list(memory.parts(tmp_path / "file", 8_000))
