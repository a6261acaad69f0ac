"""Fixtures every test may use."""

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

# Before numpy is imported: beside other workers, threads of BLAS only wait for each other.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pytest
from everlearn_papers.data import packs
from everlearn_papers.data.catalogue import find

from everlearn.errors import MissingData

_NUMBERS = itertools.count()


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20260401)


@pytest.fixture(scope="session")
def data_pack() -> Callable[[str], Any]:
    """Open a data pack by its file name, or skip the test saying which one is missing."""

    def open_pack(name: str) -> Any:
        try:
            return packs.opened(name)
        except MissingData as missing:
            pytest.skip(str(missing))

    return open_pack


@pytest.fixture(scope="session")
def photographs() -> Path:
    """The folder of demo photographs, one folder per class, or skip the test."""
    try:
        return find("demo_photos")
    except MissingData as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def server() -> Iterator[Any]:
    """A PostgreSQL server of our own, or skip the test saying what is missing."""
    pytest.importorskip("psycopg", reason="psycopg is not installed: everlearn[postgres]")
    from benchmarks.postgres_server import NoServer, PostgresServer

    try:
        made = PostgresServer({"fsync": "off"})
    except NoServer as missing:
        pytest.skip(str(missing))
    with made:
        yield made


@pytest.fixture
def address(server: Any) -> str:
    """The address of a Memory in the database that no other test uses."""
    return f"{server.url()}#test-{next(_NUMBERS)}"
