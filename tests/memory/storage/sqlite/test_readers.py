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
