"""Merging two Memories: what was forgotten or erased stays so, and the later change wins."""

import hashlib
import json
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from everlearn import Memory
from everlearn.cli.app import app
from everlearn.images.embedders import Pixels
from everlearn.memory.edits.merging import are_equal
from everlearn.memory.storage.log import counting_examples
from everlearn.memory.storage.rows import Example, TaughtBox
from everlearn.regions.boxes import Box

GOLDEN = Path(__file__).parents[2] / "golden" / "0.1" / "memory"


@pytest.fixture
def two(tmp_path):
    with Memory(tmp_path / "a") as a, Memory(tmp_path / "b") as b:
        yield a, b


def vector(number):
    return np.random.default_rng(number).normal(size=8).astype(np.float32)


def teach(memory, numbers, name):
    for number in numbers:
        memory.teach(vector(number), name, source=f"/{number}")


def counts(memory):
    return {name: record.count for name, record in memory.names().items()}


def leaves_no_trace(memory, name):
    data = b"".join(path.read_bytes() for path in memory.path.iterdir())
    return name.encode() not in data


@pytest.mark.parametrize("erase", [False, True])
def test_a_merge_does_not_bring_back_forgotten_teachings(two, erase):
    a, b = two
    teach(a, range(4), "cup")
    teach(a, range(10, 13), "secret person")
    b.merge(a)
    a.forget(name="secret person", erase=erase)
    done = a.merge(b)
    assert (done, done.kept_out) == (0, 3)
    assert counts(a) == {"cup": 4}
    assert not erase or leaves_no_trace(a, "secret person")


@pytest.mark.parametrize("erase", [False, True])
def test_a_forget_is_passed_on_by_sync(two, erase):
    a, b = two
    teach(a, range(4), "cup")
    teach(a, range(10, 13), "pen")
    b.merge(a)
    a.forget(name="pen", erase=erase)
    done = b.merge(a)
    assert (done.forgotten, done.erased) == (3, 3 if erase else 0)
    assert counts(b) == {"cup": 4}
    assert b.verify().ok
    b.undo()
    assert counts(b) == {"cup": 4, "pen": 3}


@pytest.mark.parametrize("per_lookup", [0, 10**9])
def test_both_ways_to_look_up_pictures_merge_identically(two, per_lookup, monkeypatch):
    """One by one (0), or by reading everything that counts."""
    monkeypatch.setattr("everlearn.memory.edits.merging.ROWS_PER_LOOKUP", per_lookup)
    a, b = two
    teach(a, range(30), "cup")
    teach(a, range(40, 43), "pen")
    b.merge(a)
    b.forget(name="pen")
    teach(b, range(60, 62), "lamp")
    b.teach(vector(3), "mug", source="/3", also=True)
    read = []
    rows = a._opened.journal.db.rows
    with monkeypatch.context() as patched:
        patched.setattr(
            a._opened.journal.db, "rows", lambda *q: (found := rows(*q), read.append(len(found)))[0]
        )
        done = a.merge(b)
    assert (done, done.forgotten) == (3, 3)
    assert counts(a) == {"cup": 30, "lamp": 2, "mug": 1}
    assert counts(a) == counts(b)
    # Looked up one by one, no query returns more than the names of a few pictures.
    assert (max(read) >= 30) == (per_lookup > 0)


def test_a_tombstone_is_passed_on_to_a_third_memory(two, tmp_path):
    a, b = two
    teach(a, range(3), "cup")
    with Memory(tmp_path / "c") as c:
        c.merge(a)
        a.forget(name="cup", erase=True)
        teach(b, range(5, 7), "pen")
        b.merge(a)
        assert c.merge(b).forgotten == 3
        assert counts(c) == {"pen": 2}


def test_a_tombstone_reveals_nothing_without_its_salt(two):
    """It is no digest of picture and name, which could be guessed, and differs between Memories."""
    left = []
    for memory in two:
        teach(memory, range(3), "cup")
        db = sqlite3.connect(memory.path / "journal.sqlite")
        pairs = [bytes(row[0]) + b"cup" for row in db.execute("SELECT digest FROM teachings")]
        memory.forget(name="cup", erase=True)
        facts = [row[0] for row in db.execute("SELECT key FROM facts WHERE key LIKE 'tombstone %'")]
        left.append({fact.split()[-1] for fact in facts})
        assert len(left[-1]) == 3
        assert not left[-1] & {hashlib.sha256(pair).hexdigest() for pair in pairs}
        db.close()
    assert not left[0] & left[1]


