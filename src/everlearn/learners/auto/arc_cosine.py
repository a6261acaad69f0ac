"""Ridge regression on infinitely many random ReLU features, while all examples are kept.

    k(x, z) = ‖x‖ ‖z‖ (sin θ + (π − θ) cos θ) / π,      θ the angle between x and z

is the limit of products of ReLU features as their number grows (Cho and Saul, NeurIPS 2009). With n
examples of weights w and A = K + λ diag(1/w), and 1 the vector of ones,

    ν = A⁻¹ 1,   b_k = Σ_{i of class k} ν_i / Σ ν,   α_k = A⁻¹ (y_k − b_k 1)
    score_k(x) = α_k·k(x) + b_k

is ridge regression onto class indicators with an intercept. Leaving weight δ of example i out,

    h = (1 − λ P_ii / w_i) δ / w_i,     P_ii = (A⁻¹)_ii − ν_i² / Σ ν,     f ← (f − h y) / (1 − h)

If the examples asked about come last and A = L Lᵀ, their part of A⁻¹ is (M Mᵀ)⁻¹, M the last rows
and columns of L: one factor is nearly the whole cost of a λ. K is stored above the diagonal of one
matrix, L below it.

Cost: O(n² d + n³ / 3) to solve, O(n²) for one more example and for a question; 8 n² bytes.
"""

from typing import Literal

import numpy as np
from scipy.linalg import solve_triangular

from everlearn.arrays import Array, Slots
from everlearn.learners.closed_form.leave_one_out import LearnedRows, leave_one_out_scores
from everlearn.preprocessing.fixed_map import in_blocks
from everlearn.statistics.slices import Work, allocated, factored, parts

# Maximum number of rows of K computed together: temporary arrays stay small beside K.
ROWS = 256
# Cost of a cosine, its arc and its sine, in multiplications.
ARC = 1000.0
# Cost of copying a number across the diagonal.
MIRRORED = 50.0
# Spare capacity: this many examples, and one for every so many there are. What is not used costs
# no memory, and an example for which there is no room copies all others.
ROOM, MORE = 64, 2


