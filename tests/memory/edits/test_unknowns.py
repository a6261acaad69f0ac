"""Unknown pictures are kept, grouped, named, ignored and dropped."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from everlearn import Memory
from everlearn.cli.app import app
from everlearn.errors import DamagedJournal, InvalidInput
from everlearn.images.embedders import Pixels
from everlearn.memory.edits import unknowns
from everlearn.memory.edits.writing import COLUMNS
from everlearn.memory.storage.rows import row_checksum


@pytest.fixture
def visited(tmp_path, rng):
    """A Memory of four things, asked about two unknown ones; and a function that draws them."""
    centres = rng.normal(size=(6, 24))

    def draw(kind):
        return (centres[kind] + 0.25 * rng.normal(size=24)).astype(np.float32)

    with Memory(tmp_path / "memory") as memory:
        memory.teach_many((draw(i % 4), f"thing {i % 4}") for i in range(160))
        for index in range(9):
            memory.ask(draw(4 + index % 3 // 2), remember=True)
        memory.ask(draw(0), remember=True)
        yield memory, draw


def test_similar_unknown_pictures_form_one_group(visited):
    memory, _ = visited
    first, second = memory.unknowns()
    assert (first.count, second.count) == (6, 3)
    assert first.likely.startswith("thing")
    assert set(first.examples) | set(second.examples) == set(range(1, 10))


def test_naming_a_group_teaches_it_and_can_be_undone(visited):
    memory, draw = visited
    group = memory.unknowns()[0]
    assert memory.name_unknowns(group.id, "newcomer") == 6
    answers = memory.ask(draw(4))
    assert answers[0].name == "newcomer"
    assert not answers.unknown
    assert [g.count for g in memory.unknowns()] == [3]
    undone = memory.undo()
    assert (undone.kind, undone.count, undone.names) == ("name", 6, ("newcomer",))
    assert memory.ask(draw(4)).unknown


def test_an_ignored_group_is_answered_as_ignored(visited):
    memory, draw = visited
    first, second = memory.unknowns()
    memory.ignore_unknowns(second.id)
    answers = memory.ask(draw(5), remember=True)
    assert answers.unknown
    assert answers.ignored
    assert not memory.ask(draw(4)).ignored
    assert [(g.count, g.ignored) for g in memory.unknowns()] == [(6, False), (3, True)]
    memory.drop_unknowns(first.id)
    assert [g.count for g in memory.unknowns()] == [3]
    with pytest.raises(InvalidInput, match="there is no group 99"):
        memory.drop_unknowns(99)


def test_a_group_is_found_by_any_of_its_members(visited):
    memory, _ = visited
    first, second = memory.unknowns()
    assert memory.name_unknowns(first.examples[-1], "newcomer") == 6
    memory.drop_unknowns(second.examples[1])
    assert memory.unknowns() == []


def grouped(memory):
    return [(g.id, g.examples, g.ignored) for g in memory.unknowns()]


def test_operations_on_groups_are_undone_and_redone_in_order(visited):
    memory, draw = visited
    first, second = memory.unknowns()
    seen = [grouped(memory)]
    memory.ignore_unknowns(second.id)
    seen.append(grouped(memory))
    memory.drop_unknowns(second.id)
    seen.append(grouped(memory))
    memory.name_unknowns(first.id, "newcomer")
    seen.append(grouped(memory))
    assert [len(groups) for groups in seen] == [2, 2, 1, 0]
    changes = [
        "name, 6 teachings (newcomer)",
        "drop, 3 unknown pictures",
        "ignore, 3 unknown pictures",
    ]
    assert [change.about for change in memory.history(3)] == changes
    for about, before in zip(changes, reversed(seen[:-1]), strict=True):
        assert memory.would_undo().about == about
        assert memory.undo().about == about
        assert grouped(memory) == before
    assert "newcomer" not in memory.names()
    assert not memory.ask(draw(5)).ignored
    for about, after in zip(reversed(changes), seen[1:], strict=True):
        assert memory.redo().about == about
        assert grouped(memory) == after
    assert memory.names()["newcomer"].count == 6
    assert memory.verify().problems == ()


def test_undoing_a_drop_does_not_duplicate_a_picture_kept_again(visited):
    memory, draw = visited
    x = draw(5)
    memory.ask(x, remember=True)
    before = sorted(number for group in memory.unknowns() for number in group.examples)
    for group in memory.unknowns():
        memory.drop_unknowns(group.id)
    memory.ask(x, remember=True)
    memory.undo()
    memory.undo()
    after = sorted(number for group in memory.unknowns() for number in group.examples)
    # The picture that was asked about again has a number that was never used before.
    assert after == [*before[:-1], before[-1] + 1]


def test_dropped_pictures_are_evicted_first(visited, monkeypatch):
    memory, draw = visited
    kept, dropped = memory.unknowns()
    memory.drop_unknowns(dropped.id)
    monkeypatch.setattr(unknowns, "MOST", 9)
    memory.ask(draw(4), remember=True)
    assert {*kept.examples, 10} == {n for group in memory.unknowns() for n in group.examples}
    assert memory.undo().about == "drop, 2 unknown pictures"
    assert {*kept.examples, 10, *dropped.examples[1:]} == {
        number for group in memory.unknowns() for number in group.examples
    }


def in_a_file(memory, x):
    return any(x.tobytes() in path.read_bytes() for path in memory.path.iterdir())


def test_an_erase_removes_dropped_pictures(visited):
    memory, draw = visited
    x = draw(5)
    memory.ask(x, remember=True)
    for group in memory.unknowns():
        memory.drop_unknowns(group.id)
    assert in_a_file(memory, x)
    memory.forget(name="thing 0", erase=True)
    assert not in_a_file(memory, x)


def test_the_number_of_unknown_pictures_is_limited_and_they_persist(visited, monkeypatch):
    memory, draw = visited
    monkeypatch.setattr(unknowns, "MOST", 12)
    for _ in range(10):
        memory.ask(draw(4), remember=True)
    assert sum(group.count for group in memory.unknowns()) == 12
    memory.close()
    with Memory(memory.path, read_only=True) as reader:
        assert sum(group.count for group in reader.unknowns()) == 12


def test_an_altered_unknown_picture_is_detected(visited):
    memory, _ = visited
    memory._opened.journal.db.run("UPDATE strangers SET source = 'x' WHERE id = 2")
    with pytest.raises(DamagedJournal, match="unknown image"):
        memory.unknowns()


def test_an_erased_picture_is_removed_from_the_unknowns(visited):
    memory, draw = visited
    x = draw(4)
    memory.ask(x, remember=True)
    memory.teach(x, "somebody")
    memory.forget(x, erase=True)
    assert not in_a_file(memory, x)


def test_commands(visited):
    memory, _ = visited
    memory.close()

    def run(*words):
        result = CliRunner().invoke(app, ["-m", str(memory.path), *map(str, words)])
        assert result.exit_code == 0, result.output
        return result.stdout

    assert run("strangers").splitlines()[1].split("\t")[1] == "6"
    group = run("strangers").splitlines()[1].split("\t")[0]
    assert "taught 6 pictures as newcomer" in run("name", group, "newcomer")
    assert "undone: name, 6 teachings (newcomer)" in run("undo")
    assert len(run("strangers", "--drop", group).splitlines()) == 2
    assert "undone: drop, 6 unknown pictures\n" in run("undo")
    assert "ignored" in run("strangers", "--ignore", group)
    assert "undone: ignore, 6 unknown pictures\n" in run("undo")
    assert run("strangers").splitlines()[1].split("\t")[:2] == [group, "6"]


def test_the_files_of_a_group_are_listed(tmp_path, rng):
    """By the command, in its table and as JSON; of many files the first five."""

    def pictures(kind, count, low, high):
        for number in range(count):
            path = tmp_path / kind / f"{number}.png"
            path.parent.mkdir(exist_ok=True)
            Image.fromarray(rng.integers(low, high, (8, 8, 3), dtype=np.uint8)).save(path)
            yield path

    with Memory(tmp_path / "memory", embedder=Pixels(size=8)) as memory:
        memory.teach_many((path, "dark") for path in pictures("dark", 12, 0, 40))
        base = np.zeros((8, 8, 3), dtype=np.uint8)
        base[:, 4:] = 250
        asked = []
        for path in pictures("stripe", 7, 0, 3):
            Image.fromarray(base + rng.integers(0, 3, base.shape, dtype=np.uint8)).save(path)
            asked.append(path)
            assert memory.ask(path, remember=True).unknown
    command = ["-m", str(tmp_path / "memory"), "--network", "pixels-8", "strangers"]
    shown = CliRunner().invoke(app, command).stdout
    files = {str(path) for path in asked}
    (row,) = shown.splitlines()[1:]
    first, more = row.split("\t")[-1].split(" and ")
    assert set(first.split(", ")) < files
    assert (len(first.split(", ")), more) == (5, "2 more")
    (group,) = json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout)
    assert set(group["sources"]) == files


@pytest.mark.parametrize(
    "states", ["1:-2", "1", "0:1", "1:0  2:0", "x:1", "1:0,2:0", "9" * 30 + ":0"]
)
def test_impossible_states_of_unknowns_are_detected(visited, states):
    memory, _ = visited
    memory.drop_unknowns(1)
    journal = memory._opened.journal
    row = journal.db.row(f"SELECT {COLUMNS} FROM operations ORDER BY id DESC LIMIT 1")
    forged = (*row[:-1], states)
    with journal.transaction():
        journal.db.replace("operations", *forged, row_checksum("operations", *forged))
    memory.close()
    with pytest.raises(DamagedJournal, match="of operations was altered"):
        Memory(memory.path)
