"""Scores read off moments that lie on some device, in the words of the array API standard.

What :mod:`discriminant` and :mod:`least_squares` are on the host. With A the learner's matrix (the
scatter with a ridge, or the Gram matrix with λ) and o its origin, all scores are linear:

    W = (μ − o) A⁻¹,     scores = (x − o) Wᵀ + b

Exact: A is solved with anew when the moments have changed, O(d³ + K d²). One example at a time: a
device does O(K d²) for one row as fast as it launches it, and triangular solves slowly, so A⁻¹
itself follows the stream by rank-one steps (Sherman and Morrison), and is made anew from the
moments after ``MOST_STEPS`` of them: no error grows older than that.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from everlearn.arrays import Array, as_numpy
from everlearn.device.device import Device, unit_rows_at
from everlearn.learners.closed_form.discriminant import (
    MOST_SHRINKAGE,
    floor_of,
    oas_weight_of,
    on_grid,
)
from everlearn.learners.closed_form.least_squares import LEAST_NOISE
from everlearn.statistics.device_moments import DeviceMoments

MOST_STEPS = 256


class LinearHead(NamedTuple):
    """Scores as a linear function; one row of weights and one bias per slot.

    The origin is None where it is zero.
    """

    weights: Any
    bias: Any
    origin: Any

    def scores(self, X: Any) -> Any:
        return _less(X, self.origin) @ self.weights.T + self.bias


class DeviceHead(Protocol):
    """Scores of float64 rows, one column per slot, and of one vector at a time."""

    def scores(self, X: Any, moments: DeviceMoments) -> Any:
        """Scores of float64 rows, one column per slot."""

    def temperature(self, moments: DeviceMoments) -> float:
        """By what scores are divided to make them differences of log-probabilities."""

    def learn_one(self, x: Any, slot: int, moments: DeviceMoments) -> None:
        """Add one finite example of a known class to the moments, and follow them."""

    def scores_one(self, x: Any, moments: DeviceMoments) -> Array:
        """Scores of one vector by slot, on the host, up to what all classes share."""


class Quick(NamedTuple):
    """Scores of one vector, up to a positive factor and a term all classes share.

    The bias is None where it is zero. A row of scores is little, so it comes to the host.
    """

    weights: Any
    bias: Any
    origin: Any

    def scores(self, x: Any, device: Device) -> Array:
        x, W, bias = _less(x, self.origin), self.weights, self.bias
        return as_numpy(W @ x if bias is None else device.affine(W, x, bias))


class NearestMean:
    """−½ ‖x − μ_k‖², or the cosine of the angle between them."""

    def __init__(self, metric: str) -> None:
        self._cosine = metric == "cosine"
        self._quick: Quick | None = None
        self._quick_for = -1

    def scores(self, X: Any, moments: DeviceMoments) -> Any:
        xp, device = moments.device.xp, moments.device
        if self._cosine:
            return unit_rows_at(device, X) @ unit_rows_at(device, moments.means).T
        # About the mean of everything, so that a common offset does not eat the digits.
        mean = moments.mean
        X, means = X - mean, moments.means - mean
        squares = _squares(xp, X)[:, None] + _squares(xp, means)[None, :]
        return X @ means.T - 0.5 * squares

    def learn_one(self, x: Any, slot: int, moments: DeviceMoments) -> None:
        moments.add_one(x, slot)

    def scores_one(self, x: Any, moments: DeviceMoments) -> Array:
        device, means = moments.device, moments.means
        if self._quick is None or self._quick_for != moments.version:
            if self._cosine:
                self._quick = Quick(unit_rows_at(device, means), None, None)
            else:
                mean = moments.mean
                centred = means - mean
                self._quick = Quick(centred, -0.5 * _squares(device.xp, centred), mean)
            self._quick_for = moments.version
        return self._quick.scores(x, device)

    def temperature(self, moments: DeviceMoments) -> float:
        return 1.0


class Solved:
    """A reading that solves with a matrix; which one, and what becomes of W, a learner says."""

    def __init__(self) -> None:
        self._head: LinearHead | None = None
        self._made_for = -1
        # For one example at a time: the inverse, what it was made with, and its head.
        self._inverse: Any = None
        self._origin: Any = None
        self._given: Any = None
        self._steps = 0
        self._followed = -1
        self._quick: Quick | None = None
        self._quick_for = -1

    # What a learner's matrix is, and what it makes of it.

    def origin(self, moments: DeviceMoments) -> Any:
        """The origin o, None for zero."""
        return moments.mean

    def system(self, moments: DeviceMoments, *, rough: bool) -> tuple[Any, Any]:
        """A, a matrix of its own, and what it was made with; ``rough`` if it is to be followed."""
        raise NotImplementedError

    def finished(self, W: Any, centred: Any, given: Any, moments: DeviceMoments) -> tuple[Any, Any]:
        """Weights and bias from W = (μ − o) A⁻¹; ``centred`` is μ − o."""
        raise NotImplementedError

    def quickly(self, moments: DeviceMoments) -> Quick:
        """Scores of single vectors with the inverse at hand."""
        raise NotImplementedError

    def factor(self, moments: DeviceMoments) -> Array | float:
        """What each of them is multiplied with, on the host."""
        return 1.0

    def row_of(self, x: Any, moments: DeviceMoments) -> Any:
        """R and f for which A grows by f r rᵀ with x, if they are not those of the scatter."""
        return None

    def is_settled(self, moments: DeviceMoments) -> bool:
        """Whether the inverse, which has followed, is still that of the right matrix."""
        return True

    def temperature(self, moments: DeviceMoments) -> float:
        return 1.0

    # Many rows.

    def head(self, moments: DeviceMoments) -> LinearHead:
        """The exact head."""
        if self._head is None or self._made_for != moments.version:
            A, given = self.system(moments, rough=False)
            origin = self.origin(moments)
            centred = _less(moments.means, origin)
            W = moments.device.xp.linalg.solve(A, centred.T).T
            self._head = LinearHead(*self.finished(W, centred, given, moments), origin)
            self._made_for = moments.version
        return self._head

    def scores(self, X: Any, moments: DeviceMoments) -> Any:
        return self.head(moments).scores(X)

    # One at a time.

    def learn_one(self, x: Any, slot: int, moments: DeviceMoments) -> None:
        follows = self._followed == moments.version and self._steps < MOST_STEPS
        beside = self.row_of(x, moments) if follows else None
        row, share = moments.add_one(x, slot)
        if not follows:
            return
        row, share = (row, share) if beside is None else beside
        if share > 0:  # A grew by f r rᵀ, so A⁻¹ shrinks by u uᵀ / (1/f + r·u), u = A⁻¹ r
            u = self._inverse @ row
            moments.device.add_outer(self._inverse, u, u / (row @ u + 1.0 / share), -1.0)
        self._steps += 1
        self._followed = moments.version

    def scores_one(self, x: Any, moments: DeviceMoments) -> Array:
        if self._followed != moments.version or not self.is_settled(moments):
            A, self._given = self.system(moments, rough=True)
            self._inverse = moments.device.xp.linalg.inv(A)
            self._origin = self.origin(moments)
            self._steps = 0
            self._followed = moments.version
            self._quick = None
        if self._quick is None or self._quick_for != moments.version:
            self._quick = self.quickly(moments)
            self._quick_for = moments.version
        return self._quick.scores(x, moments.device) * self.factor(moments)


class DeviceDiscriminant(Solved):
    """Gaussian discriminant scores: A = S + ρ I, see :mod:`discriminant`.

    One at a time, ρ is taken from the grid that the host's running discriminant uses. ``share`` is
    ε, or None to have it worked out by Oracle Approximating Shrinkage; ``log_priors`` a function of
    the counts, None where all classes are alike.
    """

    def __init__(self, share: float | None, log_priors: Callable[[Array], Array] | None) -> None:
        super().__init__()
        self._share = share
        self._log_priors = log_priors
        self._on_grid = 0.0
        self._settled = -1

    def is_settled(self, moments: DeviceMoments) -> bool:
        if self._settled != moments.version:
            if on_grid(self._ridge(moments)[0]) != self._on_grid:
                return False
            self._settled = moments.version
        return True

    def system(self, moments: DeviceMoments, *, rough: bool) -> tuple[Any, Any]:
        ridge, share = self._ridge(moments)
        if rough:
            ridge = self._on_grid = on_grid(ridge)
            self._settled = moments.version
        return _with_ridge(moments.scatter, ridge, moments), share

    def finished(self, W: Any, centred: Any, given: Any, moments: DeviceMoments) -> tuple[Any, Any]:
        weights = W * (moments.total / (1.0 - given))
        bias = -0.5 * moments.device.xp.sum(centred * weights, axis=1)
        if self._log_priors is not None:
            bias = bias + moments.device.array(self._log_priors(moments.counts))
        return weights, bias

    def quickly(self, moments: DeviceMoments) -> Quick:
        device = moments.device
        centred = moments.means - self._origin
        W = centred @ self._inverse
        bias = -0.5 * device.xp.sum(W * centred, axis=1)
        if self._log_priors is not None:
            # These scores are in units of N / (1 − ε).
            logarithms = self._log_priors(moments.counts) * (1.0 - self._given) / moments.total
            bias = bias + device.array(logarithms)
        return Quick(W, bias, self._origin)

    def _ridge(self, moments: DeviceMoments) -> tuple[float, float]:
        """ρ and ε."""
        trace, share, total = moments.scatter_trace, self._share, moments.total
        if share is None:
            share = min(self._oas(moments, trace), MOST_SHRINKAGE) if trace > 0 else MOST_SHRINKAGE
        return floor_of(share, trace, moments) * total / (1.0 - share), share

    def _oas(self, moments: DeviceMoments, trace: float) -> float:
        relative = moments.scatter / trace
        (squares,) = moments.device.numbers(moments.device.xp.sum(relative * relative))
        return oas_weight_of(squares, moments.n_features, moments.total)


class RegularizationChoice(NamedTuple):
    """λ and α, and of how many examples."""

    regularization: float
    recoding: float
    total: float


class DeviceLeastSquares(Solved):
    """Least squares onto class indicators: A = Gram + λ I, see :mod:`least_squares`.

    ``choose`` gives λ and α; ``reselect_after`` is the share by which examples may have become more
    before a choice is made anew where one is asked about at a time.
    """

    def __init__(
        self,
        choose: Callable[[DeviceMoments], tuple[float, float]],
        *,
        intercept: bool,
        reselect_after: float,
    ) -> None:
        super().__init__()
        self._choose = choose
        self._intercept = intercept
        self._reselect_after = reselect_after
        self._exact: RegularizationChoice | None = None
        self._rough: RegularizationChoice | None = None
        self._noise = (-1, 0.0)
        self._factor: Array = np.zeros(0)
        self._factor_for = -1

    def choice(self, moments: DeviceMoments) -> RegularizationChoice:
        """λ and α of the exact head."""
        self.head(moments)
        assert self._exact is not None
        return self._exact

    def origin(self, moments: DeviceMoments) -> Any:
        return moments.mean if self._intercept else None

    def system(self, moments: DeviceMoments, *, rough: bool) -> tuple[Any, Any]:
        kept, total = self._rough, moments.total
        if rough and kept and kept.total <= total <= kept.total * (1.0 + self._reselect_after):
            chosen = kept
        else:
            chosen = RegularizationChoice(*self._choose(moments), total)
        if rough:
            self._rough = chosen
        else:
            self._exact = chosen
        return self._matrix(moments, chosen), chosen

    def row_of(self, x: Any, moments: DeviceMoments) -> Any:
        if not self._intercept:
            return x, 1.0
        return x - moments.mean, moments.total / (moments.total + 1.0)

    def quickly(self, moments: DeviceMoments) -> Quick:
        origin = self.origin(moments)
        W = _less(moments.means, origin) @ self._inverse
        if not self._intercept:
            return Quick(W, None, None)
        return Quick(W, moments.device.zeros(moments.n_slots) + 1.0 / moments.total, origin)

    def factor(self, moments: DeviceMoments) -> Array:
        if self._factor_for != moments.version:
            self._factor = moments.counts ** (1.0 - self._given.recoding)
            self._factor_for = moments.version
        return self._factor

    def finished(self, W: Any, centred: Any, given: Any, moments: DeviceMoments) -> tuple[Any, Any]:
        recoded = moments.sizes ** (1.0 - given.recoding) * moments.total**given.recoding
        offset = 1.0 / moments.total if self._intercept else 0.0
        return W * recoded[:, None], recoded * offset

    def temperature(self, moments: DeviceMoments) -> float:
        """The residual variance of a score, as :meth:`LeastSquares.noise` has it."""
        if self._noise[0] != moments.version:
            self._noise = moments.version, self._residual(moments)
        return self._noise[1]

    def _residual(self, moments: DeviceMoments) -> float:
        xp, chosen = moments.device.xp, self.choice(moments)
        A = self._matrix(moments, chosen)
        b = moments.sizes[:, None] * _less(moments.means, self.origin(moments))
        inverse = xp.linalg.inv(A)
        W = b @ inverse
        explained, squares, trace = moments.device.numbers(
            xp.sum(W * b), xp.sum(W * W), xp.linalg.trace(inverse)
        )
        return noise(
            moments.counts,
            explained + chosen.regularization * squares,
            moments.n_features - chosen.regularization * trace,
            recoding=chosen.recoding,
            intercept=self._intercept,
        )

    def _matrix(self, moments: DeviceMoments, chosen: RegularizationChoice) -> Any:
        origin = self.origin(moments)
        return _with_ridge(moments.about(origin), chosen.regularization, moments)


def noise(
    counts: Array, explained: float, freedom: float, *, recoding: float, intercept: bool
) -> float:
    """The residual variance of a score whose targets these counts explain so much of."""
    known = counts[counts > 0]
    total = float(known.sum())
    targets = known * (1.0 - known / total) if intercept else known
    free = max(total - freedom, 1.0)
    variance = total * (float(targets.sum()) - explained) / (free**2 * len(known))
    return max(variance, LEAST_NOISE) * float(np.exp(recoding * np.log(total / known).mean()))


def _less(rows: Any, origin: Any) -> Any:
    return rows if origin is None else rows - origin


def _with_ridge(matrix: Any, ridge: float, moments: DeviceMoments) -> Any:
    xp, device = moments.device.xp, moments.device
    return matrix + ridge * xp.eye(moments.n_features, dtype=xp.float64, device=device.device)


def _squares(xp: Any, rows: Any) -> Any:
    return xp.sum(rows * rows, axis=1)
