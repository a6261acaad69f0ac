"""Long journals are checked in the background, rows that an answer needs before their use."""

import sqlite3

import numpy as np
import pytest

from everlearn import Memory
from everlearn.errors import DamagedJournal
from everlearn.memory import opened
from everlearn.memory.storage import integrity
from everlearn.memory.storage.rows import row_checksum


@pytest.fixture
def folder(rng, tmp_path, monkeypatch):
    """A Memory with a long log whose check begins immediately."""
    monkeypatch.setattr(opened, "HAS_MANY_ENTRIES", "SELECT 1 FROM log WHERE position = 10")
    monkeypatch.setattr(integrity, "DELAY_SECONDS", 0.0)
    with Memory(tmp_path / "memory") as memory:
        for step in range(40):
            memory.teach(np.eye(4)[step % 4] + 0.1 * rng.normal(size=4), f"name {step % 4}")
    return tmp_path / "memory"


def alter(folder, statement):
    with sqlite3.connect(folder / "journal.sqlite") as db:
        db.execute(statement)
    db.close()


@pytest.mark.parametrize(
    ("key", "value"),
    [("n_features", "9" * 5000), ("teachings_used", "-1"), ("strangers_used", "four")],
)
def test_a_forged_number_raises_a_named_error(folder, key, value):
    """Its checksum is right; Python refuses to convert five thousand digits."""
    with sqlite3.connect(folder / "journal.sqlite") as db:
        row = key, value, row_checksum("facts", key, value)
        db.execute("INSERT OR REPLACE INTO facts VALUES (?, ?, ?)", row)
    db.close()
    with pytest.raises(DamagedJournal, match=key), Memory(folder, read_only=True) as memory:
        memory.names()


@pytest.mark.parametrize("read_only", [False, True])
def test_an_intact_long_journal_passes(folder, read_only):
    with Memory(folder, read_only=read_only) as memory:
        memory._opened.wait_for_check()
        assert memory.ask(np.eye(4)[1])[0].name == "name 1"


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE teachings SET source = 'elsewhere' WHERE id = 3",
        "UPDATE log SET sign = -1 WHERE position = 4",
        "DELETE FROM log WHERE position = 5",
    ],
)
def test_the_background_check_finds_damage_that_no_answer_depends_on(folder, statement):
    alter(folder, statement)
    with pytest.raises(DamagedJournal):
        opened_and_checked(folder)


def opened_and_checked(folder):
    with Memory(folder, read_only=True) as memory:
        memory._opened.wait_for_check()


class FakeCheck:
    """An integrity check that finds the damage it is given."""

    damage = None

    def __init__(self, _):
        pass

    def require_nothing_found(self):
        if self.damage:
            raise self.damage

    def stop(self):
        pass


def test_found_damage_stops_asking_and_teaching(folder, monkeypatch):
    monkeypatch.setattr(opened, "IntegrityCheck", FakeCheck)
    memory = Memory(folder)
    memory.ask(np.eye(4)[0])
    monkeypatch.setattr(FakeCheck, "damage", DamagedJournal("row 3 of teachings was altered"))
    with pytest.raises(DamagedJournal, match="row 3"):
        memory.names()
    with pytest.raises(DamagedJournal, match="row 3"):
        memory.teach(np.eye(4)[0], "name 0")
    memory._opened.release()


def test_rows_that_an_answer_needs_are_checked_before_use(folder, monkeypatch):
    monkeypatch.setattr(integrity, "DELAY_SECONDS", 60.0)
    alter(folder, "UPDATE names SET name = 'another' WHERE name = 'name 2'")
    with Memory(folder, read_only=True) as memory, pytest.raises(DamagedJournal, match="names"):
        memory.ask(np.eye(4)[2])


def test_closing_does_not_wait_for_the_check(folder, monkeypatch):
    monkeypatch.setattr(integrity, "DELAY_SECONDS", 3600.0)
    with Memory(folder) as memory:
        memory.teach(np.eye(4)[0] + 0.01, "name 0")


def test_erasing_does_not_wait_for_the_check(folder):
    with Memory(folder) as memory:
        memory.forget(name="name 3", erase=True)
        assert not memory.info()["erase_pending"]
        memory._opened.wait_for_check()
        assert "name 3" not in memory.names()
