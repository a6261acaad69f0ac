"""Kernels: how alike two examples are.

    linear        k(x, z) = x·z
    gaussian      k(x, z) = exp(−‖x − z‖² / δ)
    precomputed   rows are kernel values already: column i belongs to the i-th example taught

δ, the bandwidth, is the mean squared distance between the first examples unless it is given. The
paper says "the mean of the pairwise distances"; squared ones are meant here, so that δ has the unit
of what it divides and scaling all features changes nothing.
"""

import numpy as np

from everlearn.base import Array
from everlearn.errors import InvalidParameter

KERNELS = ("linear", "gaussian", "precomputed")


def check_kernel(kernel: str, bandwidth: float | None) -> None:
    if kernel not in KERNELS:
        raise InvalidParameter(f"kernel is one of {', '.join(KERNELS)}, not {kernel!r}")
    if bandwidth is not None and not (np.isfinite(bandwidth) and bandwidth > 0):
        raise InvalidParameter(f"bandwidth is a number above zero or None, not {bandwidth!r}")


def mean_squared_distance(X: Array, weights: Array | None = None) -> float:
    """The mean of ‖x_i − x_j‖² over pairs i ≠ j, which is 2 Σ ‖x_i − m‖² / (n − 1), in O(n d).

    A weight counts as so many copies. One where the examples say nothing: fewer than two, or all
    of them the same.
    """
    total = float(len(X) if weights is None else weights.sum())
    if len(X) < 2 or total <= 1.0:
        return 1.0
    centred = X - np.average(X, axis=0, weights=weights)
    squares = np.einsum("ij,ij->i", centred, centred)
    distance = 2.0 * float(squares.sum() if weights is None else squares @ weights) / (total - 1)
    return distance if distance > 0 else 1.0


def gaussian(A: Array, B: Array, bandwidth: float) -> Array:
    """k(a_i, b_j) for all pairs of rows."""
    # About a common centre, so that an offset of all features does not eat the digits.
    centre = B.mean(axis=0) if len(B) else 0.0
    A, B = A - centre, B - centre
    squares = np.einsum("ij,ij->i", A, A)[:, None] + np.einsum("ij,ij->i", B, B)
    distances = np.maximum(squares - 2.0 * (A @ B.T), 0.0)
    values: Array = np.exp(-distances / bandwidth)
    return values
