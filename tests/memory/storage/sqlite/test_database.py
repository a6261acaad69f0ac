"""Full disks, read-only folders, damaged files, and concurrent writers."""

import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from everlearn import Memory, NearestClassMean, RecursiveRLSC
from everlearn.errors import (
    CannotWrite,
    DamagedJournal,
    MemoryBusy,
    MemoryClosed,
    NewerFormat,
    NotAMemory,
)
from everlearn.memory.edits import editor
from everlearn.memory.edits.writing import TeachingWriter
from everlearn.memory.storage.log import WINDOW
from everlearn.memory.storage.rows import Example, row_checksum
from tests.memory.conftest import numbers_of, same_bits, state_of


@pytest.fixture
def taught(tmp_path, clusters):
    """A folder with a snapshot and something after it, and what was taught."""
    X, names = clusters(each=100)
    with Memory(tmp_path / "memory") as memory:
        memory.teach_many(zip(X, names, strict=True))
    return tmp_path / "memory", X, names


def replayed_state(memory):
    """The model folded from the whole journal, without any snapshot."""
    return numbers_of(memory._opened.read(memory._opened.history.replayed).classifier)


def snapshots(folder):
    """The positions of the existing snapshots, by file."""
    return {path: int(path.name.split("-")[1]) for path in folder.glob("snapshot-*")}


def test_opening_from_a_snapshot_equals_replaying_the_journal(taught):
    folder, X, _ = taught
    assert list(snapshots(folder).values()) == [WINDOW]
    with Memory(folder) as memory:
        assert same_bits(state_of(memory), replayed_state(memory))
        memory.forget(name="class 1")
        memory.teach(X[0], "new", also=True)
        memory.undo()
        memory.rename("class 2", "class 3")
    with Memory(folder) as memory:
        assert memory.info()["snapshot_at"] == 2 * WINDOW
        assert same_bits(state_of(memory), replayed_state(memory))


def test_snapshots_are_made_while_teaching_and_old_ones_removed(tmp_path, clusters, monkeypatch):
    monkeypatch.setattr(editor, "SNAPSHOT_EVERY", WINDOW)
    X, names = clusters(each=200)
    with Memory(tmp_path) as memory:
        memory.teach_many(zip(X[:300], names[:300], strict=True))
        assert memory.info()["snapshot_at"] == WINDOW
        memory.teach_many(zip(X[300:], names[300:], strict=True))
        assert memory.info()["snapshot_at"] == 3 * WINDOW
    assert list(snapshots(tmp_path).values()) == [3 * WINDOW]


@pytest.mark.parametrize("how", ["half", "empty", "flipped", "gone"])
def test_a_damaged_snapshot_is_skipped(taught, how, caplog):
    folder, X, _ = taught
    with Memory(folder, read_only=True) as memory:
        before = state_of(memory)
    (path,) = snapshots(folder)
    data = bytearray(path.read_bytes())
    if how == "gone":
        path.unlink()
    elif how == "flipped":
        data[-1] ^= 1
        path.write_bytes(data)
    else:
        path.write_bytes(data[: len(data) // 2 if how == "half" else 0])
    with Memory(folder) as memory:
        assert same_bits(state_of(memory), before)
        assert memory.teach(-X[0], "after")
        assert ("is skipped" in caplog.text) == (how != "gone")


def test_temporary_files_of_a_dead_writer_are_removed(taught):
    folder, X, names = taught
    (folder / f".snapshot-{WINDOW}-abc.def").write_bytes(b"half")
    with Memory(folder) as memory:
        assert memory.ask(X[0])[0].name == names[0]
        assert not list(folder.glob(".snapshot-*"))


def test_a_full_disk_raises_a_named_error_and_loses_nothing(taught):
    folder, X, names = taught
    with Memory(folder) as memory:
        db = memory._opened.journal.db
        pages = db.value("PRAGMA page_count")
        db.run(f"PRAGMA max_page_count = {pages}")
        before = memory.info()["teachings"]
        big = np.random.default_rng(0).normal(size=(200, 16)).astype(np.float32)
        acknowledged = []

        with pytest.raises(CannotWrite, match="full"):
            acknowledged.extend(memory.teach(x, "more") for x in big)
        taught_before_full = len(acknowledged)
        assert memory.info()["teachings"] == before + taught_before_full
        assert memory.ask(X[0])[0].name == names[0]
        db.run(f"PRAGMA max_page_count = {pages + 100}")
        assert memory.teach(big[-1], "more")
    with Memory(folder) as memory:
        assert memory.info()["teachings"] == before + taught_before_full + 1
        assert same_bits(state_of(memory), replayed_state(memory))


FULL = """
import resource, signal, sys
import numpy as np
from everlearn import Memory
from everlearn.errors import CannotWrite
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (5_000_000, 5_000_000))
acknowledged = 0
memory = Memory(sys.argv[1])
try:
    for index in range(4000):
        memory.teach(np.full(1000, 1.0 + index), "noise")
        acknowledged += 1
except CannotWrite as error:
    print(acknowledged)
"""


def test_a_write_that_the_system_refuses_loses_nothing(tmp_path):
    """The operating system lets no file grow, including the write-ahead log."""
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path)], capture_output=True, text=True, check=True
    )
    acknowledged = int(done.stdout)
    assert acknowledged > 100
    with Memory(tmp_path) as memory:
        assert memory.names()["noise"].count == acknowledged


