"""Calls of one group are one operation, which undo reverts as a whole."""

import pytest
from click.testing import CliRunner

from everlearn import Memory
from everlearn.cli.app import app
from everlearn.errors import ChangedMeanwhile, InvalidInput, NothingToUndo


@pytest.fixture
def vectors(rng):
    return iter(rng.normal(size=(200, 6)))


def taught(memory, vectors, count, name, group):
    for _ in range(count):
        assert memory.teach(next(vectors), name, group=group)


def counted(memory):
    return {name: record.count for name, record in memory.names().items()}


def test_calls_of_one_group_are_one_operation_even_after_reopening(tmp_path, vectors):
    with Memory(tmp_path / "m") as memory:
        taught(memory, vectors, 5, "cup", "first drop")
    with Memory(tmp_path / "m") as memory:
        taught(memory, vectors, 4, "cup", "first drop")
        taught(memory, vectors, 7, "pen", "second drop")
        assert [(change.kind, change.count) for change in memory.history()] == [
            ("teach", 7),
            ("teach", 9),
        ]
        assert memory.undo().count == 7
        assert counted(memory) == {"cup": 9}
        assert memory.redo().count == 7
        memory.undo()
        memory.undo()
        assert counted(memory) == {}
        assert memory.verify().ok


def test_another_change_ends_a_group(tmp_path, vectors):
    with Memory(tmp_path / "m") as memory:
        taught(memory, vectors, 3, "cup", "drop")
        memory.teach(next(vectors), "pen")
        taught(memory, vectors, 2, "cup", "drop")
        assert memory.undo().count == 2
        assert memory.undo().names == ("pen",)
        assert memory.undo().count == 3


def test_an_undone_group_is_not_continued(tmp_path, vectors):
    with Memory(tmp_path / "m") as memory:
        taught(memory, vectors, 3, "cup", "drop")
        memory.undo()
        taught(memory, vectors, 2, "cup", "drop")
        assert counted(memory) == {"cup": 2}
        assert memory.undo().count == 2
        with pytest.raises(NothingToUndo):
            memory.undo()


def test_undo_is_refused_if_a_newer_operation_exists(tmp_path, vectors):
    with Memory(tmp_path / "m") as memory:
        taught(memory, vectors, 3, "cup", "drop")
        meant = memory.would_undo()
        assert (meant.kind, meant.count, meant.names) == ("teach", 3, ("cup",))
        memory.teach(next(vectors), "pen")
        with pytest.raises(ChangedMeanwhile, match=r"pen.*Nothing was changed"):
            memory.undo(meant.id)
        assert counted(memory) == {"cup": 3, "pen": 1}
        memory.undo(memory.would_undo().id)
        again = memory.would_redo()
        memory.undo(meant.id)
        with pytest.raises(ChangedMeanwhile):
            memory.redo(again.id)
        assert memory.redo(meant.id).count == 3


@pytest.mark.parametrize("group", ["", 7, "ü", "x" * 101])
def test_a_group_is_a_plain_word(tmp_path, vectors, group):
    with Memory(tmp_path / "m") as memory:
        with pytest.raises(InvalidInput, match="a group is a word"):
            memory.teach(next(vectors), "cup", group=group)
        assert memory.history() == []


def test_the_command_names_the_operation_before_it_acts(tmp_path, vectors):
    with Memory(tmp_path / "m") as memory:
        taught(memory, vectors, 6, "cup", "drop")
    result = CliRunner().invoke(app, ["-m", str(tmp_path / "m"), "undo"])
    assert result.stderr == "undoing: teach, 6 teachings (cup)\n"
    assert result.stdout == "undone: teach, 6 teachings (cup)\n"
    result = CliRunner().invoke(app, ["-m", str(tmp_path / "m"), "redo"])
    assert result.stderr == "redoing: teach, 6 teachings (cup)\n"
