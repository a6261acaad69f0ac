"""Transactions on a Memory's tables in a database."""

import contextlib

import numpy as np
import pytest

from everlearn import Memory
from everlearn.memory.storage.backup import restore
from everlearn.memory.storage.locations import storage_at
from everlearn.memory.storage.postgres.database import PostgresDatabase


def test_a_failed_savepoint_undoes_buffered_rows_and_events(address):
    with contextlib.closing(storage_at(address).open(write=True)) as db:
        events = "SELECT kind FROM events"

        def fail():
            with db.savepoint():
                db.replace("facts", "inside", "2", b"checksum")
                db.record_event("taught", name="inside")
                raise ArithmeticError

        with db.transaction():
            db.replace("facts", "before", "1", b"checksum")
            db.record_event("taught", name="before")
            with pytest.raises(ArithmeticError):
                fail()
            db.record_event("renamed", name="after")
            db.replace("facts", "after", "3", b"checksum")
        assert [row[0] for row in db.rows("SELECT key FROM facts ORDER BY key")] == [
            "after",
            "before",
        ]
        assert [row[0] for row in db.rows(f"{events} ORDER BY number")] == ["taught", "renamed"]


def test_a_folder_restored_from_a_changing_database_is_one_state(address, tmp_path, monkeypatch):
    """Another process teaches while the tables are copied one after another."""
    X = np.random.default_rng(0).normal(size=(40, 4))
    with Memory(address) as writer:
        writer.teach_many((x, "cup") for x in X[:10])
        each, taught = PostgresDatabase.each, iter(X[10:])

        def each_while_teaching(self, query, *values):
            yield from each(self, query, *values)
            if query.startswith("SELECT * FROM"):
                writer.teach(next(taught), "pen")

        monkeypatch.setattr(PostgresDatabase, "each", each_while_teaching)
        assert restore(address, tmp_path / "memory") == 10
    monkeypatch.undo()
    with Memory(tmp_path / "memory") as memory:
        assert memory.verify().problems == ()
