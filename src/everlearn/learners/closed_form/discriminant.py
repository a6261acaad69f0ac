"""Gaussian discriminant scores computed from class moments, in four ways.

For classes with a common covariance the score of class k is, up to a term common to all classes,

    −½ (x − μ_k)ᵀ Λ (x − μ_k)  ≙  (μ_k − o)ᵀ Λ (x − o) − ½ (μ_k − o)ᵀ Λ (μ_k − o)

for any origin o. The origin is kept near the data, so that features far from zero lose no
precision. Λ is never formed: with shrinkage ε towards r I,

    Λ⁻¹ = (1 − ε) S / N + r I = (1 − ε)/N · (S + ρ I),     ρ = r N / (1 − ε),

and everything is solved with a triangular factor of S + ρ I. A ``Shrinkage`` determines ε and r.
With shrinkage towards the mean variance, r = ε ν with ν = tr(S) / (N d), the answers do not depend
on the scale of the features.

``discriminant_head``     computes all weights from moments on the host or a device, O(d³ + K d²).
``ExactDiscriminant``     the same, cached until the moments change.
``FrozenDiscriminant``    has a covariance that never changes, O(d²) per example.
``RunningDiscriminant``   follows the moments example by example, O(d² + K d)
                          (:mod:`everlearn.learners.closed_form.running_discriminant`).
"""

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from everlearn.arrays import Array
from everlearn.device.moments import DeviceMoments
from everlearn.statistics.class_means import ClassMeans
from everlearn.statistics.factor import Factor
from everlearn.statistics.moments import Moments

# The running discriminant rounds ρ to a grid with this ratio between neighbours: by less than 5 %.
RIDGE_GRID = 1.1


class Shrinkage(Protocol):
    """Regularizes a covariance; two that compare equal do the same."""

    def __call__(self, moments: Moments | DeviceMoments) -> tuple[float, float]:
        """ε and r of Λ⁻¹ = (1 − ε) S/N + r I."""


def ridge_of(shrinkage: Shrinkage, moments: Moments | DeviceMoments) -> tuple[float, float]:
    """ρ and the factor N / (1 − ε) between (S + ρ I)⁻¹ and Λ."""
    weight, floor = shrinkage(moments)
    scale = moments.scatter_weight / (1.0 - weight)
    return floor * scale, scale


def with_ridge(upper: Array, ridge: float) -> Array:
    """A copy of a matrix with ρ added to its diagonal."""
    matrix = upper.copy()
    matrix.flat[:: len(matrix) + 1] += ridge
    return matrix


class LinearHead(NamedTuple):
    """Scores as a linear function about an origin; one row of weights and one bias per slot."""

    weights: Any
    bias: Any
    origin: Any

    def scores(self, X: Any) -> Any:
        return (X - self.origin) @ self.weights.T + self.bias

    def temperature(self) -> float:
        return 1.0


def discriminant_head(moments: Moments | DeviceMoments, shrinkage: Shrinkage) -> LinearHead:
    """Λ (μ_k − o) by slot, the bias of each class, and the origin o: the mean of everything."""
    ridge, scale = ridge_of(shrinkage, moments)
    origin = moments.mean + 0.0
    centred = moments.means - origin
    weights = scale * _solved(moments, ridge, centred)
    xp: Any = np if isinstance(moments, Moments) else moments.device.xp
    return LinearHead(weights, -0.5 * xp.sum(centred * weights, axis=1), origin)


def _solved(moments: Moments | DeviceMoments, ridge: float, rows: Any) -> Any:
    """(S + ρ I)⁻¹ of each row."""
    if not isinstance(moments, Moments):
        return moments.solve(moments.scatter, ridge, rows)
    factor = Factor(moments.n_features)
    factor.bring_up_to_date(lambda: with_ridge(moments.upper_scatter(), ridge))
    return factor.solve(rows)


class ExactDiscriminant:
    """Weights and biases as a pure function of the moments."""

    def __init__(self) -> None:
        self._made_for: object = None
        self._head: LinearHead | None = None

    def linear(self, moments: Moments, shrinkage: Shrinkage) -> LinearHead:
        if self._head is None or self._made_for != (moments.version, shrinkage):
            self._head = discriminant_head(moments, shrinkage)
            self._made_for = (moments.version, shrinkage)
        return self._head


class FrozenDiscriminant:
    """Scores under a fixed covariance: only a class whose mean moved gets new weights.

    ``base`` are the moments of that covariance.
    """

    def __init__(self, base: Moments, shrinkage: Shrinkage) -> None:
        self.base = base
        weight, floor = shrinkage(base)
        upper = (1.0 - weight) / base.total * base.upper_scatter()
        self._factor = Factor(base.n_features)
        self._factor.bring_up_to_date(lambda: with_ridge(upper, floor))
        self._reference: Array | None = None
        self._weights = np.zeros((0, base.n_features))
        self._moved: set[int] = set()
        self._made_for = -1
        self._linear: LinearHead | None = None

    def follow(self, slots: NDArray[np.intp]) -> None:
        """Call when examples of these classes were learned."""
        self._moved.update(slots.tolist())

    def invalidate(self) -> None:
        self._reference = None

    def linear(self, means: ClassMeans) -> LinearHead:
        """Λ (μ_k − o) by slot, the bias of each class, and the origin o.

        Weights are kept about a reference point that never moves, w_k = Λ (μ_k − r), so that only
        classes that moved are solved for; those about the origin are w_k − Λ (o − r).
        """
        if self._linear is None or self._made_for != means.version:
            self._linear = self._about_the_mean(means)
            self._made_for = means.version
        return self._linear

    def _about_the_mean(self, means: ClassMeans) -> LinearHead:
        if self._reference is None:
            self._reference = means.mean.copy()
            self._moved = set(range(means.n_slots))
        if means.n_slots > len(self._weights):
            self._weights = np.pad(self._weights, ((0, means.n_slots - len(self._weights)), (0, 0)))
        if self._moved:
            moved = sorted(self._moved)
            self._weights[moved] = self._factor.solve(means.means[moved] - self._reference)
            self._moved.clear()
        origin = means.mean.copy()
        weights = self._weights - self._factor.solve_one(origin - self._reference)
        bias = -0.5 * np.einsum("ij,ij->i", means.means - origin, weights)
        return LinearHead(weights, bias, origin)