def test_teaching_again_after_forgetting_counts(two):
    a, b = two
    teach(a, range(3), "cup")
    b.merge(a)
    a.forget(name="cup", erase=True)
    teach(b, [7], "pen")
    a.merge(b)
    teach(a, range(3), "cup")
    done = a.sync(b)
    assert done.equal
    assert counts(a) == counts(b) == {"cup": 3, "pen": 1}


def test_sync_makes_both_equal(two):
    a, b = two
    teach(a, range(5), "cup")
    teach(b, range(3, 9), "cup")
    teach(b, range(20, 24), "pen")
    done = a.sync(b)
    assert (done.here, done.there, done.equal) == (8, 3, True)
    assert counts(a) == counts(b) == {"cup": 9, "pen": 4}
    again = a.sync(b)
    assert (again.here, again.there, again.equal) == (0, 0, True)


@pytest.mark.parametrize(("conflicts", "name"), [("list", None), ("here", "mug"), ("there", "cup")])
def test_a_picture_with_two_names_is_a_conflict(two, conflicts, name):
    a, b = two
    teach(a, [1, 2], "mug")
    teach(b, [1], "cup")
    done = a.sync(b, conflicts=conflicts)
    (conflict,) = done.here.conflicts
    assert (conflict.source, conflict.here, conflict.there) == ("/1", ("mug",), "cup")
    assert done.equal is (conflicts != "list")
    if name is None:
        assert (counts(a), counts(b)) == ({"mug": 2}, {"cup": 1, "mug": 1})
    else:
        expected = {"mug": 2} if name == "mug" else {"cup": 1, "mug": 1}
        assert counts(a) == counts(b) == expected


def test_all_conflicts_are_settled_by_one_operation(two):
    a, b = two
    teach(a, [1, 2, 3], "mug")
    teach(b, [1, 2], "cup")
    teach(b, [3], "pen")
    assert len(a.merge(b, conflicts="there").conflicts) == 3
    assert counts(a) == {"cup": 2, "pen": 1}
    undone = a.undo()
    assert (undone.kind, undone.count, undone.names) == ("correct", 3, ("cup", "mug", "pen"))
    assert counts(a) == {"mug": 3}


def test_a_picture_takes_every_name_that_it_has_there(two):
    a, b = two
    teach(a, [1], "mug")
    b.teach(vector(1), "cup")
    b.teach(vector(1), "glass", also=True)
    conflicts = a.merge(b, conflicts="there").conflicts
    assert [(one.here, one.there) for one in conflicts] == [(("mug",), "cup"), (("mug",), "glass")]
    assert counts(a) == counts(b) == {"cup": 1, "glass": 1}
    assert a.sync(b, conflicts="here").equal
    assert counts(a) == {"cup": 1, "glass": 1}


