"""Reading a folder without write permission."""

import shutil
import sqlite3
import tempfile

import numpy as np
import pytest

from everlearn import Memory
from everlearn.memory.storage.sqlite import readers


def test_a_copy_that_cannot_be_opened_is_removed(tmp_path, monkeypatch):
    with Memory(tmp_path / "memory") as memory:
        memory.teach(np.ones(4), "cup")
        (tmp_path / "frozen").mkdir()
        for name in ("journal.sqlite", "journal.sqlite-wal"):
            shutil.copyfile(tmp_path / "memory" / name, tmp_path / "frozen" / name)
    with (tmp_path / "frozen" / "journal.sqlite").open("rb+") as file:
        file.write(b"not a database" * 10)
    copies = tmp_path / "copies"
    copies.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(copies))
    monkeypatch.setattr(readers.os, "access", lambda *_: False)
    with pytest.raises(sqlite3.DatabaseError) as caught:
        readers.open_reader(tmp_path / "frozen" / "journal.sqlite")
    assert list(copies.iterdir()) == []
    assert caught.value is not None  # its traceback keeps what was not cleaned up alive


def test_a_memory_on_a_full_disk_can_be_asked(tmp_path):
    """The file through which readers coordinate cannot be created."""
    resource = pytest.importorskip("resource")
    place = tmp_path / "memory"
    with Memory(place) as memory:
        memory.teach(np.ones(4), "cup")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        with Memory(place, read_only=True) as reader:
            found = reader.ask(np.ones(4))[0].name
            names = list(reader.names())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (found, names) == ("cup", ["cup"])


def test_answers_are_new_after_another_read_found_the_change(tmp_path, monkeypatch):
    """Without a lock. That read opens the journal again, with a stamp like that of before."""
    monkeypatch.setattr(readers.os, "access", lambda *_: False)
    cup, pen = np.eye(2)
    with Memory(tmp_path) as writer:
        writer.teach(cup, "cup")
    with Memory(tmp_path, read_only=True) as reader:
        assert reader.ask(pen)[0].name == "cup"
        with Memory(tmp_path) as writer:
            writer.teach(pen, "pen")
        assert set(reader.names()) == {"cup", "pen"}
        assert reader.ask(pen)[0].name == "pen"
