"""Least squares onto class indicators, computed from class moments.

With weight γ_k on the examples of class k (1 for recoding, (N/n_k)^α for rebalancing),

    A = Σ_k γ_k (S_k + n_k (μ_k − o)(μ_k − o)ᵀ) + λ I,     z = A⁻¹ (x − o)
    score_k = N^α n_k^(1−α) ((μ_k − o)·z + c)

where o = 0, c = 0 without an intercept, and with one o is the (weighted) mean of all examples and
c = 1 / Σ γ_k n_k. Recoding and rebalancing differ only in A: the factor in front is γ_k n_k in
both cases, once as the weight of the right-hand side, once as the recoded target.
"""

from typing import Any

import numpy as np
from scipy.linalg import lapack

from everlearn.arrays import Array
from everlearn.device.moments import DeviceMoments
from everlearn.statistics.factor import Factor
from everlearn.statistics.moments import BLOCK_ROWS, Moments
from everlearn.statistics.products import products, products_one
from everlearn.statistics.slices import Work, finished, parts
from everlearn.statistics.waiting_rows import add_outer_products

# Lower bound of the residual variance: a handful of examples is always fitted too well.
LEAST_NOISE = 1e-3
# Rows that may wait for the factor, as a share of the number of classes: forming A from so many
# classes takes four times as long as updating its factor with these rows.
WAITING_SHARE = 0.125
# With at most this many examples, and classes, the factor is updated from that of λ I.
FEW = 8


