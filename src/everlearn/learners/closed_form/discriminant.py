"""Gaussian discriminant scores read off class moments, three ways.

For classes with a common covariance the score of class k is, up to a term all classes share,

    −½ (x − μ_k)ᵀ Λ (x − μ_k)  ≙  (μ_k − o)ᵀ Λ (x − o) − ½ (μ_k − o)ᵀ Λ (μ_k − o)

for any origin o. The origin is kept near the data, so that features far from zero do not eat the
digits. Λ is never formed: with shrinkage ε towards r I,

    Λ⁻¹ = (1 − ε) S / N + r I = (1 − ε)/N · (S + ρ I),     ρ = r N / (1 − ε),

and everything is solved with a triangular factor of S + ρ I. A ``Shrinkage`` says what ε and r are.
Towards the mean variance, r = ε ν with ν = tr(S) / (N d), no answer depends on the scale of the
features.

``ExactDiscriminant``     computes all weights anew when the moments have changed, O(d³ + K d²).
``FrozenDiscriminant``    has a covariance that never changes, O(d²) per example.
``RunningDiscriminant``   follows the moments example by example, O(d² + K d)
                          (:mod:`everlearn.learners.closed_form.running_discriminant`).
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from everlearn.arrays import Array
from everlearn.statistics.class_means import ClassMeans
from everlearn.statistics.device_moments import DeviceMoments
from everlearn.statistics.factor import Factor
from everlearn.statistics.moments import Moments

# The running discriminant takes ρ from a grid with this ratio between neighbours, rounding down.
RIDGE_GRID = 1.05
# Shrinkage so strong that nothing of S would be left is taken as this.
MOST_SHRINKAGE = 1.0 - 1e-6


class Shrinkage(Protocol):
    """How a covariance is kept from being singular; two that compare equal do the same."""

    def __call__(self, moments: Moments) -> tuple[float, float]:
        """ε and r of Λ⁻¹ = (1 − ε) S/N + r I."""


@dataclass(frozen=True)
class TowardsMeanVariance:
    """A given share ε of the mean variance: r = ε ν."""

    share: float

    def __call__(self, moments: Moments) -> tuple[float, float]:
        return self.share, floor_of(self.share, moments.scatter_trace, moments)


@dataclass(frozen=True)
class Oracle:
    """The share that Oracle Approximating Shrinkage works out from the data."""

    def __call__(self, moments: Moments) -> tuple[float, float]:
        weight = min(oas_weight(moments.upper_scatter(), moments.total), MOST_SHRINKAGE)
        return weight, floor_of(weight, moments.scatter_trace, moments)


def shrinkage_named(parameter: float | str) -> Shrinkage:
    """What a learner's ``shrinkage`` stands for: a number, or "oas"."""
    return Oracle() if isinstance(parameter, str) else TowardsMeanVariance(float(parameter))


def oas_weight(upper_scatter: Array, total: float) -> float:
    """ε of Oracle Approximating Shrinkage, (1 − ε) S/N + ε ν I.

    Chen, Wiesel, Eldar and Hero 2010, Eq. 23, in the form scikit-learn uses; in units of ν, so
    that no square overflows.
    """
    d = upper_scatter.shape[0]
    variance = float(upper_scatter.diagonal().mean())
    if not variance > 0:
        return 1.0
    relative = upper_scatter / variance
    diagonal = relative.diagonal()
    mean_square = (diagonal @ diagonal + 2.0 * np.sum(np.triu(relative, 1) ** 2)) / d**2
    return oas_weight_of(mean_square, d, total)


def oas_weight_of(mean_square: float, d: int, total: float) -> float:
    """ε from the mean square of the entries of S in units of its mean diagonal."""
    denominator = (total + 1.0) * (mean_square - 1.0 / d)
    return 1.0 if denominator <= 0 else min(float((mean_square + 1.0) / denominator), 1.0)


def floor_of(weight: float, trace: float, moments: Moments | DeviceMoments) -> float:
    """ρ of a share ε: ε ν."""
    # Without any variance every direction is alike: the identity, as in nearest class mean.
    return weight * trace / (moments.total * moments.n_features) if trace > 0 else 1.0


def ridge_of(shrinkage: Shrinkage, moments: Moments) -> tuple[float, float]:
    """ρ and the factor N / (1 − ε) between (S + ρ I)⁻¹ and Λ."""
    weight, floor = shrinkage(moments)
    scale = moments.total / (1.0 - weight)
    return floor * scale, scale


def with_ridge(upper: Array, ridge: float) -> Array:
    """A copy of a matrix with ρ added to its diagonal."""
    matrix = upper.copy()
    matrix.flat[:: len(matrix) + 1] += ridge
    return matrix


class ExactDiscriminant:
    """Weights and biases as a function of the moments and nothing else."""

    def __init__(self) -> None:
        self._made_for: object = None
        self._origin: Array = np.zeros(0)
        self._weights: Array = np.zeros((0, 0))
        self._bias: Array = np.zeros(0)

    def linear(self, moments: Moments, shrinkage: Shrinkage) -> tuple[Array, Array, Array]:
        """Λ (μ_k − o) by slot, the bias of each class, and the origin o."""
        if self._made_for != (moments.version, shrinkage):
            ridge, scale = ridge_of(shrinkage, moments)
            factor = Factor(moments.n_features)
            factor.bring_up_to_date(lambda: with_ridge(moments.upper_scatter(), ridge))
            self._origin = moments.mean.copy()
            centred = moments.means - self._origin
            self._weights = scale * factor.solve(centred)
            self._bias = -0.5 * np.einsum("ij,ij->i", centred, self._weights)
            self._made_for = (moments.version, shrinkage)
        return self._weights, self._bias, self._origin


class FrozenDiscriminant:
    """Scores under one covariance for ever: only the class that moved has new weights.

    ``base`` are the moments whose covariance it is.
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
        self._linear: tuple[Array, Array, Array] | None = None

    def follow(self, slots: NDArray[np.intp]) -> None:
        """Examples of these classes were learned."""
        self._moved.update(slots.tolist())

    def invalidate(self) -> None:
        self._reference = None

    def linear(self, means: ClassMeans) -> tuple[Array, Array, Array]:
        """Λ (μ_k − o) by slot, the bias of each class, and the origin o.

        Weights are kept about a reference point that never moves, w_k = Λ (μ_k − r), so that only
        classes that moved are solved for; those about the origin are w_k − Λ (o − r).
        """
        if self._linear is None or self._made_for != means.version:
            self._linear = self._about_the_mean(means)
            self._made_for = means.version
        return self._linear

    def _about_the_mean(self, means: ClassMeans) -> tuple[Array, Array, Array]:
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
        return weights, bias, origin


def on_grid(ridge: float) -> float:
    """ρ rounded down to the grid of the running discriminant."""
    return float(RIDGE_GRID ** np.floor(np.log(ridge) / np.log(RIDGE_GRID)))
