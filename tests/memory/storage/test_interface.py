"""One suite for all storages: a folder and a database agree bit for bit."""

import contextlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from everlearn import Memory, NearestClassMean
from everlearn.errors import (
    AlreadyThere,
    DamagedJournal,
    EverlearnError,
    InvalidLabel,
    MemoryClosed,
    NeverLearned,
    NotAMemory,
    NothingToUndo,
    OtherName,
    ReadOnlyMemory,
    UnknownLabel,
    WrongWidth,
)
from everlearn.memory.storage.backup import restore
from everlearn.memory.storage.journal import Journal
from everlearn.memory.storage.locations import storage_at
from everlearn.memory.storage.rows import BEGINNING
from everlearn.memory.storage.schema import TABLES
from tests.memory.conftest import same_bits, state_of


@pytest.fixture
def memory(where):
    with Memory(where) as opened:
        yield opened


def rows_of(place):
    """Every row of every table of a journal."""
    with contextlib.closing(storage_at(place).open(write=False)) as db, db.read_transaction():
        found = {}
        for table in TABLES:
            rows = db.rows(f"SELECT * FROM {table}")
            found[table] = sorted(rows, key=lambda row: row[0])
        return found


def test_names_that_differ_in_capitals_alone_are_one(memory):
    pairs = ("Wren", "wREN"), ("Straße", "STRASSE"), ("Élan", "élan")
    for number, (first, again) in enumerate(pairs):
        memory.teach([1.0, float(number)], first)
        memory.teach([-1.0, float(number)], again)
        assert memory.names()[first].count == 2
    assert len(memory.names()) == 3


def test_names_containing_a_text_are_found_whatever_its_case_and_script(memory):
    for number, name in enumerate(("Élan", "Übung", "Straße", "bus 100%", "BUNGALOW")):
        memory.teach(np.eye(8)[number], name)
    found = {text: list(memory.names(text)) for text in ("éL", "ü", "Bung", "STRASSE", "0%", "ß")}
    assert found == {
        "éL": ["Élan"],
        "ü": ["Übung"],
        "Bung": ["BUNGALOW", "Übung"],
        "STRASSE": ["Straße"],
        "0%": ["bus 100%"],
        "ß": ["Straße"],
    }
    memory.teach(np.eye(8)[6], "Ära")
    memory.teach(np.eye(8)[7], "Bär")
    assert list(memory.names("Ä")) == ["Bär", "Ära"]
    assert list(memory.names("Ä", limit=1, offset=1)) == ["Ära"]
    assert list(memory.names("ä", limit=1, latest_first=True)) == ["Bär"]


def test_a_teaching_is_known_and_counted_once(memory, clusters):
    X, names = clusters()
    assert memory.teach_many(zip(X, names, strict=True)).taught == len(X)
    assert not memory.teach(X[0], names[0])
    assert memory.ask(X[0])[0].name == names[0]
    assert sum(record.count for record in memory.names().values()) == len(X)
    with pytest.raises(OtherName):
        memory.teach(X[0], "another")
    assert memory.teach(X[0], "another", also=True)


def test_a_second_opening_sees_everything(where, clusters):
    X, names = clusters()
    with Memory(where) as memory:
        memory.teach_many(zip(X, names, strict=True))
        before = state_of(memory)
    with Memory(where) as memory:
        assert same_bits(state_of(memory), before)
        assert memory.verify().problems == ()


def test_a_reader_beside_a_writer_sees_each_change(where, clusters):
    X, names = clusters()
    with Memory(where) as writer:
        writer.teach(X[0], names[0])
        with Memory(where, read_only=True) as reader:
            assert set(reader.names()) == {names[0]}
            writer.teach(-X[1], "later")
            assert "later" in reader.names()
            assert reader.ask(-X[1])[0].name == "later"
            with pytest.raises(ReadOnlyMemory):
                reader.teach(X[2], names[2])


def test_rejected_input_changes_nothing(memory, where, clusters):
    X, names = clusters()
    memory.teach_many(zip(X, names, strict=True))
    before = rows_of(where)
    for action, error in [
        (lambda: memory.teach(X[0][:3], "short"), WrongWidth),
        (lambda: memory.teach(X[0], ""), InvalidLabel),
        (lambda: memory.rename("nobody", "somebody"), UnknownLabel),
        (lambda: memory.forget(name="nobody"), UnknownLabel),
        (lambda: memory.forget(id=10**6), NeverLearned),
        (memory.redo, NothingToUndo),
    ]:
        with pytest.raises(error):
            action()
    assert rows_of(where) == before


def test_undo_and_redo_go_back_and_forth(memory, clusters):
    X, names = clusters()
    memory.teach_many(zip(X, names, strict=True))
    before = dict(memory.names())
    memory.forget(name=names[0])
    memory.rename(next(iter(memory.names())), "renamed")
    for _ in range(len(memory.history()) - 1):
        memory.undo()
    assert dict(memory.names()) == before
    memory.redo()
    assert names[0] not in memory.names()
    assert memory.verify().problems == ()


