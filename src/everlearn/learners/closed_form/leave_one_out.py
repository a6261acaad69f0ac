"""Leave-one-out scores: the score an example would have if it had never been learned.

One example leaves the statistics by a rank-one change, so its score without itself follows from
its score with itself, without retraining. All formulas are exact, for an example x of class s with
weight w, r = x − μ_s, n = n_s.

Least squares with matrix A = T + λ I about the mean m (T the total scatter), N the total weight:

    h = w (1/N + (x − m)ᵀ A⁻¹ (x − m)),        f_k ← (f_k − h [k = s]) / (1 − h)

Without an intercept T is about zero and the term 1/N is dropped. If examples of class k are
weighted by γ_k ("rebalancing"), so are w, T and m; γ is computed with the example.

Discriminant with matrix B = S + ρ I, and nearest class mean where B = I and t = 0:

    μ_s ← μ_s − β r,  β = w / (n − w);         B⁻¹ ← B⁻¹ + t B⁻¹ r rᵀ B⁻¹
    t = a / (1 − a q),  a = n w / (n − w),  q = rᵀ B⁻¹ r

Least squares is diagonal in the eigenvectors of T, so that one eigendecomposition serves all
regularizations; for moments on a device it is computed there. Cost: O(d³) once, then O(n d K) for
each regularization and n examples. For many features, where an eigendecomposition costs thirty
times a Cholesky factor, one factor per regularization is used instead: O(d³/3 + n d²) each. The
discriminant, and least squares in slices, are in ``auto/linear_paths.py``.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from everlearn.arrays import Array, Slots, as_numpy
from everlearn.device.device import Device
from everlearn.device.moments import DeviceMoments
from everlearn.statistics.definite import definite_factor, spectrum
from everlearn.statistics.moments import Moments

# Beyond this many features, one factor per regularization instead of an eigendecomposition.
MANY_FEATURES = 2048
# A class with less than this share of weight left consists of rounding errors.
GONE = 1e-9


@dataclass(frozen=True)
class LearnedRows:
    """Learned examples with their slots and weights."""

    X: Array
    slots: Slots
    weights: Array

    def __len__(self) -> int:
        return len(self.X)

    def take(self, chosen: Slots) -> "LearnedRows":
        return LearnedRows(self.X[chosen], self.slots[chosen], self.weights[chosen])


def leave_one_out_scores(
    fits: Array, leverages: Array, slots: Slots, weights: Array, counts: Array, recoding: float
) -> Array:
    """Leave-one-out scores of least squares, from the scores of learned examples.

    The identity of the hat matrix, f_k ← (f_k − h [k = s]) / (1 − h), and recoding by the remaining
    counts. ``fits``, one row per example and one column per class, is overwritten.
    """
    own = np.arange(len(fits))
    # Rounding can bring a leverage to one if λ is tiny and the example is isolated.
    kept = np.maximum(1.0 - leverages, 1e-12)
    fits[own, slots] -= leverages
    fits /= kept[:, None]
    return recoded(fits, slots, weights, counts, recoding)


def recoded(scores: Array, slots: Slots, weights: Array, counts: Array, recoding: float) -> Array:
    """Multiply scores by (N / n_k)^α, with the counts without the row's example, in place.

    −∞ for a class that would be empty.
    """
    total, own = counts.sum(), np.arange(len(scores))
    left = counts[slots] - weights
    known, gone = counts > GONE * total, left <= GONE * total
    if recoding:
        # A factor per row times one per class, but for an example's own class.
        by_class = np.where(known, counts, 1.0) ** -recoding
        mine = scores[own, slots] * np.where(gone, 1.0, left) ** -recoding
        scores *= by_class
        scores[own, slots] = mine
        scores *= np.maximum(total - weights, 0.0)[:, None] ** recoding
    scores[:, ~known] = -np.inf
    scores[own[gone], slots[gone]] = -np.inf
    return scores


class LeastSquaresPath:
    """Leave-one-out scores of examples by least squares, for any λ.

    Parameters
    ----------
    moments : of everything that was learned, on the host or a device
    rows : the examples asked about, on the host
    intercept : bool
    class_weights : ndarray of shape (n_slots,), optional
        γ; needs the scatter of each class.
    """

    def __init__(
        self,
        moments: Moments | DeviceMoments,
        rows: LearnedRows,
        *,
        intercept: bool = True,
        class_weights: Array | None = None,
    ) -> None:
        self._rows, self._counts = rows, moments.counts
        self._gamma = np.ones(len(self._counts)) if class_weights is None else class_weights
        self._offset = 1.0 / float(self._gamma @ self._counts) if intercept else 0.0
        self._device: Device | None = None
        if isinstance(moments, Moments):
            self._take(moments, intercept, class_weights)
        else:
            self._take_on_device(moments, intercept)

    def _take(self, moments: Moments, intercept: bool, class_weights: Array | None) -> None:
        origin = np.zeros(moments.n_features)
        if intercept and class_weights is not None:
            weights = class_weights * moments.counts
            origin = weights @ moments.means / weights.sum()
        elif intercept:
            origin = moments.mean
        self._X: Any = self._rows.X - origin
        self._means: Any = moments.means - origin
        if class_weights is not None:
            self._upper = moments.weighted_scatter(class_weights, origin)
        else:
            self._upper = moments.total_scatter() if intercept else moments.gram()
        self.mean_variance = float(self._upper.diagonal().mean())
        self._eigenvalues: Any = None
        if len(self._upper) <= MANY_FEATURES:
            eigenvalues, Q = spectrum(self._upper)
            self._eigenvalues = np.maximum(eigenvalues, 0.0)
            self._X, self._means = self._X @ Q, self._means @ Q

    def _take_on_device(self, moments: DeviceMoments, intercept: bool) -> None:
        self._device = device = moments.device
        xp, origin = device.xp, moments.mean if intercept else None
        matrix = moments.about(origin)
        eigenvalues, Q = xp.linalg.eigh(matrix)
        self._eigenvalues = xp.where(eigenvalues > 0, eigenvalues, xp.zeros_like(eigenvalues))
        X, means = device.array(self._rows.X), moments.means
        if origin is not None:
            X, means = X - origin, means - origin
        self._X, self._means = X @ Q, means @ Q
        (trace,) = device.numbers(xp.linalg.trace(matrix))
        self.mean_variance = trace / moments.n_features

    def scores(self, regularization: float, recoding: float = 0.0) -> Array:
        """One row per example, one column per slot; −∞ for a class that would not exist."""
        rows = self._rows
        products, lengths = self._through_inverse(regularization)
        fits = (products + self._offset) * (self._gamma * self._counts)
        leverages = self._gamma[rows.slots] * rows.weights * (self._offset + lengths)
        return leave_one_out_scores(
            fits, leverages, rows.slots, rows.weights, self._counts, recoding
        )

    def _through_inverse(self, regularization: float) -> tuple[Array, Array]:
        """(x − o)ᵀ A⁻¹ (μ_k − o) of every example and class, and (x − o)ᵀ A⁻¹ (x − o)."""
        if self._device is not None:
            Z = self._X / (self._eigenvalues + float(regularization))
            lengths = self._device.xp.sum(self._X * Z, axis=1)
            return as_numpy(Z @ self._means.T), as_numpy(lengths)
        if self._eigenvalues is not None:
            Z = self._X / (self._eigenvalues + regularization)
            return Z @ self._means.T, np.einsum("ij,ij->i", self._X, Z)
        matrix = self._upper.T.copy(order="F")
        matrix.flat[:: len(matrix) + 1] += regularization
        # A = L Lᵀ: applying L⁻¹ to both sides costs half as much as A⁻¹ to one of them.
        lower, _ = definite_factor(matrix, overwrite=True)
        X, means = (solve_triangular(lower, M.T, lower=True) for M in (self._X, self._means))
        return X.T @ means, np.einsum("ij,ij->j", X, X)
