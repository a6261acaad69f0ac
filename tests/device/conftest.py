"""Examples and kinds of arrays for the tests of devices."""

import numpy as np
import pytest

from tests.device.kinds import NAMES, Kind, kind_named


@pytest.fixture(params=NAMES)
def kind(request) -> Kind:
    return kind_named(request.param)


@pytest.fixture
def examples(rng) -> tuple[np.ndarray, np.ndarray]:
    """Unbalanced classes, far from zero and of different scale, in random order."""
    names = np.array(["pear", "fig", "apple", "kiwi", "lime"])
    slots = rng.permutation(np.repeat(np.arange(5), [60, 40, 20, 8, 3]))
    centres = 100.0 + 2.0 * rng.normal(size=(5, 6))
    mixing = np.eye(6) + 0.5 * rng.normal(size=(6, 6))
    return centres[slots] + rng.normal(size=(len(slots), 6)) @ mixing, names[slots]
