"""Storages of a Memory: each test that uses ``where`` runs once per storage."""

import pytest


def read_damaged(journal, damage, read):
    """Read a journal after a statement has damaged one row; the damage is rolled back."""
    with journal.transaction():
        assert journal.db.run(damage) == 1
        read(journal)


@pytest.fixture(params=["folder", "postgres"])
def where(request, tmp_path):
    """The location of a new Memory: a folder, or an address."""
    if request.param == "folder":
        return tmp_path / "memory"
    return request.getfixturevalue("address")