class LeastSquares:
    """Scores for one λ and α, kept up to date with the moments.

    ``factor`` is the factor of A, if it was already computed.
    """

    def __init__(
        self,
        moments: Moments,
        regularization: float,
        recoding: float,
        *,
        rebalance: bool,
        intercept: bool,
        factor: Factor | None = None,
    ) -> None:
        self.moments = moments
        self.regularization = regularization
        # λ relative to examples of this weight.
        self._ridge = regularization * moments.unit
        self.recoding = recoding
        self.rebalance = rebalance
        self.intercept = intercept
        self._factor = Factor(moments.n_features) if factor is None else factor
        self._scale: Array | None = None
        self._weights: Array | None = None
        self._weights_version = -1
        self._noise: float | None = None
        self._noise_version = -1

    # Updates.

    def rows_beside(self, X: Array, weights: Array | None) -> Array | None:
        """Rows by which X makes A grow; ``None`` if a new factor is cheaper."""
        most = max(self._factor.most_pending, self._most_waiting)
        if self._factor.stale or self.rebalance or len(X) >= most:
            return None
        if not self.intercept:
            return X if weights is None else np.sqrt(weights)[:, None] * X
        roots = np.ones(len(X)) if weights is None else np.sqrt(weights)
        rest, added = self.moments.total, float(roots @ roots)
        mean = roots**2 @ X / added
        between = np.sqrt(rest * added / (rest + added)) * (mean - self.moments.mean)
        return np.concatenate([roots[:, None] * (X - mean), between[None]])

    def follow(self, rows: Array | None) -> None:
        """Call after A grew by these rows."""
        self._scale = None
        if rows is None:
            self._factor.invalidate()
        else:
            self._factor.add(rows, self._most_waiting)

    def follow_one(self, row: Array | None, slot: int) -> None:
        """Call after A grew by one row, of this class."""
        if row is None or self._scale is None:
            self.follow(row)
            return
        self._factor.add(row, self._most_waiting)
        if slot >= len(self._scale):
            self._scale = np.append(self._scale, np.zeros(slot + 1 - len(self._scale)))
        self._scale[slot] = self.moments.counts[slot] ** (1.0 - self.recoding)

    def unfollow(self, rows: Array | None) -> None:
        """Call after A shrank by these rows."""
        self._scale = None
        if rows is None:
            self._factor.invalidate()
        else:
            self._factor.remove(rows, self._most_waiting)

    def invalidate(self) -> None:
        self.follow(None)

    @property
    def _most_waiting(self) -> int:
        return int(WAITING_SHARE * self.moments.n_slots)

    # Asking.

    def scores(self, X: Array) -> Array:
        """One row of scores per row of X, one column per slot."""
        known = self._weights_version == self.moments.version
        origin, offset = self.origin()
        if known or len(X) >= self.moments.n_slots:
            plain = products(X - origin, self._solve_all())
        else:
            self.catch_up()
            Z = self._factor.solve(X - origin)
            plain = products(Z, self.moments.means)
            if self.intercept:
                plain -= (Z @ origin)[:, None]
        # In place: temporary tables as large as the scores would cost more than computing them.
        if offset:
            plain += offset
        plain *= self.recoded_counts()
        return plain

    def scores_one(self, x: Array) -> Array:
        """Scores of one vector, up to the positive factor N^α common to all classes."""
        z, offset, scale = self.question(x)
        return (products_one(self.moments.means, z) + offset) * scale

    def question(self, x: Array) -> tuple[Array, float, Array]:
        """z, c and n_k^(1−α) of one vector: its scores are (μ_k·z + c) n_k^(1−α)."""
        offset = 0.0
        centred = x[None].copy()
        if self.intercept:
            origin, offset = self.origin()
            centred -= origin
        if self._factor.stale:
            self._start_from_few()
        z = self._factor.backward(self._factor.forward(centred, self._matrix))[0]
        self.check()
        if self.intercept:
            offset -= float(origin @ z)
        if self._scale is None:
            self._scale = self.moments.counts ** (1.0 - self.recoding)
        return z, offset, self._scale

    def solve(self, rows: Array) -> Array:
        """A⁻¹ applied to every row."""
        self.catch_up()
        return self._factor.solve(rows)

    def coefficients(self) -> Array:
        """The recoded weights by slot."""
        return self.recoded_counts()[:, None] * self._solve_all()

    def intercepts(self) -> Array:
        origin, offset = self.origin()
        return self.recoded_counts() * (offset - self._solve_all() @ origin)

    def noise(self) -> float:
        """The residual variance of a score, computed once per state."""
        if self._noise is None or self._noise_version != self.moments.version:
            self._noise = finished(self.residual_variance())
            self._noise_version = self.moments.version
        return self._noise

    def frozen(self, moments: Any) -> "LeastSquares":
        """The solution of now, with a copy of the factor, for moments that do not change."""
        self.catch_up()
        factor = Factor.of(self._factor.R.copy())
        return LeastSquares(
            moments,
            self.regularization,
            self.recoding,
            rebalance=self.rebalance,
            intercept=self.intercept,
            factor=factor,
        )

    def residual_variance(self, piece: float = np.inf) -> Work[float]:
        """The residual variance of a score, corrected for the degrees of freedom used.

        Σ (Y − f)² follows from the statistics: c_k − w_k·b_k − λ ‖w_k‖² for class k, where c_k is
        the weight of its targets. Recoding multiplies the scores, on average by the geometric mean
        of (N / n_k)^α, and the noise with them.
        """
        counts = self._target_weights()
        total = float(counts.sum())
        targets = counts * (1.0 - counts / total) if self.intercept else counts
        explained, squares = yield from self._explained(counts, piece)
        residual = float(targets.sum()) - explained - self._ridge * squares
        residual /= self.moments.unit
        total /= self.moments.unit
        free = max(total - self._degrees_of_freedom(), 1.0)
        known = self.moments.counts[self.moments.counts > 0]
        variance = max(total * residual / (free**2 * len(known)), LEAST_NOISE)
        if self.rebalance:
            return variance
        return variance * float(np.exp(self.recoding * np.log(self.moments.total / known).mean()))

    def _explained(self, counts: Array, piece: float) -> Work[tuple[float, float]]:
        """Σ_k w_k·b_k and Σ_k ‖w_k‖², which are tr(A⁻¹B) and tr(A⁻¹BA⁻¹) with B = Σ_k b_k b_kᵀ.

        B is d × d; W would be a second copy of all class means.
        """
        self.catch_up()
        d = self.moments.n_features
        origin, B = self.origin()[0], np.zeros((d, d))
        each = float(d**2)
        for part in parts(len(counts), each, min(piece, BLOCK_ROWS * each)):
            add_outer_products(B, counts[part, None] * (self.moments.means[part] - origin))
            yield (part.stop - part.start) * each
        solved = yield from self.solving(np.triu(B) + np.triu(B, 1).T, piece)
        twice = yield from self.solving(solved.T.copy(), piece)
        return float(solved.trace()), float(twice.trace())

    def solving(self, rows: Array, piece: float) -> Work[Array]:
        """A⁻¹ applied to every row, for a factor without pending updates."""
        each, blocks = float(rows.shape[1] ** 2), []
        for part in parts(len(rows), each, piece):
            blocks.append(self._factor.solve(rows[part]))
            yield (part.stop - part.start) * each
        return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)

    def system(self) -> Array:
        """A without λ I, its upper triangle."""
        if not self.rebalance:
            return self.moments.total_scatter() if self.intercept else self.moments.gram()
        return self.moments.weighted_scatter(self._class_weights(), self.origin()[0])

    def _matrix(self) -> Array:
        matrix = self.system()
        matrix.flat[:: len(matrix) + 1] += self._ridge
        return matrix

    def _start_from_few(self) -> None:
        """With few examples, update the factor of λ I: O(d²) each."""
        moments = self.moments
        if self.rebalance or moments.n_slots > FEW or moments.has_entered:
            return
        within = moments.scatter_parts()[1].rows()
        if len(within) <= FEW:
            R = np.zeros((moments.n_features, moments.n_features))
            np.fill_diagonal(R, np.sqrt(self._ridge))
            self._factor = Factor.of(R)
            between = moments.means - self.origin()[0]
            self._factor.add(np.concatenate([within, np.sqrt(moments.counts)[:, None] * between]))
            self.catch_up()

    def factor(self) -> Array:
        """R with RᵀR = A."""
        self.catch_up()
        return self._factor.R

    def check(self, *, now: bool = False) -> None:
        """Compare the factor with A from time to time, or now, without forming A."""
        if not self.rebalance:
            self._factor.check_with(self._times, now=now)

    def _times(self, v: Array) -> Array:
        """A v, if examples have the same weight in every class."""
        moments, origin = self.moments, self.origin()[0]
        along = moments.counts * (products_one(moments.means, v) - origin @ v)
        between = along @ moments.means - along.sum() * origin
        result: Array = moments.scatter_times(v) + between + self._ridge * v
        return result

    def catch_up(self) -> None:
        """Apply pending updates to the factor."""
        self._factor.bring_up_to_date(self._matrix)

    def _solve_all(self) -> Array:
        """A⁻¹ (μ_k − o) by slot."""
        if self._weights is None or self._weights_version != self.moments.version:
            self.catch_up()
            self._weights = self._factor.solve(self.moments.means - self.origin()[0])
            self._weights_version = self.moments.version
        return self._weights

    def origin(self) -> tuple[Array, float]:
        """The origin o and the constant c."""
        if not self.intercept:
            return np.zeros(self.moments.n_features), 0.0
        if not self.rebalance:
            return self.moments.mean, 1.0 / self.moments.total
        weights = self.recoded_counts()
        return weights @ self.moments.means / weights.sum(), 1.0 / float(weights.sum())

    def _class_weights(self) -> Array:
        return class_weights(self.moments.counts, self.recoding)

    def recoded_counts(self) -> Array:
        """N^α n_k^(1−α)."""
        return self._class_weights() * self.moments.counts

    def _target_weights(self) -> Array:
        return self.recoded_counts() if self.rebalance else self.moments.counts

    def _degrees_of_freedom(self) -> float:
        """tr(A⁻¹ (A − λ I)) = d − λ ‖R⁻¹‖²."""
        self.catch_up()
        inverse, _ = lapack.dtrtri(self._factor.R.T, lower=1)
        square = float(np.sum(np.tril(inverse) ** 2))
        return self.moments.n_features - self._ridge * square


