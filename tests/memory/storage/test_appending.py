"""Entries are appended, never changed; a teaching's row says whether it counts."""

import hashlib

import numpy as np
import pytest

from everlearn import Memory
from everlearn.errors import DamagedJournal, InvalidInput
from everlearn.memory.edits.writing import begin, ensure_kinds
from everlearn.memory.storage.appending import (
    add_teaching,
    add_teachings,
    append_entry,
    move,
    set_name,
    set_source,
    stop_counting,
)
from everlearn.memory.storage.integrity import require_intact
from everlearn.memory.storage.rows import BEGINNING, Example, TaughtBox, content_digest, next_chain
from everlearn.regions.boxes import Box

NAMES = ["cup", "pen", "cup", "key"]


def example(number, **facts):
    vector = np.eye(8, dtype=np.float32)[number]
    digest = hashlib.sha256(vector.tobytes()).digest()
    return Example(vector, f"/pictures/{number}", digest, taught_at=float(number), **facts)


EXAMPLES = [
    example(0, thumbnail=b"a thumbnail"),
    example(1, image=b"a file"),
    example(2, region=TaughtBox(Box(0.0, 0.25, 0.5, 1.0), found=False)),
    example(3),
]
PAIRS = list(zip(NAMES, EXAMPLES, strict=True))


@pytest.fixture
def memory(where):
    with Memory(where) as opened:
        with opened._opened.one_change() as journal:
            ensure_kinds(journal, EXAMPLES)
            assert add_teachings(journal, begin(journal, "teach"), PAIRS) == [1, 2, 3, 4]
        yield opened
        require_intact(opened._opened.journal)
        assert opened.verify().problems == ()


@pytest.fixture
def journal(memory):
    return memory._opened.journal


def log_of(journal):
    query = "SELECT position, operation, teaching, name, sign FROM log ORDER BY position"
    return [tuple(row) for row in journal.db.rows(query)]


def test_many_teachings_at_once_equal_one_at_a_time(journal, tmp_path):
    with Memory(tmp_path / "one by one") as other:
        with other._opened.one_change() as single:
            ensure_kinds(single, EXAMPLES)
            operation = begin(single, "teach")
            assert [add_teaching(single, operation, *pair) for pair in PAIRS] == [1, 2, 3, 4]
        one_by_one = other._opened.journal
        assert one_by_one.chain_at(4) == journal.chain_at(4)
        for table in ("names", "teachings", "vectors", "thumbnails", "images", "boxes"):
            one, many = (db.rows(f"SELECT * FROM {table}") for db in (one_by_one.db, journal.db))
            assert sorted(map(tuple, one)) == sorted(map(tuple, many))


def test_the_chain_is_that_of_its_definition(journal):
    chain = BEGINNING
    for entry, one in zip(log_of(journal), EXAMPLES, strict=True):
        chain = next_chain(chain, *entry, content_digest(one.vector.tobytes()))
        assert journal.chain_at(entry[0]) == chain


def test_what_stops_counting_stays_in_the_log(memory, journal):
    with memory._opened.one_change():
        stop_counting(journal, begin(journal, "forget"), [3, 1])
    assert list(memory.names()) == ["key", "pen"]
    assert log_of(journal)[4:] == [(5, 2, 3, 1, -1), (6, 2, 1, 1, -1)]
    assert journal.find(forgotten=True) == [1, 2, 3, 4]


def test_moved_teachings_count_under_the_other_name(memory, journal):
    with memory._opened.one_change():
        move(journal, begin(journal, "rename"), [1, 3], "mug")
    assert {name: record.count for name, record in memory.names().items()} == {
        "key": 1,
        "mug": 2,
        "pen": 1,
    }
    mug = journal.id_of_name("mug")
    entries = [(1, 1, -1), (1, mug, 1), (3, 1, -1), (3, mug, 1)]
    assert [row[2:] for row in log_of(journal)[4:]] == entries
    assert [teaching.id for teaching in memory.teachings("mug")] == [1, 3]


def test_two_names_swap_their_words_and_keep_their_teachings(memory, journal):
    before = log_of(journal)
    with memory._opened.one_change():
        set_name(journal, journal.id_of_name("cup"), "pen")
    assert {name: record.count for name, record in memory.names().items()} == {
        "cup": 1,
        "key": 1,
        "pen": 2,
    }
    assert log_of(journal) == before


def test_another_source_changes_nothing_else(memory, journal):
    chain, before = journal.chain_at(4), memory.teachings()
    with memory._opened.one_change():
        set_source(journal, 2, "/elsewhere/\0\udcff")
    assert journal.origin(2) == ("/elsewhere/\\x00\\udcff", EXAMPLES[1].digest)
    assert journal.chain_at(4) == chain
    after = memory.teachings()
    assert [one.id for one in after if one != before[one.id - 1]] == [2]


def test_ids_are_not_used_again_after_an_erase(memory, journal):
    memory.forget(name="key", erase=True)
    with memory._opened.one_change():
        assert add_teaching(journal, begin(journal, "teach"), "lid", example(5)) == 5


def test_a_row_that_cannot_be_stored_leaves_nothing(memory, journal):
    before = log_of(journal), journal.names_by_id(), journal.last_operation
    wrong = Example(EXAMPLES[0].vector, "", b"too short")
    with pytest.raises(InvalidInput), memory._opened.one_change():
        add_teachings(journal, begin(journal, "teach"), [("lid", example(5)), ("lid", wrong)])
    assert (log_of(journal), journal.names_by_id(), journal.last_operation) == before


def test_an_entry_needs_its_teaching(memory, journal):
    with pytest.raises(DamagedJournal, match="teaching 9"), memory._opened.one_change():
        append_entry(journal, begin(journal, "teach"), 9, 1, +1)
