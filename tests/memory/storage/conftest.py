"""Where a Memory may be kept: each test of the interface runs once for every way."""

import pytest


@pytest.fixture(params=["folder", "postgres"])
def where(request, tmp_path):
    """Where a new Memory is to be kept."""
    if request.param == "folder":
        return tmp_path / "memory"
    return request.getfixturevalue("address")