def test_corrections_unknowns_and_pictures_are_kept(memory, clusters):
    X, names = clusters()
    memory.teach_many(zip(X, names, strict=True))
    done = memory.correct(X[0], "right")
    assert done.moved_from == (names[0],)
    for k in range(4):
        memory.ask(-X[0] + 0.01 * k, remember=True)
    (group, *_) = memory.unknowns()
    assert memory.name_unknowns(group.id, "found") == group.count
    assert memory.unknowns() == []
    memory.undo()
    assert memory.unknowns()[0] == group
    memory.drop_unknowns(group.id)
    memory.undo()
    memory.ignore_unknowns(group.id)
    assert memory.unknowns()[0] == replace(group, ignored=True)
    memory.undo()
    assert memory.unknowns()[0] == group
    assert memory.verify().problems == ()
    assert memory.thumbnail(1) is None
    assert memory.why(X[1]).name in memory.names()


def test_text_of_any_script_and_sources_of_any_bytes_come_back(memory):
    words = ["Straße", "杯子", "a'b\"c;--", "100%", "what?", "\U0001f600"]
    for k, word in enumerate(words):
        memory.teach(np.eye(8)[k], word, source=f"x\0y/{word}\udcff?%s")
    assert list(memory.names()) == sorted(words, key=lambda word: word.encode())
    (found,) = memory.teachings("100%")
    assert found.source == "x\\x00y/100%\\udcff?%s"
    assert memory.forget(source=found.source).count == 1


def test_a_folder_of_sources_is_forgotten_together(memory):
    for k, source in enumerate(["/a/1", "/a/2", "/ab/3", "/a"]):
        memory.teach(np.eye(8)[k], f"name {k}", source=source)
    assert memory.would_forget(source="/a").count == 3
    assert memory.forget(source="/a/").count == 2


def test_erasing_equals_never_having_taught(where, clusters, tmp_path):
    X, names = clusters(each=40)
    with Memory(where) as memory, Memory(tmp_path / "other") as other:
        memory.teach_many(zip(X, names, strict=True))
        memory.rename("class 1", "class 9")
        memory.forget(name="class 2")
        done = memory.forget(name="class 9", erase=True)
        kept = [(x, n) for x, n in zip(X, names, strict=True) if n in ("class 0", "class 3")]
        other.teach_many(kept)
        assert same_bits(state_of(memory), state_of(other))
        assert done.receipt.also_removed == 40
        assert memory.verify().problems == ()
        with pytest.raises(NothingToUndo):
            memory.undo()
        receipt = tmp_path / "receipt.json"
        done.receipt.save(receipt)
        assert memory.verify(receipt).problems == ()


def test_another_classifier_is_trained_on_all_teachings(where, clusters):
    X, names = clusters()
    with Memory(where) as memory:
        memory.teach_many(zip(X, names, strict=True))
        memory.use(classifier=NearestClassMean())
        assert memory.ask(X[0])[0].name == names[0]
    with Memory(where, read_only=True) as memory:
        assert "NearestClassMean" in memory.info()["classifier"]


def test_snapshots_are_found_again_and_lead_to_the_same_model(where, clusters):
    X, names = clusters(each=100)
    with Memory(where) as memory:
        memory.teach_many(zip(X, names, strict=True))
        before = state_of(memory)
    with Memory(where) as memory:
        assert memory.info()["snapshot_at"] == 256
        assert same_bits(state_of(memory), before)
        memory.forget(name="class 1", erase=True)
        assert memory.info()["snapshot_at"] == 0


def test_backup_and_restore_give_the_same_rows(where, clusters, tmp_path):
    X, names = clusters(each=20)
    with Memory(where) as memory:
        memory.teach_many(zip(X, names, strict=True))
        memory.forget(name="class 1")
        memory.undo()
        memory.ask(-X[0], remember=True)
        memory.backup(tmp_path / "backup")
        with pytest.raises(AlreadyThere):
            memory.backup(tmp_path / "backup")
        expected = rows_of(where)
        model = memory.verify().model
        memory.teach(-X[3], "after")
    assert rows_of(tmp_path / "backup") == expected
    assert restore(tmp_path / "backup", where) == len(X)
    assert rows_of(where) == expected
    elsewhere = tmp_path / "new" if isinstance(where, Path) else f"{where}-new"
    storage_at(tmp_path / "backup").caches.write("network-0", b"a network of one's own")
    assert restore(tmp_path / "backup", elsewhere) == len(X)
    assert rows_of(elsewhere) == expected
    with Memory(where) as memory:
        assert memory.verify().problems == ()
        assert memory.verify().model == model


def test_merging_takes_over_what_is_new(where, clusters, tmp_path):
    X, names = clusters()
    with Memory(where) as memory, Memory(tmp_path / "other") as other:
        memory.teach_many(zip(X[:10], names[:10], strict=True))
        other.teach_many(zip(X, names, strict=True))
        assert memory.merge(other) == len(X) - 10
        assert memory.verify().problems == ()


