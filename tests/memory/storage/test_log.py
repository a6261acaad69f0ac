"""The log read in order: signs add up to what counts, and damage is noticed as it is read."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everlearn import Memory
from everlearn.errors import DamagedJournal, EverlearnError
from everlearn.memory.model.sample import sampling
from everlearn.memory.storage.log import (
    counting_examples,
    counting_runs,
    counting_vectors,
    has_negative_entry_after,
    runs,
)
from everlearn.statistics.slices import finished
from tests.memory.storage.conftest import read_damaged

EYE = np.eye(8, dtype=np.float32)
NAMES = st.sampled_from(["cup", "pen", "key"])
CHANGES = st.lists(
    st.tuples(st.sampled_from(["teach", "correct", "forget", "rename", "undo", "redo"]),
              st.integers(0, 7), NAMES, NAMES),
    min_size=2,
    max_size=20,
)  # fmt: skip


@pytest.fixture
def memory(where):
    """Nine teachings of which three no longer count, one was moved, and one has two names."""
    with Memory(where) as opened:
        opened.teach_many(zip(EYE, ["cup", "pen"] * 4, strict=True))
        for number in (4, 6, 8):
            opened.forget(id=number)
        opened.correct(EYE[0], "key")
        opened.teach(EYE[0], "cup", also=True)
        yield opened


def change(memory, kind, number, name, other):
    if kind == "teach":
        memory.teach(EYE[number], name)
    elif kind == "correct":
        memory.correct(EYE[number], name)
    elif kind == "forget":
        memory.forget(name=name)
    elif kind == "rename":
        memory.rename(name, other)
    elif kind == "undo":
        memory.undo()
    else:
        memory.redo()


def folded(found):
    """How often each vector counts under each name id, by adding up signs."""
    total = Counter()
    for run in found:
        for vector, name in zip(run.vectors, run.names, strict=True):
            total[vector.tobytes(), int(name)] += run.sign
    assert min(total.values(), default=0) >= 0
    return +total


@settings(max_examples=30, deadline=None)
@given(changes=CHANGES, step=st.integers(1, 9))
def test_signs_add_up_to_what_counts(changes, step, tmp_path_factory):
    with Memory(tmp_path_factory.mktemp("memory") / "m") as memory:
        for one in changes:
            try:
                change(memory, *one)
            except EverlearnError:
                continue
        journal = memory._opened.journal
        end, words = journal.last_position, journal.names_by_id()
        total = folded(runs(journal, 0, end, step))
        assert folded(counting_runs(journal, 0, end, step)) == total
        named = Counter((e.vector.tobytes(), name) for name, e in counting_examples(journal))
        assert named == Counter({(v, words[n]): k for (v, n), k in total.items()})
        counts = Counter(name for _, name in named.elements())
        assert counts == {name: record.count for name, record in memory.names().items()}


def test_a_run_has_one_sign_and_does_not_cross_a_multiple_of_the_step(memory):
    journal = memory._opened.journal
    assert journal.last_position == 14
    found = [(run.sign, len(run.names)) for run in runs(journal, 1, 13, 4)]
    assert found == [(1, 3), (1, 4), (-1, 4), (1, 1)]
    rest = [len(run.names) for run in runs(journal, 13, 14, 4)]
    assert rest == [1]


def test_what_counts_comes_in_the_order_of_the_log(memory):
    journal = memory._opened.journal
    ids, names, sources, vectors = counting_vectors(journal)
    words = journal.names_by_id()
    expected = [("pen", 1), ("cup", 2), ("cup", 4), ("cup", 6), ("key", 0), ("cup", 0)]
    assert [words[int(n)] for n in names] == [word for word, _ in expected]
    assert np.array_equal(vectors, EYE[[number for _, number in expected]])
    assert (ids, sources) == ([2, 3, 5, 7, 1, 9], [""] * 6)
    examples = list(counting_examples(journal))
    assert [name for name, _ in examples] == [word for word, _ in expected]
    assert np.array_equal([example.vector for _, example in examples], vectors)


def test_a_sample_has_no_vector_twice_and_none_from_after_the_position(memory):
    journal = memory._opened.journal
    vectors, names = finished(sampling(journal, 4, journal.last_position, np.inf))
    assert len(vectors) == len(names) == 4
    every, _ = finished(sampling(journal, 100, journal.last_position - 1, np.inf))
    assert sorted(map(bytes, every)) == sorted(map(bytes, EYE[[0, 1, 2, 4, 6]]))


def test_negative_entries_are_found_after_a_position(memory):
    journal = memory._opened.journal
    assert all(has_negative_entry_after(journal, position) for position in (0, 8, 11))
    assert not has_negative_entry_after(journal, 12)


@pytest.mark.parametrize(
    ("damage", "noticed"),
    [
        ("UPDATE log SET sign = 1 WHERE position = 9", "entry 9 of the log was altered"),
        ("DELETE FROM log WHERE position = 9", "entries 1 to 14 of the log are not complete"),
        ("DELETE FROM vectors WHERE teaching = 2", "a vector is missing"),
        ("UPDATE vectors SET vector = (SELECT vector FROM vectors WHERE teaching = 3) "
         "WHERE teaching = 2", "a vector was altered"),
    ],
)  # fmt: skip
def test_damage_is_noticed_as_the_log_is_read(memory, damage, noticed):
    with pytest.raises(DamagedJournal, match=noticed):
        read_damaged(memory._opened.journal, damage, lambda journal: list(runs(journal, 0, 14)))
