"""Leave-one-out scores of the linear heads, for any regularization, in slices.

The formulas are those of ``closed_form/leave_one_out.py``. For each regularization the matrix is
factored, A = T + λ I = L Lᵀ, and L⁻¹ is applied to examples and class means. Cost of each for m
examples: O(d³/6 + m d²/2 + m d K).
"""

import numpy as np

from everlearn.arrays import Array
from everlearn.learners.closed_form.leave_one_out import GONE, LearnedRows, leave_one_out_scores
from everlearn.statistics.moments import Moments
from everlearn.statistics.slices import (
    Work,
    copied,
    factored,
    half_solved,
    half_solved_at_once,
    parts,
)
from everlearn.statistics.waiting_rows import add_outer_products, add_outer_products_between


class FrozenMoments:
    """A copy of moments; of the scatter S its upper triangle.

    In ``into``, if given, S is complete only after :meth:`complete`, since adding the rows that
    wait to enter it takes longer than the copy.
    """

    def __init__(self, moments: Moments, into: Array | None = None) -> None:
        self.n_features = moments.n_features
        self.total = moments.total
        self.counts = moments.counts.copy()
        self.means = moments.means.copy()
        self.mean = moments.mean.copy()
        # Rows that have not entered S, and the first row of S that they have not entered.
        self._waiting: list[tuple[Array, int]] = []
        if into is None:
            square = (self.n_features, self.n_features)
            self.scatter = moments.upper_scatter(np.empty(square))
            return
        entered, waiting = moments.scatter_parts()
        np.copyto(into, entered)
        self.scatter = into
        self._waiting.append((waiting.rows().copy(), 0))
        if waiting.is_leaving:
            leaving, first = waiting.leaving()
            self._waiting.append((leaving.copy(), first))

    def complete(self, piece: float) -> Work[None]:
        """Add the rows that waited."""
        while self._waiting:
            rows, first = self._waiting.pop()
            each = float(max(1, len(rows)) * self.n_features)
            for part in parts(self.n_features - first, each, piece):
                start, stop = first + part.start, first + part.stop
                add_outer_products_between(self.scatter, rows, start, stop)
                yield (part.stop - part.start) * each

    def add_between(self, upper: Array, piece: float) -> Work[None]:
        """``upper`` += Σ n_k (μ_k − m)(μ_k − m)ᵀ: S becomes T, the scatter about the overall mean.

        Upper triangles, in place.
        """
        roots, each = np.sqrt(self.counts)[:, None], self.n_features**2 / 2.0
        for part in parts(len(roots), each, piece):
            add_outer_products(upper, roots[part] * (self.means[part] - self.mean))
            yield (part.stop - part.start) * each


class LeastSquaresScores:
    """Leave-one-out scores by least squares with an intercept.

    Parameters
    ----------
    moments : FrozenMoments
    total_scatter : ndarray
        T, its upper triangle.
    rows : LearnedRows
        The examples asked about.
    piece : float
        Maximum cost of a piece of work.
    first : int, optional
        Use only this many of the features.
    """

    def __init__(
        self,
        moments: FrozenMoments,
        total_scatter: Array,
        rows: LearnedRows,
        piece: float,
        first: int | None = None,
    ) -> None:
        self._rows, self._counts, self._piece = rows, moments.counts, piece
        self._offset = 1.0 / moments.total
        self._mean = moments.mean[:first]
        self._means = (moments.means - moments.mean)[:, :first]
        self._upper = total_scatter[:first, :first]
        self.mean_variance = float(self._upper.diagonal().mean())

    def at(self, regularization: float) -> Work[Array]:
        """One row per example, one column per slot; −∞ for a class that would not exist."""
        lower = yield from factor_of(self._upper, regularization, self._piece)
        means = yield from half_solved(lower, self._means, self._piece)
        table = np.empty((len(self._rows), len(means)))
        each = len(lower) ** 2 / 2.0 + means.size
        for part in parts(len(table), each, self._piece):
            X = self._rows.X[part, : len(self._mean)] - self._mean
            X = half_solved_at_once(lower, X)
            slots, weights = self._rows.slots[part], self._rows.weights[part]
            fits = (X @ means.T + self._offset) * self._counts
            leverages = weights * (self._offset + np.einsum("ij,ij->i", X, X))
            table[part] = leave_one_out_scores(fits, leverages, slots, weights, self._counts, 0.0)
            yield (part.stop - part.start) * each
        return table


class DiscriminantScores:
    """Leave-one-out scores by a discriminant, and by the nearest class mean for infinite ρ."""

    def __init__(self, moments: FrozenMoments, rows: LearnedRows, piece: float) -> None:
        self._rows, self._counts, self._piece = rows, moments.counts, piece
        self._mean, self._means = moments.mean, moments.means - moments.mean
        self._upper = moments.scatter
        self.mean_variance = float(self._upper.diagonal().mean())

    def at(self, ridge: float) -> Work[Array]:
        """One row per example, one column per slot; −∞ for a class that would not exist."""
        flat = bool(np.isinf(ridge))
        means, lower = self._means, self._upper
        if not flat:
            lower = yield from factor_of(self._upper, ridge, self._piece)
            means = yield from half_solved(lower, self._means, self._piece)
        table = np.empty((len(self._rows), len(means)))
        each = (0.0 if flat else len(lower) ** 2 / 2.0) + 2.0 * means.size
        for part in parts(len(table), each, self._piece):
            X = self._rows.X[part] - self._mean
            X = X if flat else half_solved_at_once(lower, X)
            table[part] = self._leave_one_out(X, means, part, flat)
            yield (part.stop - part.start) * each
        table[:, self._counts <= 0] = -np.inf
        return table

    def _leave_one_out(self, X: Array, means: Array, part: slice, flat: bool) -> Array:
        """Leave-one-out scores, in coordinates in which B is the identity."""
        slots, weights, own = self._rows.slots[part], self._rows.weights[part], np.arange(len(X))
        left = self._counts[slots] - weights
        gone = left <= GONE * self._counts[slots]
        left[gone] = 1.0
        R = X - means[slots]
        lengths = np.einsum("ij,ij->i", means, means)
        at_x, at_r = X @ means.T, R @ means.T
        rx, q = np.einsum("ij,ij->i", R, X), np.einsum("ij,ij->i", R, R)
        a = self._counts[slots] * weights / left
        t = np.zeros(len(q)) if flat else a / np.maximum(1.0 - a * q, 1e-12)
        shift = weights / left
        own_x, own_r = at_x[own, slots] - shift * rx, at_r[own, slots] - shift * q
        own_length = lengths[slots] - 2.0 * shift * at_r[own, slots] + shift**2 * q
        scores: Array = at_x + (t * rx)[:, None] * at_r - 0.5 * (lengths + t[:, None] * at_r**2)
        scores[own, slots] = own_x + t * rx * own_r - 0.5 * (own_length + t * own_r**2)
        scores[own[gone], slots[gone]] = -np.inf
        return scores


def factor_of(upper: Array, ridge: float, piece: float) -> Work[Array]:
    """L of A + ρ I = L Lᵀ, in the lower triangle."""
    copy = yield from copied(upper, piece)
    lower = copy.T
    lower.flat[:: len(lower) + 1] += ridge
    yield from factored(lower, piece)
    return lower
