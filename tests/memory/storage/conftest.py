"""Where a Memory may be kept: each test of the interface runs once for every way."""

import itertools

import pytest

from benchmarks.postgres_server import NoServer, PostgresServer

_NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def server():
    """A PostgreSQL server of our own, or skip the test saying what is missing."""
    pytest.importorskip("psycopg", reason="psycopg is not installed: everlearn[postgres]")
    try:
        made = PostgresServer({"fsync": "off"})
    except NoServer as missing:
        pytest.skip(str(missing))
    with made:
        yield made


@pytest.fixture
def address(server):
    """The address of a Memory in the database that no other test uses."""
    return f"{server.url()}#test-{next(_NUMBERS)}"


@pytest.fixture(params=["folder", "postgres"])
def where(request, tmp_path):
    """Where a new Memory is to be kept."""
    if request.param == "folder":
        return tmp_path / "memory"
    return request.getfixturevalue("address")