class LeastSquaresHead:
    """The same for moments on a device with given λ and α: solved from scratch, O(d³ + K d²)."""

    def __init__(
        self, moments: DeviceMoments, regularization: float, recoding: float, *, intercept: bool
    ) -> None:
        self._moments = moments
        self.regularization = regularization
        self.recoding = recoding
        self._origin = moments.mean if intercept else None
        self._intercept = intercept
        self._matrix = moments.about(self._origin)
        self._centred = moments.means if self._origin is None else moments.means - self._origin
        scale = moments.sizes ** (1.0 - recoding) * moments.total**recoding
        solved = moments.solve(self._matrix, regularization, self._centred)
        self._weights = solved * scale[:, None]
        self._bias = scale / moments.total if intercept else None
        self._noise: float | None = None

    def scores(self, X: Any) -> Any:
        plain = (X if self._origin is None else X - self._origin) @ self._weights.T
        return plain if self._bias is None else plain + self._bias

    def temperature(self) -> float:
        """The residual variance of a score, as in :meth:`LeastSquares.noise`."""
        if self._noise is None:
            self._noise = self._residual_variance()
        return self._noise

    def _residual_variance(self) -> float:
        moments, lam = self._moments, self.regularization
        xp = moments.device.xp
        inverse = xp.linalg.inv(moments.with_ridge(self._matrix, lam))
        b = moments.sizes[:, None] * self._centred
        W = b @ inverse
        explained, squares, trace = moments.device.numbers(
            xp.sum(W * b), xp.sum(W * W), xp.linalg.trace(inverse)
        )
        known = moments.counts[moments.counts > 0]
        total = float(known.sum())
        targets = known * (1.0 - known / total) if self._intercept else known
        free = max(total - (moments.n_features - lam * trace), 1.0)
        residual = float(targets.sum()) - explained - lam * squares
        variance = max(total * residual / (free**2 * len(known)), LEAST_NOISE)
        return variance * float(np.exp(self.recoding * np.log(total / known).mean()))


def class_weights(counts: Array, recoding: float) -> Array:
    """γ_k = (N / n_k)^α; zero for unknown classes."""
    weights = np.zeros_like(counts)
    known = counts > 0
    weights[known] = (counts.sum() / counts[known]) ** recoding
    return weights
