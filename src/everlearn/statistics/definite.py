"""A Cholesky factor that is there, or an error that says what to do about it."""

import numpy as np
from scipy.linalg import cho_factor

from everlearn.arrays import Array
from everlearn.errors import LostDefiniteness


def definite_factor(matrix: Array, otherwise: str) -> tuple[Array, bool]:
    """The factor ``cho_solve`` takes; ``LostDefiniteness``, with these words, if there is none."""
    try:
        return cho_factor(matrix, lower=True)
    except (np.linalg.LinAlgError, ValueError):  # not definite; overflowed
        raise LostDefiniteness(otherwise) from None
