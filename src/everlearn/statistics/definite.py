"""Factors and spectra of symmetric matrices, with errors that say what to do."""

import numpy as np
from scipy.linalg import cho_factor

from everlearn.arrays import Array
from everlearn.errors import LostDefiniteness

TOO_LARGE = "the features are too large, or of too different sizes, to compute with; scale them"


def definite_factor(
    matrix: Array, otherwise: str = TOO_LARGE, *, overwrite: bool = False
) -> tuple[Array, bool]:
    """The factor for ``cho_solve``; raises ``LostDefiniteness`` with this message otherwise."""
    try:
        factor, _ = cho_factor(matrix, lower=True, overwrite_a=overwrite)
    except (np.linalg.LinAlgError, ValueError):  # not definite; overflowed
        raise LostDefiniteness(otherwise) from None
    return factor, True


def spectrum(upper: Array) -> tuple[Array, Array]:
    """Ascending eigenvalues, and eigenvectors, from the upper triangle of a matrix."""
    try:
        values, vectors = np.linalg.eigh(upper, UPLO="U")
    except np.linalg.LinAlgError:
        raise LostDefiniteness(TOO_LARGE) from None
    return values, vectors
