"""Fixtures every test may use."""

import itertools
import os
import shutil
import tempfile
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
from hypothesis import settings

from everlearn.errors import MissingData

# No test measures time: a busy machine would fail it.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

_NUMBERS = itertools.count()

# Tests that one worker runs: together they start a cluster, or compile the same functions.
TOGETHER = ("tests/cluster/", "tests/forest/")
# What takes longest is begun first, so that workers end at the same time.
LONGEST = (
    *TOGETHER,
    "tests/docs/test_pages_run.py",
    "tests/service/page/test_app.py",
    "tests/attacks/test_memory_safety.py",
    "tests/cli/test_app.py",
    "tests/test_acceleration.py",
    "tests/docs/test_site.py",
    "papers/tests/test_reproduce.py",
    "tests/service/test_fleet.py",
    "tests/memory/storage/postgres/test_failures.py",
    # These use forests too, whose functions are compiled by then.
    "tests/test_architecture.py",
    "tests/contract/test_check_learner.py",
)
# A browser, a site that is built for it, a database server: tests that use one are slow.
SLOW_FIXTURES = {"browse", "site", "postgres"}


# Files here are in memory. What all tests leave in it at once takes a few hundred megabytes.
MEMORY = Path("/dev/shm")
ROOM = 8 << 30


def share_of(nodeid: str) -> str:
    """What a worker runs as a whole: a file, whose fixtures are then made once, or a folder."""
    file = nodeid.partition("::")[0]
    return next((folder for folder in TOGETHER if file.startswith(folder)), file)


def pytest_configure() -> None:
    """Temporary files are made in memory: thousands of small databases would wait for the disk."""
    if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ROOM:
        for variable in ("PYTEST_DEBUG_TEMPROOT", "TMPDIR"):
            os.environ.setdefault(variable, str(MEMORY))
        tempfile.tempdir = None  # read again


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if SLOW_FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker("slow")
    if "PYTEST_XDIST_WORKER" in os.environ:
        rank = {share: place for place, share in enumerate(LONGEST)}
        items.sort(key=lambda item: rank.get(share_of(item.nodeid), len(rank)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler import LoadScopeScheduling

    class Shares(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return share_of(nodeid)

    config.option.loadscopereorder = False  # shares stay in their order
    return Shares(config, log)


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
def postgres() -> Iterator[Any]:
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
def address(postgres: Any) -> str:
    """The address of a Memory in the database that no other test uses."""
    return f"{postgres.url()}#test-{next(_NUMBERS)}"