def test_altered_rows_are_noticed(where, clusters):
    X, names = clusters()
    with Memory(where) as memory:
        memory.teach_many(zip(X, names, strict=True))
    storage = storage_at(where)
    storage.acquire()
    db = storage.open(write=True)
    with db.transaction():
        db.run("UPDATE teachings SET source = 'x' WHERE id = 3")
    db.close()
    storage.release()
    with pytest.raises(DamagedJournal, match="altered"):
        Memory(where, read_only=True)


def test_a_closed_or_missing_memory_raises_a_named_error(where):
    with pytest.raises(NotAMemory, match="teach one first"):
        Memory(where, read_only=True)
    memory = Memory(where)
    memory.close()
    with pytest.raises(MemoryClosed):
        memory.teach([1.0], "x")


def test_a_failed_transaction_leaves_nothing(where):
    storage = storage_at(where)
    storage.acquire()
    with contextlib.closing(storage.open(write=True)) as db:
        journal = Journal(db)

        def fail_in_transaction():
            with journal.transaction():
                journal.set_fact("one", "1")
                raise RuntimeError

        with pytest.raises(RuntimeError):
            fail_in_transaction()
        assert journal.fact("one") is None
        with journal.transaction():
            journal.set_fact("one", "1")
            journal.set_fact("one", "2")
        assert journal.fact("one") == "2"
        before = db.stamp()
        with journal.transaction():
            journal.drop_fact("one")
        assert db.stamp() != before
        assert journal.chain_at(0) == BEGINNING
    storage.release()


def test_caches_keep_bytes_by_name(where):
    storage = storage_at(where)
    storage.acquire()
    with contextlib.closing(storage.open(write=True)):
        caches = storage.caches
        caches.write("snapshot-1", b"one")
        caches.write("snapshot-2", bytes(range(256)) * 40_000)
        caches.write("snapshot-1", b"other")
        caches.write("prepared-1", b"")
        assert caches.names("snapshot-") == ["snapshot-1", "snapshot-2"]
        assert caches.read("snapshot-1") == b"other"
        assert caches.read("snapshot-2") == bytes(range(256)) * 40_000
        assert caches.read("prepared-1") == b""
        caches.remove("snapshot-1")
        caches.remove("snapshot-1")
        with pytest.raises(FileNotFoundError):
            caches.read("snapshot-1")
        with contextlib.closing(caches.collected("abc")) as vectors:
            vectors.add(b"d", b"v")
            vectors.add(b"d", b"w")
        with contextlib.closing(caches.collected("abc")) as vectors:
            assert vectors.known() == {b"d": b"w"}
    storage.release()


NAMES = st.sampled_from(["cup", "pen", "Tür", "b%c?"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("teach"), st.integers(0, 30), NAMES),
        st.tuples(st.just("many"), st.integers(0, 30), NAMES),
        st.tuples(st.just("correct"), st.integers(0, 30), NAMES),
        st.tuples(st.just("forget"), st.integers(0, 30), NAMES),
        st.tuples(st.just("rename"), st.integers(0, 30), NAMES),
        st.tuples(st.sampled_from(["undo", "redo", "erase"]), st.integers(0, 30), NAMES),
        st.tuples(
            st.sampled_from(["unknown", "name", "drop", "ignore"]), st.integers(0, 30), NAMES
        ),
    ),
    min_size=3,
    max_size=14,
)


def carry_out(memory, step):
    kind, k, name = step
    x = np.random.default_rng(k).normal(size=6).astype(np.float32)
    if kind == "teach":
        return memory.teach(x, name, again=k % 5 == 0)
    if kind == "many":
        rest = np.random.default_rng(k + 100).normal(size=(5, 6)).astype(np.float32)
        return memory.teach_many([(one, name) for one in [x, *rest]])
    if kind == "correct":
        return memory.correct(x, name)
    if kind == "forget":
        return memory.forget(name=name).count
    if kind == "erase":
        return memory.forget(name=name, erase=True).count
    if kind == "rename":
        return memory.rename(name, ["cup", "new"][k % 2])
    if kind == "unknown":
        return memory.ask(-100 * x, remember=True).unknown
    if kind in ("name", "drop", "ignore"):
        group = [*(one.id for one in memory.unknowns()), 99][0]
        return getattr(memory, f"{kind}_unknowns")(group, *([name] if kind == "name" else []))
    change = memory.undo() if kind == "undo" else memory.redo()
    return change.kind, change.count, change.names


@given(steps=STEPS)
@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_a_folder_and_a_database_become_the_same_journal(steps, postgres, tmp_path_factory):
    """The same outcomes, errors, log, names and model after any changes in any order."""
    folder = tmp_path_factory.mktemp("memory") / "m"
    address = f"{postgres.url()}#{folder.parent.name}"
    seen = []
    with Memory(folder) as one, Memory(address) as other:
        for memory in (one, other):
            outcomes = []
            for step in steps:
                try:
                    outcomes.append(carry_out(memory, step))
                except EverlearnError as error:
                    outcomes.append(type(error))
            found = memory.verify()
            kept = list(memory.names()), memory.unknowns()
            seen.append((outcomes, found.log, found.model, kept, found.problems))
    assert seen[0] == seen[1]
