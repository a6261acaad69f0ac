"""Multiclass SVM of Crammer and Singer by stochastic gradient, for up to a thousand classes.

    min  λ/2 ‖W‖² + mean max(0, 1 + max_{k≠y} w_k·x − w_y·x)

as trained by Akata et al. (2013), a baseline of Ristin et al. (2015). Updates are per batch: each
example that violates its margin is added to the weights of its own class and subtracted from
those of the highest-scoring other class. Step sizes are 1/(λ (t + t_0)), the first 1/E‖x‖² per
example; the result is the mean of W over the last pass. A pass costs O(n d K).
"""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

BATCH, PASSES = 32, 20


class MulticlassSVM:
    """Linear classifier with one weight vector and intercept per class."""

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
        step = 0
        for pass_number in range(self.passes):
            batches = np.array_split(rng.permutation(len(rows)), -(-len(rows) // BATCH))
            for count, batch in enumerate(batches, start=1):
                rate = 1.0 / (t_start + step) / self.regularization
                step += 1
                W *= np.float32(1.0 - rate * self.regularization)
                _pull(W, rows[batch], slots[batch], np.float32(rate / len(batch)))
                if pass_number == self.passes - 1:
                    mean += (W - mean) / np.float32(count)
        self.W_ = mean
        return self

    def decision_function(self, X: NDArray[Any]) -> NDArray[Any]:
        scores: NDArray[Any] = _with_ones(X) @ self.W_.T
        return scores

    def predict(self, X: NDArray[Any]) -> NDArray[Any]:
        answers: NDArray[Any] = self.classes_[self.decision_function(X).argmax(axis=1)]
        return answers


def _pull(W: NDArray[Any], rows: NDArray[Any], slots: NDArray[Any], rate: np.float32) -> None:
    """Take one subgradient step on the hinge loss of a batch, in place."""
    scores = rows @ W.T
    places = np.arange(len(rows))
    own = scores[places, slots].copy()
    scores[places, slots] = -np.inf
    others = scores.argmax(axis=1)
    wrong = own - scores[places, others] < 1.0
    np.add.at(W, slots[wrong], rate * rows[wrong])
    np.add.at(W, others[wrong], -rate * rows[wrong])


def _with_ones(X: NDArray[Any]) -> NDArray[np.float32]:
    return np.concatenate([X, np.ones((len(X), 1))], axis=1, dtype=np.float32)
