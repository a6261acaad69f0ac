"""Kernel functions between examples.

    linear        k(x, z) = x·z
    rbf           k(x, z) = exp(−γ ‖x − z‖²)
    chi2          k(x, z) = exp(−γ Σ_j (x_j − z_j)² / (x_j + z_j))        histograms
    intersection  k(x, z) = Σ_j min(x_j, z_j)                             histograms
    precomputed   rows are kernel values: column i belongs to the i-th example taught
    a callable    K = kernel(A, B), one row for each row of A and one column for each of B, as
                  scikit-learn's pairwise kernels; such a learner cannot be saved, because files
                  contain no code

γ defaults to one over the mean squared distance between the available examples, so that scaling all
features changes nothing. Tommasi et al. (2012) write exp(−‖x − z‖² / δ) with δ "the mean of the
pairwise distances"; here δ is the mean of the squared distances, so that it has the unit of the
numerator. For the χ² kernel it is the mean χ² distance. The two histogram kernels require
non-negative features; otherwise they are not kernels. They cost O(d) per pair, without a matrix
product.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from everlearn.arrays import Array
from everlearn.errors import InvalidInput, InvalidParameter
from everlearn.validation import require_one_of, require_positive

KernelWord = Literal["linear", "rbf", "chi2", "intersection", "precomputed"]
KernelFunction = Callable[[Array, Array], Any]
# Kernels whose learners keep no examples; kernels with γ; kernels of histograms.
WITHOUT_EXAMPLES = ("linear", "precomputed")
WITH_GAMMA = ("rbf", "chi2")
HISTOGRAM_KERNELS = ("chi2", "intersection")


@dataclass(frozen=True)
class Kernel:
    """A kernel by name, or a user-defined function.

    ``gamma`` is None until it is known, and for kernels without it.
    """

    name: KernelWord | KernelFunction
    gamma: float | None = None

    @classmethod
    def checked(cls, name: KernelWord | KernelFunction, gamma: float | None) -> "Kernel":
        """A kernel with validated parameters."""
        if not callable(name):
            require_one_of("kernel", name, get_args(KernelWord))
        require_positive("gamma", gamma, or_none=True)
        if callable(name) and gamma is not None:
            raise InvalidParameter(
                "gamma belongs to the kernels 'rbf' and 'chi2'; bind it to your own function "
                "with functools.partial"
            )
        return cls(name, gamma)

    @property
    def keeps_examples(self) -> bool:
        """Whether scores are sums over stored examples."""
        return self.name not in WITHOUT_EXAMPLES

    @property
    def lacks_gamma(self) -> bool:
        return self.name in WITH_GAMMA and self.gamma is None

    def require(self, X: Array) -> None:
        """Refuse examples that the kernel is not defined for."""
        if self.name in HISTOGRAM_KERNELS and X.size and X.min() < 0.0:
            raise InvalidInput(
                f"the kernel {self.name!r} compares histograms, whose entries are not negative; "
                f"the smallest here is {X.min():.3g}; use kernel='rbf' for such features"
            )

    def for_examples(self, X: Array, weights: Array | None = None) -> "Kernel":
        """The same kernel, with γ estimated from these examples if it was not given."""
        if not self.lacks_gamma:
            return self
        mean = mean_squared_distance if self.name == "rbf" else mean_chi2_distance
        return Kernel(self.name, 1.0 / mean(X, weights))

    def between(self, X: Array, kept: Array) -> Array:
        """k(x_i, z_j) of each row x_i of X with each stored example z_j."""
        if callable(self.name):
            return _checked_values(self.name(X, kept), len(X), len(kept))
        if self.name == "precomputed":
            return X[:, : len(kept)]
        if self.name == "linear":
            return X @ kept.T
        if self.name == "intersection":
            return _pairs(X, kept, lambda rows, z: np.minimum(rows, z).sum(axis=1))
        assert self.gamma is not None
        if self.name == "chi2":
            return np.exp(-self.gamma * chi2_distances(X, kept))
        return rbf(X, kept, self.gamma)

    def diagonal(self, X: Array) -> Array:
        """k(x, x) of every row, for kernels that store examples."""
        if callable(self.name):
            return np.array([self.between(x[None], x[None])[0, 0] for x in X])
        return X.sum(axis=1) if self.name == "intersection" else np.ones(len(X))


def _checked_values(values: Any, n_rows: int, n_columns: int) -> Array:
    """Validate the result of a user-defined kernel: a finite matrix of this shape."""
    try:
        K = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidParameter(
            f"the kernel function returned a {type(values).__name__}, not a matrix of numbers"
        ) from None
    if K.shape != (n_rows, n_columns):
        raise InvalidParameter(
            f"the kernel function returned shape {K.shape} for {n_rows} and {n_columns} examples; "
            "it must take two matrices and return a row for each row of the first and a column for "
            "each row of the second"
        )
    if not np.isfinite(K).all():
        raise InvalidParameter("the kernel function returned values that are not finite")
    return K


def mean_squared_distance(X: Array, weights: Array | None = None) -> float:
    """The mean of ‖x_i − x_j‖² over pairs i ≠ j, which is 2 Σ ‖x_i − m‖² / (n − 1), in O(n d).

    A weight counts as that many copies. Returns one if there are fewer than two distinct
    examples.
    """
    total = float(len(X) if weights is None else weights.sum())
    if len(X) < 2 or total <= 1.0:
        return 1.0
    centred = X - np.average(X, axis=0, weights=weights)
    squares = np.einsum("ij,ij->i", centred, centred)
    distance = 2.0 * float(squares.sum() if weights is None else squares @ weights) / (total - 1)
    return distance if distance > 0 else 1.0


def mean_chi2_distance(X: Array, weights: Array | None = None) -> float:
    """The mean χ² distance over pairs i ≠ j, in O(n² d); weights and special cases as above."""
    counts = np.ones(len(X)) if weights is None else weights
    total = float(counts.sum())
    if len(X) < 2 or total <= 1.0:
        return 1.0
    distance = float(counts @ chi2_distances(X, X) @ counts) / (total * (total - 1.0))
    return distance if distance > 0 else 1.0


def chi2_distances(A: Array, B: Array) -> Array:
    """Σ_j (a_j − b_j)² / (a_j + b_j) for all pairs of rows; 0 / 0 counts as 0."""

    def distances_to(rows: Array, z: Array) -> Array:
        sums = rows + z
        shares = np.divide((rows - z) ** 2, sums, out=np.zeros_like(sums), where=sums > 0)
        distances: Array = shares.sum(axis=1)
        return distances

    return _pairs(A, B, distances_to)


def _pairs(A: Array, B: Array, values_for: Callable[[Array, Array], Array]) -> Array:
    """A matrix whose column j is ``values_for(A, B[j])``."""
    values = np.empty((len(A), len(B)))
    for column, z in enumerate(B):
        values[:, column] = values_for(A, z)
    return values


def rbf(A: Array, B: Array, gamma: float) -> Array:
    """exp(−γ ‖a_i − b_j‖²) for all pairs of rows."""
    # Centred first, so that a common offset does not cost precision.
    centre = B.mean(axis=0) if len(B) else 0.0
    A, B = A - centre, B - centre
    squares = np.einsum("ij,ij->i", A, A)[:, None] + np.einsum("ij,ij->i", B, B)
    values: Array = np.exp(-gamma * np.maximum(squares - 2.0 * (A @ B.T), 0.0))
    return values
