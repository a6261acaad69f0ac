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
``RunningDiscriminant``   follows the moments example by example, O(d² + K d).
``FrozenDiscriminant``    has a covariance that never changes, O(d²) per example.
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
from everlearn.statistics.products import products, products_one

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
    """R of a share ε: ε ν."""
    # Without any variance every direction is alike: the identity, as in nearest class mean.
    return weight * trace / (moments.total * moments.n_features) if trace > 0 else 1.0


def _ridge(shrinkage: Shrinkage, moments: Moments) -> tuple[float, float]:
    """ρ and the factor N / (1 − ε) between (S + ρ I)⁻¹ and Λ."""
    weight, floor = shrinkage(moments)
    scale = moments.total / (1.0 - weight)
    return floor * scale, scale


def _with_ridge(upper: Array, ridge: float) -> Array:
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
            ridge, scale = _ridge(shrinkage, moments)
            factor = Factor(moments.n_features)
            factor.bring_up_to_date(lambda: _with_ridge(moments.upper_scatter(), ridge))
            self._origin = moments.mean.copy()
            centred = moments.means - self._origin
            self._weights = scale * factor.solve(centred)
            self._bias = -0.5 * np.einsum("ij,ij->i", centred, self._weights)
            self._made_for = (moments.version, shrinkage)
        return self._weights, self._bias, self._origin


class RunningDiscriminant:
    """Scores that keep up with the moments at a fixed cost per example.

    Beside the factor of A = S + ρ I it keeps q_k = (μ_k − o)ᵀ A⁻¹ (μ_k − o). When A grows by
    r rᵀ, with u = A⁻¹ r,

        q_k ← q_k − ((μ_k − o)·u)² / (1 + r·u)

    and q of the class that moved is computed anew. ρ grows by one part in N per example where S
    does not, which no rank-one update can follow; it is therefore taken from a grid of 5 % steps,
    rounded down, and everything is rebuilt when it reaches the next step. The result is a function
    of the moments alone, with a shrinkage up to 5 % smaller than asked for.
    """

    def __init__(self, n_features: int) -> None:
        self._factor = Factor(n_features)
        self._ridge = 0.0
        self._origin = np.zeros(n_features)
        self._q = np.zeros(0)
        self._moved: set[int] = set()

    def follow(self, rows: Array, slots: NDArray[np.intp]) -> None:
        """S grew by rowsᵀ rows when examples of these classes were learned."""
        if not self._factor.stale:
            self._factor.add(rows)
            self._moved.update(slots.tolist())

    def follow_one(self, row: Array, slot: int) -> None:
        if not self._factor.stale:
            self._factor.add(row)
            self._moved.add(slot)

    def invalidate(self) -> None:
        self._factor.invalidate()

    def scores_one(self, x: Array, moments: Moments, shrinkage: Shrinkage) -> Array:
        """Scores of one vector, up to a positive factor and a term all classes share."""
        ridge = on_grid(_ridge(shrinkage, moments)[0])
        if self._factor.stale or ridge != self._ridge:
            self._rebuild(moments, ridge)
        pending = self._factor.pending
        if len(pending) == 1 and len(self._moved) == 1:
            return self._scores_after_one(x, self._moved.pop(), moments)
        if self._moved:
            self._catch_up(pending, moments)
        z = self._factor.solve_one(x - self._origin)
        scores: Array = products_one(moments.means, z) - 0.5 * self._q
        return scores

    def _scores_after_one(self, x: Array, slot: int, moments: Moments) -> Array:
        """Follow one example and answer, in one sweep over the factor and one over the means.

        With u' = A'⁻¹ r for the matrix A' that has grown already, u = u' / (1 − r·u').
        """
        from everlearn.statistics.factor_kernels import two_products

        self._make_room(moments)
        sides = np.stack([x - self._origin, moments.means[slot] - self._origin])
        half, halves = self._factor.forward_with_row(sides, lambda: self._matrix(moments))
        moved = halves[1] @ halves[1]
        u, z = self._factor.backward(np.stack([half, halves[0]]))
        along_u, along_z = two_products(moments.means, u, z)
        # r·u' = ‖R'⁻ᵀ r‖².
        self._q -= (along_u - self._origin @ u) ** 2 / (1.0 - half @ half)
        self._q[slot] = moved
        scores: Array = along_z - 0.5 * self._q
        return scores

    def _rebuild(self, moments: Moments, ridge: float) -> None:
        self._ridge = ridge
        self._origin = moments.mean.copy()
        self._factor.invalidate()
        self._factor.bring_up_to_date(lambda: self._matrix(moments))
        self._q = _squared_lengths(self._factor.half_solve(moments.means - self._origin))
        self._moved.clear()

    def _catch_up(self, rows: Array, moments: Moments) -> None:
        """Follow several examples at once: the formula for q with a matrix of rows."""
        self._make_room(moments)
        U = self._factor.solve(rows)
        projections = products(U, moments.means).T - self._origin @ U.T
        small = np.linalg.cholesky(np.eye(len(rows)) + rows @ U.T)
        self._q -= _squared_lengths(np.linalg.solve(small, projections.T).T)
        self._factor.bring_up_to_date(lambda: self._matrix(moments))
        moved = sorted(self._moved)
        halves = self._factor.half_solve(moments.means[moved] - self._origin)
        self._q[moved] = _squared_lengths(halves)
        self._moved.clear()

    def _make_room(self, moments: Moments) -> None:
        if moments.n_slots > len(self._q):
            self._q = np.append(self._q, np.zeros(moments.n_slots - len(self._q)))

    def _matrix(self, moments: Moments) -> Array:
        return _with_ridge(moments.upper_scatter(), self._ridge)


class FrozenDiscriminant:
    """Scores under one covariance for ever: only the class that moved has new weights.

    ``base`` are the moments whose covariance it is.
    """

    def __init__(self, base: Moments, shrinkage: Shrinkage) -> None:
        self.base = base
        weight, floor = shrinkage(base)
        upper = (1.0 - weight) / base.total * base.upper_scatter()
        self._factor = Factor(base.n_features)
        self._factor.bring_up_to_date(lambda: _with_ridge(upper, floor))
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


def _squared_lengths(rows: Array) -> Array:
    lengths: Array = np.einsum("ij,ij->i", rows, rows)
    return lengths
