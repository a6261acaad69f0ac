"""Familiarity as a linear blend of scores; familiar.py chooses the coefficients."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from everlearn.arrays import Array


@dataclass(frozen=True)
class Blend:
    """familiarity = a · likeness + b · mean likeness + c · best score + d.

    Attributes
    ----------
    coefficients : ndarray of shape (4,)
        a, b, c and d.
    """

    coefficients: Array

    def of(self, likeness: Any, average: Any, score: Any) -> Any:
        """The familiarity of one example, or of many if these are arrays."""
        a, b, c, d = self.coefficients
        return a * likeness + b * average + c * score + d


# Only the cosine to the nearest name.
LIKENESS = Blend(np.array([1.0, 0.0, 0.0, 0.0]))
