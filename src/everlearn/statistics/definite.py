"""Factors and spectra of symmetric matrices, or an error that says what to do instead."""

import numpy as np
from scipy.linalg import cho_factor

from everlearn.arrays import Array
from everlearn.errors import LostDefiniteness

TOO_LARGE = "the numbers are too large, or too different, to compute with: scale the features"


def definite_factor(
    matrix: Array, otherwise: str = TOO_LARGE, *, overwrite: bool = False
) -> tuple[Array, bool]:
    """The factor ``cho_solve`` takes; ``LostDefiniteness``, with these words, if there is none."""
    try:
        return cho_factor(matrix, lower=True, overwrite_a=overwrite)
    except (np.linalg.LinAlgError, ValueError):  # not definite; overflowed
        raise LostDefiniteness(otherwise) from None


def spectrum(upper: Array) -> tuple[Array, Array]:
    """Eigenvalues, ascending, and eigenvectors, from the upper half of a matrix."""
    try:
        values, vectors = np.linalg.eigh(upper, UPLO="U")
    except np.linalg.LinAlgError:
        raise LostDefiniteness(TOO_LARGE) from None
    return values, vectors
