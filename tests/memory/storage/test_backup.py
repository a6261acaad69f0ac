"""Regressions: accepted values can be opened again, and backups can be restored."""

import logging
import sqlite3
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner

from everlearn import Memory, NearestClassMean, RecursiveRLSC, StreamingLDA, StreamPipeline
from everlearn.cli.app import app
from everlearn.errors import (
    AlreadyThere,
    CannotWrite,
    DamagedJournal,
    EverlearnError,
    InvalidInput,
    InvalidParameter,
)
from everlearn.memory.storage.backup import restore
from everlearn.memory.storage.rows import LONGEST_FACT, LONGEST_SOURCE
from everlearn.memory.storage.sqlite.database import FILE, SQLiteDatabase


def teach(memory, rng, count=8):
    for number, vector in enumerate(rng.normal(size=(count, 6))):
        memory.teach(vector, f"name {number % 2}", source=f"/shelf/{number}")


@pytest.mark.parametrize("size", [0, 512, 5_000, 20_000])
def test_a_damaged_journal_is_restored_from_a_backup(tmp_path, rng, size):
    with Memory(tmp_path / "m") as memory:
        teach(memory, rng)
        memory.backup(tmp_path / "backup")
        teach(memory, rng, 100)
    journal = tmp_path / "m" / FILE
    with journal.open("rb+") as file:
        file.truncate(size)
        if size > 512:
            file.seek(100)
            file.write(bytes(range(256)) * 4)
    with pytest.raises(EverlearnError), Memory(tmp_path / "m") as memory:
        memory.names()
    result = CliRunner().invoke(
        app, ["-m", str(tmp_path / "m"), "restore", "--yes", str(tmp_path / "backup")]
    )
    assert result.exit_code == 0, result.output
    with Memory(tmp_path / "m") as memory:
        assert len(memory.teachings()) == 8
        assert memory.verify().ok
        memory.teach(np.ones(6), "new")


def test_a_backup_holds_the_networks(tmp_path, rng):
    with Memory(tmp_path / "m") as memory:
        teach(memory, rng)
        (tmp_path / "m" / "network-0123456789abcdef.safetensors").write_bytes(b"weights")
        memory.backup(tmp_path / "backup")
    (tmp_path / "m" / "network-0123456789abcdef.safetensors").unlink()
    restore(tmp_path / "backup", tmp_path / "m")
    network = tmp_path / "m" / "network-0123456789abcdef.safetensors"
    assert network.read_bytes() == b"weights"


def test_a_backup_inside_the_memory_is_refused(tmp_path, rng):
    with Memory(tmp_path / "m") as memory:
        teach(memory, rng)
        with pytest.raises(AlreadyThere, match="inside the Memory itself"):
            memory.backup(tmp_path / "m" / "backup")
        with pytest.raises(AlreadyThere, match="inside the Memory itself"):
            memory.backup(tmp_path / "m" / "a" / ".." / "backup")


def test_a_full_disk_at_closing_is_not_reported_as_a_lost_change(
    tmp_path, rng, monkeypatch, caplog
):
    with Memory(tmp_path / "m") as memory:
        teach(memory, rng)

    def full(self, *, wait=True):
        raise CannotWrite("disk is full; nothing of this change was kept")

    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING, "everlearn"):
        patch.setattr(SQLiteDatabase, "checkpoint", full)
        result = CliRunner().invoke(app, ["-m", str(tmp_path / "m"), "forget", "name 1"])
    assert result.exit_code == 0
    assert result.stdout.startswith("forgot 4 teachings")
    assert "nothing of this change was kept" not in result.output + caplog.text
    assert "everything taught is kept" in caplog.text
    with Memory(tmp_path / "m") as memory:
        assert list(memory.names()) == ["name 0"]


def backed_up_and_taught(folder, rng):
    with Memory(folder / "m") as memory:
        teach(memory, rng)
        memory.backup(folder / "backup")
        memory.teach(np.ones(6), "later")


def test_a_restore_succeeds_without_its_final_checkpoint(tmp_path, rng, monkeypatch):
    backed_up_and_taught(tmp_path, rng)

    def full(self, *, wait=True):
        raise CannotWrite("disk is full; nothing of this change was kept")

    with monkeypatch.context() as patch:
        patch.setattr(SQLiteDatabase, "checkpoint", full)
        assert restore(tmp_path / "backup", tmp_path / "m") == 8
    with Memory(tmp_path / "m") as memory:
        assert "later" not in memory.names()
        assert memory.verify().ok


