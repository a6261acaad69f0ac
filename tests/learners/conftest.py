"""Examples for the learners: unbalanced classes with correlated features."""

from typing import NamedTuple

import numpy as np
import pytest


class Examples(NamedTuple):
    X: np.ndarray
    y: np.ndarray
    X_new: np.ndarray
    y_new: np.ndarray


@pytest.fixture
def examples(rng) -> Examples:
    names = np.array(["pear", "fig", "apple", "kiwi", "lime"])
    centres = 2.0 * rng.normal(size=(5, 8))
    mixing = np.eye(8) + 0.5 * rng.normal(size=(8, 8))

    def draw(counts):
        slots = rng.permutation(np.repeat(np.arange(5), counts))
        return centres[slots] + rng.normal(size=(len(slots), 8)) @ mixing, names[slots]

    return Examples(*draw([60, 40, 20, 8, 3]), *draw([20, 20, 20, 20, 20]))
