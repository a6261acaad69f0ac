"""Fixtures every test may use."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from everlearn_papers.data import packs
from everlearn_papers.data.catalogue import find

from everlearn.errors import MissingData


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