def test_the_error_of_a_failed_flush_says_that_the_restore_is_uncertain(tmp_path, rng):
    backed_up_and_taught(tmp_path, rng)

    def fails(target):
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC
        raise error

    with Memory(tmp_path / "m") as memory, Memory(tmp_path / "backup", read_only=True) as backup:
        origin = backup._opened.journal.db
        origin._db, kept = SimpleNamespace(backup=fails), origin._db
        try:
            with pytest.raises(CannotWrite, match="it is not certain whether") as raised:
                memory._opened.journal.db.take_over(origin)
        finally:
            origin._db = kept
    assert "nothing of this change was kept" not in str(raised.value)


INVALID = [
    StreamingLDA(shrinkage=7.0),
    StreamingLDA(shrinkage=-1.0),
    StreamingLDA(shrinkage="much"),
    RecursiveRLSC(regularization=-1.0),
    RecursiveRLSC(recoding="often"),
    RecursiveRLSC(regularization=float("nan")),
    NearestClassMean(metric="manhattan"),
    StreamPipeline([]),
    StreamPipeline([("root", 3)]),
    StreamPipeline([1, 2]),
    StreamPipeline(3),
]


@pytest.mark.parametrize("invalid", INVALID)
def test_an_invalid_classifier_is_refused_before_it_is_stored(tmp_path, rng, invalid):
    with Memory(tmp_path / "m") as memory:
        teach(memory, rng)
        before = memory.info()["classifier"]
        with pytest.raises(InvalidParameter):
            memory.use(classifier=invalid)
        assert memory.info()["classifier"] == before
    with Memory(tmp_path / "m", read_only=True) as memory:
        assert memory.verify().ok
    with pytest.raises(InvalidParameter):
        Memory(tmp_path / "new", classifier=invalid)


def test_a_broken_classifier_is_replaced_by_use(tmp_path, rng):
    with Memory(tmp_path / "m") as memory:
        teach(memory, rng)
        with memory._opened.one_change() as journal:
            journal.set_fact("classifier", "bm8gY2xhc3NpZmllcg==")
    with Memory(tmp_path / "m") as memory, pytest.raises(DamagedJournal, match="use ridge"):
        memory.ask(np.ones(6))
    result = CliRunner().invoke(app, ["-m", str(tmp_path / "m"), "use", "lda"])
    assert result.exit_code == 0, result.output
    with Memory(tmp_path / "m") as memory:
        assert memory.verify().ok
        assert len(memory.ask(np.ones(6))) == 2


def test_accepted_values_can_be_opened_again(tmp_path, rng):
    bad = b"\xff".decode("utf-8", "surrogateescape")
    with Memory(tmp_path / "m") as memory:
        memory.teach(np.ones(6), "cup", source=bad * (LONGEST_SOURCE // 6))
        for source in (bad * (LONGEST_SOURCE // 6 + 1), bad * 6_000, "x" * (LONGEST_SOURCE + 1)):
            with pytest.raises(InvalidInput, match="at most"):
                memory.teach(np.zeros(6), "cup", source=source)
        with (
            pytest.raises(InvalidInput, match="in the table facts"),
            memory._opened.one_change() as j,
        ):
            j.set_fact("embedder", "x" * (LONGEST_FACT + 1))
    with Memory(tmp_path / "m") as memory:
        assert len(memory.teachings()) == 1
        assert memory.verify().ok


def test_a_source_that_is_too_long_does_not_stop_the_others(tmp_path, rng):
    from everlearn.memory.storage.rows import Example

    rows = rng.normal(size=(3, 6)).astype(np.float32)
    sources = ["a", "\udcff" * 6_000, "b"]
    outcomes = []
    with Memory(tmp_path / "m") as memory:
        done = memory.teach_many(
            [
                (Example(row, source, bytes(31) + bytes([place])), "cup")
                for place, (row, source) in enumerate(zip(rows, sources, strict=True))
            ],
            acknowledge=outcomes.append,
        )
    assert (done.taught, done.unreadable) == (2, 1)
    assert "at most 32768 characters" in str(outcomes[1].error)
    with Memory(tmp_path / "m") as memory:
        assert memory.verify().ok


@pytest.mark.parametrize("width", [(1 << 24) + 1])
def test_a_vector_that_is_too_wide_is_refused(tmp_path, width):
    with Memory(tmp_path / "m") as memory:
        with pytest.raises(InvalidInput, match="at most 16777216 features"):
            memory.teach(np.zeros(width, dtype=np.float32), "cup")
        assert memory.history() == []
    with Memory(tmp_path / "m") as memory:
        assert memory.verify().ok
