"""What was taught is looked up by name, picture and source; altered rows are noticed."""

import os

import numpy as np
import pytest

from everlearn import Memory
from everlearn.errors import DamagedJournal
from everlearn.memory.edits.writing import TeachingWriter
from everlearn.memory.storage.journal import VALUES_AT_A_TIME, rows_among
from everlearn.memory.storage.rows import Example
from tests.memory.storage.conftest import read_damaged


@pytest.fixture
def memory(where):
    with Memory(where) as opened:
        for number, name in enumerate(("cup", "pen", "cup")):
            opened.teach(np.eye(4)[number], name, source=f"/a/{number}")
        yield opened


@pytest.fixture
def journal(memory):
    return memory._opened.journal


def digest_of(journal, teaching):
    return journal.origin(teaching)[1]


def test_teachings_are_found_by_each_of_their_values_and_by_several(memory, journal):
    memory.forget(id=3)
    assert journal.find() == [1, 2]
    assert journal.find(forgotten=True) == [1, 2, 3]
    assert journal.find(name="cup", forgotten=True) == [1, 3]
    assert journal.find(name="cup", source=os.path.join(os.sep, "a")) == [1]
    assert journal.find(digest=digest_of(journal, 2)) == [2]
    assert journal.find(digest=digest_of(journal, 3)) == []
    assert journal.find(id=3) == journal.find(name="lid") == journal.find(name="\udcff") == []


def test_a_picture_counts_under_its_names_until_it_is_forgotten(memory, journal):
    same = digest_of(journal, 1), None
    memory.teach(np.eye(4)[0], "pen", also=True)
    assert journal.counting_names([same]) == {same: {"cup", "pen"}}
    assert journal.find_same(same) == [1, 4]
    assert journal.find_same(same, "pen") == [4]
    memory.forget(id=1)
    assert journal.counting_names([same]) == {same: {"pen"}}
    assert journal.counting_names([(bytes(32), None)]) == {(bytes(32), None): set()}


def test_a_renamed_name_is_in_the_history_only(memory, journal):
    assert not journal.is_in_history_only("cup")
    memory.rename("cup", "mug")
    assert journal.is_in_history_only("cup")
    assert not journal.is_in_history_only("mug")
    assert not journal.is_in_history_only("lid")


@pytest.mark.parametrize("count", [1, 3, VALUES_AT_A_TIME - 1, 2 * VALUES_AT_A_TIME + 5])
def test_many_values_are_looked_up_once_each(journal, count):
    """Queries are filled up to a power of two, which must not repeat a row."""
    wanted = [3, *range(10, 10 + count - 1)]
    assert [row[0] for row in rows_among(journal.db, "SELECT id FROM teachings WHERE id", wanted)] \
        == [3]  # fmt: skip
    every = dict.fromkeys((*wanted, 1, 2))
    found = [row[0] for row in rows_among(journal.db, "SELECT id FROM teachings WHERE id", every)]
    assert sorted(found) == [1, 2, 3]


@pytest.mark.parametrize(
    ("damage", "read"),
    [
        ("UPDATE facts SET value = '5' WHERE key = 'n_features'", lambda j: j.n_features),
        ("UPDATE facts SET value = '5' WHERE key = 'n_features'", lambda j: j.facts("n_features")),
        ("UPDATE names SET name = 'mug' WHERE id = 1", lambda j: j.name_by_id(1)),
        ("UPDATE thumbnails SET jpeg = seal WHERE teaching = 4", lambda j: j.thumbnail(4)),
        ("DELETE FROM thumbnails WHERE teaching = 4", lambda j: j.thumbnail(4)),
        ("DELETE FROM names WHERE id = 1", lambda j: j.name_of(1)),
        ("DELETE FROM vectors WHERE teaching = 1", lambda j: j.vector_bytes(1)),
    ],
)
def test_an_altered_or_missing_row_is_noticed_when_it_is_read(memory, journal, damage, read):
    example = Example(np.ones(4, np.float32), "", bytes(32), b"a thumbnail")
    TeachingWriter(journal, "teach", again=False, also=False).write([("lid", example)])
    with pytest.raises(DamagedJournal, match=r"altered|missing"):
        read_damaged(journal, damage, read)
