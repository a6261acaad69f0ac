"""Fixtures every test may use."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20260401)


@pytest.fixture(scope="session")
def data_pack() -> Callable[[str], Any]:
    """Open a data pack by its file name, or skip the test saying which one is missing."""

    def open_pack(name: str) -> Any:
        folder = os.environ.get("EVERLEARN_DATA")
        path = Path(folder or ".") / name
        if not folder or not path.exists():
            pytest.skip(f"data pack {name} is missing; set EVERLEARN_DATA to the folder with it")
        return np.load(path, allow_pickle=False)

    return open_pack
