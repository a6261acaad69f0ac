"""Storages of a Memory: each test that uses ``where`` runs once per storage."""

import pytest


@pytest.fixture(params=["folder", "postgres"])
def where(request, tmp_path):
    """The location of a new Memory: a folder, or an address."""
    if request.param == "folder":
        return tmp_path / "memory"
    return request.getfixturevalue("address")
