"""Ridge regression behind infinitely many random ReLU features, while all examples are at hand.

    k(x, z) = ‖x‖ ‖z‖ (sin θ + (π − θ) cos θ) / π,      θ the angle between x and z

is what the products of ReLU features tend to as they grow wider (Cho and Saul, NeurIPS 2009). With
n examples of weights w and A = K + λ diag(1/w), and 1 the vector of ones,

    ν = A⁻¹ 1,   b_k = Σ_{i of class k} ν_i / Σ ν,   α_k = A⁻¹ (y_k − b_k 1)
    score_k(x) = α_k·k(x) + b_k

is ridge regression onto class indicators with an intercept. Leaving weight δ of example i out,

    h = (1 − λ P_ii / w_i) δ / w_i,     P_ii = (A⁻¹)_ii − ν_i² / Σ ν,     f ← (f − h y) / (1 − h)

Where the examples asked about come last and A = L Lᵀ, their part of A⁻¹ is (M Mᵀ)⁻¹, M the last
rows and columns of L: one factor is nearly all that a λ costs. K stands above the diagonal of one
matrix, L below it.

Cost: O(n² d + n³ / 3) to solve, O(n²) for one more example and for a question; 8 n² bytes.
"""

from typing import Literal

import numpy as np
from scipy.linalg import cho_solve, lapack, solve_triangular

from everlearn.arrays import Array, Slots
from everlearn.learners.closed_form.leave_one_out import LearnedRows, leave_one_out_scores
from everlearn.preprocessing.fixed_map import in_blocks
from everlearn.statistics.definite import definite_factor

# LearnedRows of K made together: what is computed on the way to them stays small beside K.
ROWS = 256


