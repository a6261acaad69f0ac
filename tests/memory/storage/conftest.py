"""Storages of a Memory: each test of the interface runs once per storage."""

import pytest


@pytest.fixture(params=["folder", "postgres"])
def where(request, tmp_path):
    """Where a new Memory is to be kept."""
    if request.param == "folder":
        return tmp_path / "memory"
    return request.getfixturevalue("address")