def arc_cosine(A: Array, B: Array) -> Array:
    """K between the rows of A and the rows of B."""
    lengths_a, lengths_b = np.linalg.norm(A, axis=1), np.linalg.norm(B, axis=1)
    lengths = np.outer(lengths_a, lengths_b)
    cosine = np.divide(A @ B.T, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    np.clip(cosine, -1.0, 1.0, out=cosine)
    angle = np.arccos(cosine)
    cosine *= np.pi - angle
    cosine += np.sin(angle, out=angle)
    cosine *= lengths / np.pi
    return cosine


class SymmetricKernel:
    """K of examples with themselves, and the factor of K + λ diag(1/w) for one λ.

    Empty until :meth:`fill` has finished.
    """

    def __init__(self, rows: LearnedRows, piece: float) -> None:
        self._rows, self._piece = rows, piece
        self._both, self._diagonal = np.empty((0, 0)), np.empty(0)
        self._factored: float | None = None
        # Σ w ‖φ(x) − mean‖², the total scatter of the features behind K about their mean.
        self.total_variance = 0.0

    def fill(self) -> Work[None]:
        """Compute K."""
        X, n = self._rows.X, len(self._rows)
        self._both = (yield from allocated((n, n), self._piece)).T
        each = n * (X.shape[1] + ARC)
        for part in parts(n, each, min(self._piece, ROWS * each)):
            self._both[part, part.start :] = arc_cosine(X[part], X[part.start :])
            yield (part.stop - part.start) * (n - part.start) * (X.shape[1] + ARC)
        self._diagonal = self._both.diagonal().copy()
        yield from self._mirror()
        share = self._rows.weights / self._rows.weights.sum()
        spread = share @ self._diagonal - share @ self._both @ share
        self.total_variance = float(self._rows.weights.sum() * spread)
        yield float(n * n)

    def factor(self, regularization: float) -> Work[Array]:
        """L in the lower triangle; overwritten by the next λ."""
        if regularization != self._factored:
            yield from self._mirror()
            ridge = regularization / self._rows.weights
            np.fill_diagonal(self._both, self._diagonal + ridge)
            yield from factored(self._both, self._piece)
            self._factored = regularization
        return self._both

    def _mirror(self) -> Work[None]:
        """Copy the upper triangle to the lower one; restores the diagonal of K."""
        self._factored = None
        for part in in_blocks(len(self._both), ROWS):
            square = np.triu(self._both[part, part], 1)
            self._both[part.stop :, part] = self._both[part, part.stop :].T
            self._both[part, part] = square + square.T
            yield MIRRORED * ROWS * (len(self._both) - part.start)
        np.fill_diagonal(self._both, self._diagonal)


class KernelPath:
    """Leave-one-out scores of examples for any λ; ``rows`` are all examples.

    Ready when :meth:`begin` has finished.
    """

    def __init__(
        self, counts: Array, rows: LearnedRows, asked: Slots, loo: Array, piece: float = np.inf
    ) -> None:
        self._counts, self._piece = counts, piece
        others = np.setdiff1d(np.arange(len(rows)), asked)
        self._rows, self._loo = rows.take(np.concatenate([others, asked])), loo
        self._first = len(others)
        self._kernel = SymmetricKernel(self._rows, piece)

    @property
    def total_variance(self) -> float:
        return self._kernel.total_variance

    def begin(self) -> Work[None]:
        """Compute K."""
        yield from self._kernel.fill()

    def squares(self, regularization: float, recoding: float) -> "Work[KernelSquares]":
        """The solution; this path cannot be used afterwards. Free if λ is the last one scored."""
        return kernel_squares(
            self._rows,
            len(self._counts),
            regularization,
            recoding,
            kernel=self._kernel,
            piece=self._piece,
        )

    def scores(self, regularization: float, recoding: float = 0.0) -> Work[Array]:
        """One row per example asked about, one column per slot."""
        rows, asked = self._rows, slice(self._first, None)
        lower = yield from self._kernel.factor(regularization)
        members = _indicators(rows.slots, len(self._counts))
        sides = np.column_stack([members, np.ones(len(members))])
        solved = yield from _all_solved(lower, sides, (0, 1), self._piece)
        ones = solved[:, -1]
        diagonal = yield from _inverse_squares(lower[asked, asked], self._piece)
        diagonal -= ones[asked] ** 2 / ones.sum()
        bias = ones @ members / ones.sum()
        alpha = solved[asked, :-1] - np.outer(ones[asked], bias)
        weights = rows.weights[asked]
        fits = members[asked] - (regularization / weights)[:, None] * alpha
        leverages = (1.0 - regularization * diagonal / weights) * self._loo / weights
        slots = rows.slots[asked]
        return leave_one_out_scores(fits, leverages, slots, self._loo, self._counts, recoding)


def kernel_squares(
    rows: LearnedRows,
    n_slots: int,
    regularization: float,
    recoding: float,
    *,
    kernel: SymmetricKernel | None = None,
    piece: float = np.inf,
) -> "Work[KernelSquares]":
    """Kernel ridge regression; λ is relative to the mean variance of the features behind K."""
    if kernel is None:
        kernel = SymmetricKernel(rows, piece)
        yield from kernel.fill()
    ridge = regularization * (kernel.total_variance / rows.X.shape[1]) or 1.0
    lower = yield from kernel.factor(ridge)
    sides = np.column_stack([np.ones(len(rows)), _indicators(rows.slots, n_slots)])
    V = yield from _all_solved(lower, sides, (0,), piece)
    return KernelSquares(rows, lower, V, ridge, recoding)


class KernelSquares:
    """The solution for one λ and α, which can be extended by one example at a time.

    With V = L⁻¹ (1, Y) and u = L⁻¹ k(x), a question needs only one triangular solve:

        score_k(x) = V_k·u + b_k (1 − V_1·u),      b_k = V_k·V_1 / V_1·V_1

    More examples append rows (R, M) to L; the existing part does not change.
    """

    def __init__(
        self, rows: LearnedRows, lower: Array, V: Array, ridge: float, recoding: float
    ) -> None:
        self.ridge = ridge
        self._recoding = recoding
        self._X, self._lower, self._V = rows.X, lower, V
        self._counts = np.bincount(rows.slots, rows.weights, V.shape[1] - 1)
        # Later examples, and the rows of L that they add, with spare capacity.
        self._n_more = 0
        self._later, self._R, self._M = self._room(ROOM + len(rows) // MORE)
        # A⁻¹ (y_k − b_k 1), computed for many questions: costs as much as one question per class.
        self._alpha: Array | None = None

    @property
    def question_products(self) -> float:
        """Number of multiplications per question."""
        n, d = len(self._X) + self._n_more, self._X.shape[1]
        return float(n * (d + ARC) + n * n / 2.0 + self._V.size)

    def extend(self, x: Array, slot: int) -> None:
        """Add one example of weight one: one more row of the factor."""
        row = self._forward(self._beside(x[None]).T)[:, 0]
        own = float(x @ x) + self.ridge - float(row @ row)
        root = np.sqrt(max(own, 1e-12 * self.ridge))
        n, m = len(self._X), self._n_more
        if m == len(self._later):
            later, R, M = self._room(2 * m)
            later[:m], R[:m], M[:m, :m] = self._later, self._R, self._M
            self._later, self._R, self._M = later, R, M
        self._R[m], self._M[m, :m], self._M[m, m] = row[:n], row[n:], root
        self._later[m] = x
        self._n_more += 1
        new = max(0, slot + 1 - len(self._counts))
        self._counts, V = np.pad(self._counts, (0, new)), np.pad(self._V, ((0, 1), (0, new)))
        self._counts[slot] += 1.0
        V[-1, [0, slot + 1]] = 1.0
        V[-1] -= row @ V[:-1]
        V[-1] /= root
        self._V, self._alpha = V, None

    def scores(self, X: Array) -> Array:
        """One row of scores per row of X, one column per slot."""
        bias = self._V[:, 1:].T @ self._V[:, 0] / (self._V[:, 0] @ self._V[:, 0])
        if self._alpha is None and len(X) >= len(bias) and not self._n_more:
            sides = self._V[:, 1:] - np.outer(self._V[:, 0], bias)
            self._alpha = _solved(self._lower, sides, 1)
        plain = np.empty((len(X), len(bias)))
        for part in in_blocks(len(X), ROWS):
            k = self._beside(X[part])
            if self._alpha is not None:
                plain[part] = k @ self._alpha + bias
            else:
                found = self._forward(k.T).T @ self._V
                plain[part] = found[:, 1:] + np.outer(1.0 - found[:, 0], bias)
        known = self._counts > 0
        scale = np.zeros_like(bias)
        scale[known] = (self._counts.sum() / self._counts[known]) ** self._recoding
        return plain * scale

    def _beside(self, X: Array) -> Array:
        """K between every row of X and every example."""
        later = self._later[: self._n_more]
        return np.concatenate([arc_cosine(X, self._X), arc_cosine(X, later)], axis=1)

    def _forward(self, sides: Array) -> Array:
        """L⁻¹ times a matrix with one row per example."""
        n, m = len(self._X), self._n_more
        first = _solved(self._lower, sides[:n])
        if not m:
            return first
        rest = sides[n:] - self._R[:m] @ first
        return np.concatenate([first, _solved(self._M[:m, :m], rest)])

    def _room(self, capacity: int) -> tuple[Array, Array, Array]:
        n, d = self._X.shape
        return np.empty((capacity, d)), np.empty((capacity, n)), np.zeros((capacity, capacity))


def _all_solved(
    lower: Array, sides: Array, order: tuple[Literal[0, 1], ...], piece: float
) -> Work[Array]:
    """L⁻¹ (0), L⁻ᵀ (1) or both in turn applied to every column."""
    solved = np.empty(sides.shape, order="F")
    each = len(order) * len(lower) ** 2 / 2.0
    for part in parts(sides.shape[1], each, piece):
        columns = sides[:, part]
        for trans in order:
            columns = _solved(lower, columns, trans)
        solved[:, part] = columns
        yield (part.stop - part.start) * each
    return solved


def _inverse_squares(lower: Array, piece: float) -> Work[Array]:
    """The diagonal of (L Lᵀ)⁻¹: the squared length of every column of L⁻¹."""
    n = len(lower)
    squares = np.empty(n)
    for part in parts(n, n**2 / 2.0, piece):
        # A column of L⁻¹ is zero above its own row.
        own = slice(part.start, None)
        unit = np.zeros((n - part.start, part.stop - part.start))
        np.fill_diagonal(unit, 1.0)
        squares[part] = np.sum(_solved(lower[own, own], unit) ** 2, axis=0)
        yield (part.stop - part.start) * n**2 / 2.0
    return squares


def _solved(lower: Array, sides: Array, trans: Literal[0, 1] = 0) -> Array:
    solved: Array = solve_triangular(lower, sides, trans=trans, lower=True, check_finite=False)
    return solved


def _indicators(slots: Slots, n_slots: int) -> Array:
    members = np.zeros((len(slots), n_slots))
    members[np.arange(len(slots)), slots] = 1.0
    return members