def arc_cosine(A: Array, B: Array) -> Array:
    """K of every row of A with every row of B."""
    lengths_a, lengths_b = np.linalg.norm(A, axis=1), np.linalg.norm(B, axis=1)
    lengths = np.outer(lengths_a, lengths_b)
    cosine = np.divide(A @ B.T, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    np.clip(cosine, -1.0, 1.0, out=cosine)
    angle = np.arccos(cosine)
    cosine *= np.pi - angle
    cosine += np.sin(angle, out=angle)
    cosine *= lengths / np.pi
    return cosine


class _Symmetric:
    """K of examples with themselves, beside it the factor of K + λ diag(1/w) for one λ."""

    def __init__(self, rows: LearnedRows) -> None:
        n = len(rows)
        self._weights = rows.weights
        self._both = np.zeros((n, n), order="F")
        for part in in_blocks(n, ROWS):
            self._both[part, part.start :] = arc_cosine(rows.X[part], rows.X[part.start :])
        self._diagonal = self._both.diagonal().copy()
        self._mirror()
        self._factored: float | None = None
        share = rows.weights / rows.weights.sum()
        spread = share @ self._diagonal - share @ self._both @ share
        # Σ w ‖φ(x) − mean‖², the scatter of the features behind K about their mean, all of them.
        self.total_variance = float(rows.weights.sum() * spread)

    def factor(self, regularization: float) -> Array:
        """L; what is above its diagonal is not part of it, and another λ overwrites it."""
        if regularization == self._factored:
            return self._both
        self._mirror()
        self._factored = regularization
        np.fill_diagonal(self._both, self._diagonal + regularization / self._weights)
        self._both = definite_factor(self._both, overwrite=True)[0]
        return self._both

    def _mirror(self) -> None:
        """Copy what is above the diagonal below it; the diagonal is K's again."""
        for part in in_blocks(len(self._both), ROWS):
            square = np.triu(self._both[part, part], 1)
            self._both[part.stop :, part] = self._both[part, part.stop :].T
            self._both[part, part] = square + square.T
        np.fill_diagonal(self._both, self._diagonal)


class KernelPath:
    """Scores of all examples, each without itself, for any λ; ``rows`` are all there are."""

    def __init__(self, counts: Array, rows: LearnedRows, asked: Slots, loo: Array) -> None:
        self._counts = counts
        others = np.setdiff1d(np.arange(len(rows)), asked)
        self._rows, self._left_out = rows.take(np.concatenate([others, asked])), loo
        self._first = len(others)
        self._kernel = _Symmetric(self._rows)
        self.total_variance = self._kernel.total_variance

    def squares(self, regularization: float, recoding: float) -> "KernelSquares":
        """The solution; this path is used up. Nothing is left to do where λ was the last asked."""
        return KernelSquares(self._rows, len(self._counts), regularization, recoding, self._kernel)

    def scores(self, regularization: float, recoding: float = 0.0) -> Array:
        """One row per example asked about, one column per slot."""
        rows, asked = self._rows, slice(self._first, None)
        lower = self._kernel.factor(regularization)
        last, _ = lapack.dtrtri(lower[asked, asked], lower=1)
        members = _indicators(rows.slots, len(self._counts))
        sides = np.column_stack([members, np.ones(len(members))])
        solved = cho_solve((lower, True), sides, check_finite=False)
        ones = solved[:, -1]
        diagonal = np.sum(np.tril(last) ** 2, axis=0) - ones[asked] ** 2 / ones.sum()
        bias = ones @ members / ones.sum()
        alpha = solved[asked, :-1] - np.outer(ones[asked], bias)
        weights = rows.weights[asked]
        fits = members[asked] - (regularization / weights)[:, None] * alpha
        leverages = (1.0 - regularization * diagonal / weights) * self._left_out / weights
        slots = rows.slots[asked]
        return leave_one_out_scores(fits, leverages, slots, self._left_out, self._counts, recoding)


class KernelSquares:
    """The solution for one λ and α, which one more example extends.

    With V = L⁻¹ (Y, 1) and u = L⁻¹ k(x), a question needs no more than one triangular solve:

        score_k(x) = V_k·u + b_k (1 − V_1·u),      b_k = V_k·V_1 / V_1·V_1

    More examples make L longer by rows (R, M); what there was of it stays where it is.
    """

    def __init__(
        self,
        rows: LearnedRows,
        n_slots: int,
        regularization: float,
        recoding: float,
        kernel: _Symmetric | None = None,
    ) -> None:
        kernel = kernel or _Symmetric(rows)
        self._ridge = regularization * (kernel.total_variance / rows.X.shape[1]) or 1.0
        self._recoding = recoding
        self._X, self._more = rows.X, rows.X[:0]
        self._lower = kernel.factor(self._ridge)
        self._R, self._M = np.zeros((0, len(rows))), np.zeros((0, 0))
        members = _indicators(rows.slots, n_slots)
        self._counts = rows.weights @ members
        self._V = self._forward(np.column_stack([np.ones(len(rows)), members]))
        # A⁻¹ (y_k − b_k 1), made when there are many questions: as dear as one for each class.
        self._alpha: Array | None = None

    def extend(self, x: Array, slot: int) -> None:
        """One more example of weight one: a row more of the factor."""
        row = self._forward(self._beside(x[None]).T)[:, 0]
        own = float(x @ x) + self._ridge - float(row @ row)
        root = np.sqrt(max(own, 1e-12 * self._ridge))
        n, m = len(self._X), len(self._more)
        self._R = np.concatenate([self._R, row[None, :n]])
        self._M = np.pad(self._M, (0, 1))
        self._M[m] = np.append(row[n:], root)
        self._more = np.concatenate([self._more, x[None]])
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
        if self._alpha is None and len(X) >= len(bias) and not len(self._more):
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
        """K of every row of X with every example."""
        return np.concatenate([arc_cosine(X, self._X), arc_cosine(X, self._more)], axis=1)

    def _forward(self, sides: Array) -> Array:
        """L⁻¹ of what has a row for every example."""
        first = _solved(self._lower, sides[: len(self._X)])
        if not len(self._more):
            return first
        return np.concatenate([first, _solved(self._M, sides[len(self._X) :] - self._R @ first)])


def _solved(lower: Array, sides: Array, trans: Literal[0, 1] = 0) -> Array:
    solved: Array = solve_triangular(lower, sides, trans=trans, lower=True, check_finite=False)
    return solved


def _indicators(slots: Slots, n_slots: int) -> Array:
    members = np.zeros((len(slots), n_slots))
    members[np.arange(len(slots)), slots] = 1.0
    return members
