"""Multiclass SVM of Crammer and Singer by stochastic gradient, for up to a thousand classes.

    min  λ/2 ‖W‖² + mean max(0, 1 + max_{k≠y} w_k·x − w_y·x)

as trained by Akata et al. (2013), a baseline of Ristin et al. (2015). Updates are per batch: each
example that violates its margin is added to the weights of its own class and subtracted from
those of the highest-scoring other class. Step sizes are 1/(λ (t + t_0)), the first 1/E‖x‖² per
example; the result is the mean of W over the last pass. A pass costs O(n d K).

With these step sizes the last W is also a dual solution: Σ_i c_i x_i (e_y − e_k) / (λ n), with c_i
the share of steps in which example i violated its margin (times n / batch size). While no c_i is
above 1, the dual objective, mean c_i − λ/2 ‖W‖², is a lower bound of the minimum.
"""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

BATCH, PASSES = 32, 20
ROWS_AT_ONCE = 1024


class MulticlassSVM:
    """Linear classifier with one weight vector and intercept per class.

    ``objective_`` is the regularized loss that was reached, ``bound_`` a lower bound of its
    minimum, ``gap_`` their difference as a share of the former: the largest share by which the
    loss could still decrease.
    """

    def __init__(self, regularization: float, *, passes: int = PASSES, seed: int = 0) -> None:
        self.regularization = regularization
        self.passes = passes
        self.seed = seed

    def fit(self, X: NDArray[Any], y: NDArray[Any]) -> Self:
        rng = np.random.default_rng(self.seed)
        self.classes_, slots = np.unique(y, return_inverse=True)
        rows = _with_ones(X)
        W = np.zeros((len(self.classes_), rows.shape[1]), np.float32)
        mean = np.zeros_like(W)
        square = float(np.einsum("ij,ij->", rows, rows)) / len(rows)
        t_start = max(1.0, square / self.regularization / BATCH)
        step, violations = 0, np.zeros(len(rows))
        for pass_number in range(self.passes):
            batches = np.array_split(rng.permutation(len(rows)), -(-len(rows) // BATCH))
            for count, batch in enumerate(batches, start=1):
                rate = 1.0 / (t_start + step) / self.regularization
                step += 1
                W *= np.float32(1.0 - rate * self.regularization)
                wrong = _pull(W, rows[batch], slots[batch], np.float32(rate / len(batch)))
                violations[batch[wrong]] += len(rows) / len(batch)
                if pass_number == self.passes - 1:
                    mean += (W - mean) / np.float32(count)
        self.W_ = mean
        self.bound_ = self._bound(W, violations / (t_start + step - 1))
        self.objective_ = self._objective(rows, slots)
        self.gap_ = 1.0 - self.bound_ / self.objective_
        return self

    def _bound(self, W: NDArray[Any], c: NDArray[Any]) -> float:
        """Dual objective of ``c`` and ``W``, scaled by the best factor that keeps all c_i ≤ 1."""
        square = float(np.einsum("ij,ij->", W, W, dtype=np.float64))
        if not square:
            return 0.0
        factor = min(1.0 / c.max(), c.mean() / (self.regularization * square))
        return float(factor * c.mean() - 0.5 * self.regularization * factor**2 * square)

    def _objective(self, rows: NDArray[Any], slots: NDArray[Any]) -> float:
        """λ/2 ‖W‖² + the mean hinge loss."""
        hinge = 0.0
        for part in np.array_split(np.arange(len(rows)), -(-len(rows) // ROWS_AT_ONCE)):
            own, others, _ = _margins(self.W_, rows[part], slots[part])
            hinge += float(np.maximum(0.0, 1.0 + others - own).sum())
        square = float(np.einsum("ij,ij->", self.W_, self.W_, dtype=np.float64))
        return 0.5 * self.regularization * square + hinge / len(rows)

    def decision_function(self, X: NDArray[Any]) -> NDArray[Any]:
        scores: NDArray[Any] = _with_ones(X) @ self.W_.T
        return scores

    def predict(self, X: NDArray[Any]) -> NDArray[Any]:
        answers: NDArray[Any] = self.classes_[self.decision_function(X).argmax(axis=1)]
        return answers


def _margins(
    W: NDArray[Any], rows: NDArray[Any], slots: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Score of the own class, highest score of another, and the slot of the latter."""
    scores = rows @ W.T
    places = np.arange(len(rows))
    own = scores[places, slots].copy()
    scores[places, slots] = -np.inf
    others = scores.argmax(axis=1)
    return own, scores[places, others], others


def _pull(
    W: NDArray[Any], rows: NDArray[Any], slots: NDArray[Any], rate: np.float32
) -> NDArray[np.bool_]:
    """Take one subgradient step on the hinge loss of a batch; return which examples violate it."""
    own, highest, others = _margins(W, rows, slots)
    wrong: NDArray[np.bool_] = own - highest < 1.0
    np.add.at(W, slots[wrong], rate * rows[wrong])
    np.add.at(W, others[wrong], -rate * rows[wrong])
    return wrong


def _with_ones(X: NDArray[Any]) -> NDArray[np.float32]:
    return np.concatenate([X, np.ones((len(X), 1))], axis=1, dtype=np.float32)
