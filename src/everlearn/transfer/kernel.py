"""Kernels: how alike two examples are.

    linear        k(x, z) = x·z
    rbf           k(x, z) = exp(−γ ‖x − z‖²)
    precomputed   rows are kernel values already: column i belongs to the i-th example taught

γ is one over the mean squared distance between the examples at hand unless it is given, so that
scaling all features changes nothing. Tommasi et al. (2012) write exp(−‖x − z‖² / δ) with δ "the
mean of the pairwise distances"; squared ones are meant here, which have the unit of what δ divides.
"""

from dataclasses import dataclass

import numpy as np

from everlearn.arrays import Array
from everlearn.validation import require_one_of, require_positive

KERNELS = ("linear", "rbf", "precomputed")


@dataclass(frozen=True)
class Kernel:
    """One of the kernels by name; ``gamma`` is None until it is known, and where there is none."""

    name: str
    gamma: float | None = None

    @classmethod
    def checked(cls, name: str, gamma: float | None) -> "Kernel":
        require_one_of("kernel", name, KERNELS)
        require_positive("gamma", gamma, or_none=True)
        return cls(name, gamma)

    @property
    def lacks_gamma(self) -> bool:
        return self.name == "rbf" and self.gamma is None

    def for_examples(self, X: Array, weights: Array | None = None) -> "Kernel":
        """The same kernel, with γ taken from these examples where it was not given."""
        return Kernel("rbf", 1.0 / mean_squared_distance(X, weights)) if self.lacks_gamma else self

    def between(self, X: Array, kept: Array) -> Array:
        """k(x_i, z_j) of all rows with the examples kept, which came first of all."""
        if self.name == "precomputed":
            return X[:, : len(kept)]
        if self.name == "linear":
            return X @ kept.T
        assert self.gamma is not None
        return rbf(X, kept, self.gamma)


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


def rbf(A: Array, B: Array, gamma: float) -> Array:
    """k(a_i, b_j) for all pairs of rows."""
    # About a common centre, so that an offset of all features does not eat the digits.
    centre = B.mean(axis=0) if len(B) else 0.0
    A, B = A - centre, B - centre
    squares = np.einsum("ij,ij->i", A, A)[:, None] + np.einsum("ij,ij->i", B, B)
    values: Array = np.exp(-gamma * np.maximum(squares - 2.0 * (A @ B.T), 0.0))
    return values