def boxed(folder, picture, **names):
    """A Memory with boxes in one picture, by name: the corner they are in, from 0 to 3."""
    memory = Memory(folder, embedder=Pixels(size=4))
    for name, corner in names.items():
        left, top = 0.5 * (corner % 2), 0.5 * (corner // 2)
        memory.teach(picture, name, box=(left, top, left + 0.5, top + 0.5))
    return memory


def places(memory):
    return {(one.name, one.box.left, one.box.top) for one in memory.teachings()}


def test_a_conflict_is_about_one_box_of_a_picture(tmp_path, rng):
    """Names of other boxes in the picture are no conflict, and are kept."""
    picture = rng.integers(0, 255, (64, 64, 3), dtype=np.uint8)
    with (
        boxed(tmp_path / "a", picture, red=0, blue=3) as a,
        boxed(tmp_path / "b", picture, crimson=0, green=2) as b,
    ):
        (conflict,) = a.merge(b).conflicts
        assert (conflict.here, conflict.there) == (("red",), "crimson")
        assert conflict.box == (0.0, 0.0, 0.5, 0.5)
        b.teach(picture, "red", box=(0.5, 0.0, 1.0, 0.5))
        (conflict,) = a.merge(b).conflicts
        assert (conflict.here, conflict.there) == (("red",), "crimson")
        assert a.sync(b, conflicts="there").equal
        everything = {("crimson", 0.0, 0.0), ("red", 0.5, 0.0), ("green", 0.0, 0.5)}
        assert places(a) == places(b) == {*everything, ("blue", 0.5, 0.5)}
        assert a.verify().ok


LEFT, RIGHT = (0.0, 0.0, 0.5, 0.5), (0.5, 0.5, 1.0, 1.0)


@pytest.fixture
def crowd(tmp_path, rng):
    """Two Memories that were taught two boxes of one picture, and all of it, under one name."""
    picture = rng.integers(0, 255, (64, 64, 3), dtype=np.uint8)
    with (
        Memory(tmp_path / "a", embedder=Pixels(size=4)) as a,
        Memory(tmp_path / "b", embedder=Pixels(size=4)) as b,
    ):
        for box in (LEFT, RIGHT, None):
            assert a.teach(picture, "cup", box=box)
        a.teach(255 - picture, "pen")
        assert b.merge(a) == 4
        yield a, b, picture


def cups(memory):
    """The boxes taught as cup; ``None`` is the whole picture."""
    return {one.box for one in memory.teachings("cup")}


def number_of(memory, box):
    (number,) = [one.id for one in memory.teachings("cup") if one.box == box]
    return number


@pytest.mark.parametrize("per_lookup", [0, 10**9])
@pytest.mark.parametrize("erase", [False, True])
@pytest.mark.parametrize("gone", [LEFT, RIGHT, None])
def test_a_forgotten_box_stays_away_and_is_passed_on(crowd, gone, erase, per_lookup, monkeypatch):
    """Although the picture still counts under the same name, by another box or as a whole."""
    monkeypatch.setattr("everlearn.memory.edits.merging.ROWS_PER_LOOKUP", per_lookup)
    a, b, _ = crowd
    rest = {LEFT, RIGHT, None} - {gone}
    a.forget(id=number_of(a, gone), erase=erase)
    done = a.merge(b)
    assert (done, done.kept_out, cups(a)) == (0, 1, rest)
    done = b.merge(a)
    assert (done, done.forgotten, done.erased) == (0, 1, int(erase))
    assert cups(b) == rest
    assert counts(a) == counts(b) == {"cup": 2, "pen": 1}
    assert b.verify().ok
    b.undo()
    assert cups(b) == {LEFT, RIGHT, None}


@pytest.mark.parametrize("erase", [False, True])
def test_sync_is_equal_only_with_the_same_boxes(crowd, erase):
    a, b, picture = crowd
    a.forget(id=number_of(a, LEFT), erase=erase)
    b.forget(id=number_of(b, RIGHT), erase=erase)
    b.teach(picture, "cup", box=(0.0, 0.5, 0.5, 1.0))
    assert not are_equal(a.counting(), b.counting())
    done = a.sync(b)
    assert (done.here, done.here.forgotten, done.here.kept_out) == (1, 1, 1)
    # The one kept out here was forgotten there.
    assert (done.there, done.there.forgotten, done.there.kept_out) == (0, 1, 0)
    assert done.equal
    assert are_equal(a.counting(), b.counting())
    assert cups(a) == cups(b) == {None, (0.0, 0.5, 0.5, 1.0)}
    again = a.sync(b)
    assert (again.here, again.there, again.equal) == (0, 0, True)


def test_a_difference_of_boxes_alone_is_no_equality(tmp_path, rng):
    """One side takes over nothing, because it forgot the box later."""
    picture = rng.integers(0, 255, (64, 64, 3), dtype=np.uint8)
    with (
        boxed(tmp_path / "a", picture, red=0) as a,
        boxed(tmp_path / "b", picture, red=3) as b,
    ):
        assert {name for _, name in a.counting()} == {name for _, name in b.counting()}
        assert not are_equal(a.counting(), b.counting())
        assert a.sync(b).equal
        assert places(a) == places(b) == {("red", 0.0, 0.0), ("red", 0.5, 0.5)}


@pytest.mark.parametrize("erase", [False, True])
def test_a_box_taught_again_later_comes_back(crowd, erase):
    a, b, picture = crowd
    a.forget(id=number_of(a, LEFT), erase=erase)
    b.merge(a)
    assert cups(b) == {RIGHT, None}
    assert b.teach(picture, "cup", box=LEFT)
    done = a.merge(b)
    assert (done, done.kept_out) == (1, 0)
    assert a.sync(b).equal
    assert cups(a) == cups(b) == {LEFT, RIGHT, None}


def test_a_forget_undone_before_a_merge_is_not_passed_on(crowd):
    a, b, _ = crowd
    a.forget(id=number_of(a, LEFT))
    a.undo()
    assert (b.merge(a).forgotten, a.merge(b).kept_out) == (0, 0)
    assert a.sync(b).equal
    assert cups(a) == cups(b) == {LEFT, RIGHT, None}
    a.redo()
    assert b.merge(a).forgotten == 1
    assert cups(a) == cups(b) == {RIGHT, None}


def test_an_erased_box_stays_away_from_a_third_memory(crowd, tmp_path):
    a, b, _ = crowd
    with Memory(tmp_path / "c", embedder=Pixels(size=4)) as c:
        c.merge(a)
        a.forget(id=number_of(a, LEFT), erase=True)
        b.merge(a)
        done = c.merge(b)
        assert (done.forgotten, done.erased, cups(c)) == (1, 1, {RIGHT, None})


@pytest.mark.parametrize("erase", [False, True])
def test_boxes_that_were_found_count_as_the_whole_picture(tmp_path, erase):
    """Two Memories may find different boxes in one picture."""
    with Memory(tmp_path / "a") as a, Memory(tmp_path / "b") as b:
        for memory, edge in ((a, 0.5), (b, 0.75)):
            found = TaughtBox(Box(0.0, 0.0, edge, edge), found=True)
            assert memory.teach(Example(vector(1), "", bytes(32), region=found), "cup")
            assert memory.teach(vector(2), "cup")
        assert a.sync(b).equal
        assert counts(a) == counts(b) == {"cup": 2}
        a.forget(id=1, erase=erase)
        assert a.merge(b).kept_out == 1
        assert b.merge(a).forgotten == 1
        assert counts(a) == counts(b) == {"cup": 1}


def test_a_journal_from_before_boxes_is_merged_with_its_conflicts(tmp_path):
    shutil.copytree(GOLDEN, tmp_path / "old")
    with Memory(tmp_path / "old", read_only=True) as old, Memory(tmp_path / "new") as new:
        assert not old._opened.journal.db.has_table("boxes")
        name, example = next(counting_examples(old._opened.journal))
        new.teach(example, "another name")
        (conflict,) = new.merge(old).conflicts
        assert (conflict.here, conflict.there) == (("another name",), name)
        assert new.sync(tmp_path / "old", conflicts="there").equal


def test_names_of_another_spelling_are_the_same_name(tmp_path):
    with Memory(tmp_path / "here") as here, Memory(tmp_path / "there") as there:
        here.teach([1.0, 0.0], "Purple Finch")
        here.teach([0.5, 0.5], "Purple Finch")
        there.teach([1.0, 0.0], "purple finch")
        there.teach([0.0, 1.0], "purple finch")
        there.teach([0.5, 0.5], "purple finch")
        there.forget([0.5, 0.5])
        done = here.merge(there)
        assert (int(done), done.conflicts, done.forgotten) == (1, (), 1)
        assert {name: one.count for name, one in here.names().items()} == {"Purple Finch": 2}
        assert str(done) == "learned 1 teaching, forgot 1 that were forgotten there"
        here.teach([0.3, 0.3], "Purple Finch")
        assert here.sync(there).equal
        assert {name: one.count for name, one in there.names().items()} == {"purple finch": 3}


def test_two_intended_names_of_a_picture_are_kept(two):
    a, b = two
    b.teach(vector(1), "cup")
    b.teach(vector(1), "mug", also=True)
    assert a.merge(b) == 2
    assert counts(a) == {"cup": 1, "mug": 1}


def test_the_command_exchanges_and_lists(two, tmp_path):
    a, b = two
    teach(a, [1, 2], "mug")
    teach(b, [1, 5], "cup")
    a.close()
    b.close()
    command = ["-m", str(tmp_path / "a"), "sync", str(tmp_path / "b")]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert "/1 is mug here and cup there" in result.stderr
    assert "equal, except for the pictures with different names" in result.stdout
    told = json.loads(CliRunner().invoke(app, [*command, "--conflicts", "here", "--json"]).stdout)
    assert told["equal"] is True
