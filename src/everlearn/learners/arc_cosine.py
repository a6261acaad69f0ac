"""Ridge regression behind infinitely many random ReLU features, while all examples are at hand.

    k(x, z) = ‖x‖ ‖z‖ (sin θ + (π − θ) cos θ) / π,      θ the angle between x and z

is what the products of ReLU features tend to as they grow wider (Cho and Saul, NeurIPS 2009). With
n examples of weights w and A = K + λ diag(1/w), and 1 the vector of ones,

    ν = A⁻¹ 1,   b_k = Σ_{i of class k} ν_i / Σ ν,   α_k = A⁻¹ (y_k − b_k 1)
    score_k(x) = Σ_{i of class k} z_i + b_k (1 − Σ z),     z = A⁻¹ k(x)

is ridge regression onto class indicators with an intercept. Leaving weight δ of example i out,

    h = (1 − λ P_ii / w_i) δ / w_i,     P_ii = (A⁻¹)_ii − ν_i² / Σ ν,     f ← (f − h y) / (1 − h)

Cost: O(n² d + n³ / 3) to solve, O(n²) for one more example and for a question.
"""

import numpy as np
from scipy.linalg import cho_solve, solve_triangular

from everlearn.arrays import Array, Slots
from everlearn.learners.leave_one_out import Rows, without_themselves
from everlearn.statistics.class_means import ClassMeans
from everlearn.statistics.definite import definite_factor


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


class KernelPath:
    """Scores of all examples, each without itself, for any λ; ``rows`` are all there are."""

    def __init__(self, moments: ClassMeans, rows: Rows, asked: Slots, left_out: Array) -> None:
        self._counts = moments.counts
        self._rows, self._asked, self._left_out = rows, asked, left_out
        self._K = arc_cosine(rows.X, rows.X)
        self.total_variance = _total_variance(self._K, rows)

    def scores(self, regularization: float, recoding: float = 0.0) -> Array:
        """One row per example asked about, one column per slot."""
        rows, some = self._rows, self._asked
        matrix = self._K.copy()
        matrix.flat[:: len(matrix) + 1] += regularization / rows.weights
        factor = definite_factor(matrix, overwrite=True)
        # A⁻¹ by way of L⁻¹: its columns are all that is needed of it.
        half = solve_triangular(factor[0], np.eye(len(matrix)), lower=True, overwrite_b=True)
        ones = half.T @ half.sum(axis=1)
        diagonal = np.einsum("ij,ij->j", half, half)[some] - ones[some] ** 2 / ones.sum()
        members = _indicators(rows.slots, len(self._counts))
        bias = ones @ members / ones.sum()
        alpha = (half.T @ (half @ members))[some] - np.outer(ones[some], bias)
        weights = rows.weights[some]
        fits = members[some] - (regularization / weights)[:, None] * alpha
        leverages = (1.0 - regularization * diagonal / weights) * self._left_out / weights
        slots = rows.slots[some]
        return without_themselves(fits, leverages, slots, self._left_out, self._counts, recoding)


class KernelSquares:
    """The solution for one λ and α, which one more example extends."""

    def __init__(self, rows: Rows, n_slots: int, strength: float, recoding: float) -> None:
        self._recoding = recoding
        self._X, self._slots, self._weights = rows.X, rows.slots, rows.weights
        self._n_slots = n_slots
        K = arc_cosine(rows.X, rows.X)
        self._ridge = strength * _total_variance(K, rows) / rows.X.shape[1] or 1.0
        K.flat[:: len(K) + 1] += self._ridge / rows.weights
        self._lower = definite_factor(K, overwrite=True)[0]
        self._refresh()

    def extend(self, x: Array, slot: int) -> None:
        """One more example of weight one: a row more of the factor."""
        k = arc_cosine(x[None], self._X)[0]
        row = solve_triangular(self._lower, k, lower=True)
        n = len(k)
        own = float(x @ x) + self._ridge - float(row @ row)
        grown = np.zeros((n + 1, n + 1), order="F")
        grown[:n, :n] = self._lower
        grown[n, :n], grown[n, n] = row, np.sqrt(max(own, 1e-12 * self._ridge))
        self._lower = grown
        self._X = np.concatenate([self._X, x[None]])
        self._slots, self._weights = np.append(self._slots, slot), np.append(self._weights, 1.0)
        self._n_slots = max(self._n_slots, slot + 1)
        self._refresh()

    def scores(self, X: Array) -> Array:
        """One row of scores per row of X, one column per slot."""
        Z = cho_solve((self._lower, True), arc_cosine(X, self._X).T).T
        plain = Z @ self._members + (1.0 - Z.sum(axis=1))[:, None] * self._bias
        counts = self._weights @ self._members
        known = counts > 0
        scale = np.zeros_like(counts)
        scale[known] = (counts.sum() / counts[known]) ** self._recoding
        scores: Array = plain * scale
        return scores

    def _refresh(self) -> None:
        self._members = _indicators(self._slots, self._n_slots)
        ones = cho_solve((self._lower, True), np.ones(len(self._slots)))
        self._bias: Array = ones @ self._members / ones.sum()


def _indicators(slots: Slots, n_slots: int) -> Array:
    members = np.zeros((len(slots), n_slots))
    members[np.arange(len(slots)), slots] = 1.0
    return members


def _total_variance(K: Array, rows: Rows) -> float:
    """Σ w ‖φ(x) − mean‖², the scatter of the features behind K about their mean, all of them."""
    share = rows.weights / rows.weights.sum()
    return float(rows.weights.sum() * (share @ K.diagonal() - share @ K @ share))