def test_a_full_disk_for_a_snapshot_is_no_error(taught, monkeypatch, caplog):
    folder, X, _ = taught

    def refuse(*_):
        raise CannotWrite("the disk is full")

    monkeypatch.setattr("everlearn.memory.model.follower.write_snapshot", refuse)
    with Memory(folder) as memory:
        memory.teach_many((x, "more") for x in -X)
    assert "opening will take longer" in caplog.text
    with Memory(folder) as memory:
        assert memory.names()["more"].count == len(X)


def test_a_warning_says_what_missing_prepared_answers_mean(taught, monkeypatch, caplog):
    folder, X, _ = taught

    def refuse(*_):
        raise CannotWrite("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr("everlearn.memory.opened.write_head", refuse)
        with Memory(folder) as memory:
            memory.teach(-X[0], "more")
    assert "the next question will take longer to answer: the disk is full" in caplog.text
    with Memory(folder, read_only=True) as memory:
        assert memory.ask(-X[0])[0].name == "more"


def as_nobody(action):
    """Run an action in a process without root's rights; returns its exit code."""
    child = os.fork()
    if child == 0:
        code = 99
        try:
            if os.geteuid() == 0:
                os.setgid(65534)
                os.setuid(65534)
            code = action()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_read_only_folder_can_be_asked_and_refuses_teaching_with_the_reason(taught):
    folder, X, names = taught
    place = Path(tempfile.mkdtemp())
    try:
        frozen = place / "memory"
        shutil.copytree(folder, frozen)
        place.chmod(0o755)
        for path in frozen.iterdir():
            path.chmod(stat.S_IRUSR | stat.S_IRGRP | stat.S_IROTH)
        frozen.chmod(0o555)

        def teach():
            try:
                Memory(frozen)
            except CannotWrite as error:
                return 0 if "read-only" in str(error) else 2
            return 3

        def ask():
            with Memory(frozen, read_only=True) as memory:
                return 0 if memory.ask(X[0])[0].name == names[0] else 2

        def make():
            try:
                Memory(frozen / "inside")
            except CannotWrite as error:
                return 0 if "cannot be created" in str(error) else 2
            return 3

        assert as_nobody(teach) == 0
        assert as_nobody(ask) == 0
        assert as_nobody(make) == 0
    finally:
        frozen.chmod(0o755)
        shutil.rmtree(place)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_the_log_of_a_killed_writer_is_read_from_a_read_only_folder(taught):
    """A folder without write permission, with a write-ahead log but no shared-memory file."""
    folder, _, _ = taught
    place = Path(tempfile.mkdtemp())
    try:
        frozen = place / "memory"
        frozen.mkdir()
        with Memory(folder) as memory:
            memory.teach(np.arange(16.0), "only in the log")
            for name in ("journal.sqlite", "journal.sqlite-wal"):
                shutil.copyfile(folder / name, frozen / name)
        assert (frozen / "journal.sqlite-wal").stat().st_size > 0
        before = {path.name: path.read_bytes() for path in frozen.iterdir()}
        place.chmod(0o755)
        frozen.chmod(0o555)

        def ask():
            with Memory(frozen, read_only=True) as memory:
                known = memory.ask(np.arange(16.0))[0].name == "only in the log"
                return 0 if known and memory.names()["only in the log"].count == 1 else 2

        assert as_nobody(ask) == 0
        assert {path.name: path.read_bytes() for path in frozen.iterdir()} == before
    finally:
        frozen.chmod(0o755)
        shutil.rmtree(place)


class Unflushed:
    """A connection whose commits succeed, after which the disk reports a failed flush."""

    def __init__(self, db):
        self._db = db

    def __getattr__(self, name):
        return getattr(self._db, name)

    def execute(self, statement, *values):
        done = self._db.execute(statement, *values)
        if statement == "COMMIT":
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC
            raise error
        return done


def test_a_failed_flush_after_the_commit_does_not_claim_a_rollback(taught):
    folder, X, _ = taught
    memory = Memory(folder)
    db = memory._opened.journal.db
    real, db._db = db._db, Unflushed(db._db)
    with pytest.raises(CannotWrite, match="not certain") as caught:
        memory.teach(-X[0], "perhaps")
    assert "nothing of this change was kept" not in str(caught.value)
    db._db = real
    memory.close()
    with Memory(folder, read_only=True) as memory:
        assert memory.names()["perhaps"].count == 1
        assert memory.verify().ok


def test_a_journal_of_a_later_version_is_not_changed(taught):
    folder, _, _ = taught
    with sqlite3.connect(folder / "journal.sqlite") as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    before = (folder / "journal.sqlite").read_bytes()
    for read_only in (False, True):
        with pytest.raises(NewerFormat, match="format version 99"):
            Memory(folder, read_only=read_only)
    assert (folder / "journal.sqlite").read_bytes() == before


def test_a_database_of_another_program_is_not_changed(tmp_path):
    with sqlite3.connect(tmp_path / "journal.sqlite") as db:
        db.execute("CREATE TABLE mine (x)")
    db.close()
    with pytest.raises(NotAMemory):
        Memory(tmp_path)
    with sqlite3.connect(tmp_path / "journal.sqlite") as db:
        assert db.execute("SELECT name FROM sqlite_master").fetchall() == [("mine",)]
    db.close()


def test_a_damaged_journal_raises_a_named_error(taught):
    folder, _, _ = taught
    path = folder / "journal.sqlite"
    data = bytearray(path.read_bytes())
    data[:65536] = bytes(65536)
    path.write_bytes(data)
    with pytest.raises(DamagedJournal, match="backup"):
        Memory(folder)


def test_an_empty_folder_cannot_be_asked(tmp_path):
    with pytest.raises(NotAMemory, match="teach one first"):
        Memory(tmp_path / "nothing", read_only=True)


def test_a_second_writer_is_refused_and_the_first_continues(tmp_path):
    with Memory(tmp_path) as first:
        with pytest.raises(MemoryBusy, match="read-only"):
            Memory(tmp_path)
        assert first.teach([1.0, 0.0], "cup")
    with Memory(tmp_path) as second:
        assert second.names()["cup"].count == 1


HOLD = """
import sys, time
from everlearn import Memory
memory = Memory(sys.argv[1])
memory.teach([1.0, 2.0], "held")
print("ready", flush=True)
time.sleep(60)
"""


def test_a_killed_writer_leaves_no_lock(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout.readline() == "ready\n"
        with pytest.raises(MemoryBusy):
            Memory(tmp_path)
        with Memory(tmp_path, read_only=True) as reader:
            assert reader.names()["held"].count == 1
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
    with Memory(tmp_path) as memory:
        assert memory.names()["held"].count == 1


def test_an_interrupted_batch_keeps_what_was_acknowledged(tmp_path, clusters):
    X, names = clusters(each=100)
    acknowledged = []

    def interrupted():
        for index, pair in enumerate(zip(X, names, strict=True)):
            if index == 250:
                raise KeyboardInterrupt
            yield pair

    memory = Memory(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        memory.teach_many(interrupted(), acknowledge=acknowledged.append)
    memory.close()
    with Memory(tmp_path) as memory:
        assert len(acknowledged) >= 192
        assert memory.info()["teachings"] == len(acknowledged)


def test_a_model_interrupted_during_an_update_is_discarded(taught, monkeypatch):
    folder, X, names = taught
    with Memory(folder) as memory:
        memory.teach(X[0], "before", also=True)
        partial_fit = RecursiveRLSC.partial_fit

        def interrupted(self, *arguments):
            partial_fit(self, *arguments)
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(RecursiveRLSC, "partial_fit", interrupted)
            with pytest.raises(KeyboardInterrupt):
                memory.ask(X[0])
        assert memory.ask(X[1])[0].name == names[1]
        assert same_bits(state_of(memory), replayed_state(memory))


def test_a_closed_memory_raises_a_named_error(tmp_path):
    memory = Memory(tmp_path)
    memory.close()
    memory.close()
    for action in (
        lambda: memory.teach([1.0], "x"),
        lambda: memory.ask([1.0]),
        memory.names,
        memory.undo,
    ):
        with pytest.raises(MemoryClosed, match="open it again"):
            action()


def test_switching_the_classifier_is_atomic(taught, monkeypatch):
    folder, X, names = taught
    with Memory(folder) as memory:

        def refuse(*_):
            raise CannotWrite("the disk is full")

        with monkeypatch.context() as patch:
            patch.setattr(memory._opened.journal, "set_fact", refuse)
            with pytest.raises(CannotWrite):
                memory.use(classifier=NearestClassMean())
        assert "RecursiveRLSC" in memory.info()["classifier"]
        assert memory.ask(X[0])[0].name == names[0]
    with Memory(folder) as memory:
        assert "RecursiveRLSC" in memory.info()["classifier"]


def without_row(folder, table, teaching):
    with sqlite3.connect(folder / "journal.sqlite") as db:
        db.execute(f"DELETE FROM {table} WHERE teaching = ?", (teaching,))
    db.close()


def test_a_lost_thumbnail_is_detected(tmp_path, clusters):
    X, _ = clusters(each=2)
    example = Example(X[0].astype(np.float32), "a.png", bytes(32), b"not looked at")
    with Memory(tmp_path / "memory") as memory:
        TeachingWriter(memory._opened.journal, "teach", again=False, also=True).write(
            [("cup", example)]
        )
        memory.teach(X[1], "plate")
        assert [teaching.has_thumbnail for teaching in memory.teachings()] == [True, False]
        assert memory.thumbnail(2) is None
    without_row(tmp_path / "memory", "thumbnails", 1)
    with Memory(tmp_path / "memory", read_only=True) as memory:
        with pytest.raises(DamagedJournal, match="missing among the thumbnails"):
            memory.thumbnail(1)
        assert not memory.verify().ok


def test_a_lost_vector_is_detected_when_it_is_read(taught):
    folder, _, _ = taught
    without_row(folder, "vectors", 7)
    for file in folder.glob("prepared-*"):
        file.unlink()
    with Memory(folder, read_only=True) as memory, pytest.raises(DamagedJournal, match="vector"):
        memory.report()


def test_erasing_a_teaching_without_a_vector_raises_a_named_error(taught):
    folder, _, _ = taught
    without_row(folder, "vectors", 7)
    with Memory(folder) as memory, pytest.raises(DamagedJournal, match="vector"):
        memory.forget(id=7, erase=True)


def test_damage_in_the_log_before_a_snapshot_is_detected(taught):
    folder, _, _ = taught
    with sqlite3.connect(folder / "journal.sqlite") as db:
        db.execute("UPDATE log SET operation = 2 WHERE position = 3")
        columns = "kind, time, turns, dropped, name, called"
        row = (2, *db.execute(f"SELECT {columns} FROM operations WHERE id = 1").fetchone())
        own = row_checksum("operations", *row)
        db.execute("INSERT INTO operations VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*row, own))
    db.close()
    with pytest.raises(DamagedJournal, match="entry 3 of the log"):
        Memory(folder, read_only=True).history()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes")
@pytest.mark.parametrize("end", ["", "-wal", "-journal", "-shm"])
@pytest.mark.parametrize("read_only", [True, False])
def test_a_pipe_in_place_of_the_journal_is_refused(taught, end, read_only):
    """Opening it would wait forever."""
    folder, _, _ = taught
    file = folder / f"journal.sqlite{end}"
    file.unlink(missing_ok=True)
    os.mkfifo(file)
    with pytest.raises(NotAMemory, match="not a regular file"):
        Memory(folder, read_only=read_only)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes")
def test_a_pipe_in_place_of_the_lock_is_refused(taught):
    folder, _, _ = taught
    (folder / "writer.lock").unlink()
    os.mkfifo(folder / "writer.lock")
    with pytest.raises(NotAMemory, match="not a regular file"):
        Memory(folder)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes")
def test_pipes_in_place_of_caches_are_not_read(taught, tmp_path):
    folder, X, _ = taught
    names = [path.name for path in folder.glob("snapshot-*")]
    assert names
    for name in names:
        (folder / name).unlink()
    for name in (*names, "prepared-0", "before-reembed-1", "network-x.safetensors"):
        os.mkfifo(folder / name)
    with Memory(folder, read_only=True) as memory:
        assert len(memory.ask(X[0])) > 0
        with pytest.raises(CannotWrite, match="not a regular file"):
            memory.backup(tmp_path / "copy")
    (folder / "network-x.safetensors").unlink()
    with Memory(folder) as memory:
        memory.backup(tmp_path / "copy")
    assert [path.name for path in (tmp_path / "copy").iterdir()] == ["journal.sqlite"]
