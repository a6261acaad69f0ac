"""Factors and spectra of symmetric matrices, or an error that says what to do instead."""

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


TOO_LARGE = "the numbers are too large to work out their spectrum: scale the features"


def spectrum(upper: Array) -> tuple[Array, Array]:
    """Eigenvalues, ascending, and eigenvectors, from the upper half of a matrix."""
    try:
        values, vectors = np.linalg.eigh(upper, UPLO="U")
    except np.linalg.LinAlgError:
        raise LostDefiniteness(TOO_LARGE) from None
    return values, vectors
