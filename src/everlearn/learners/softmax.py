"""A growing softmax layer, trained by stochastic gradient descent with momentum.

    p = softmax(W x + b),   loss = −log p_y + ½ δ ‖W‖²
    V ← m V − η ∇loss,      W ← W + V

η is the learning rate, m the momentum, δ the weight decay. A new class starts with zero weights.
Computed in float32, like the networks whose last layer this is.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from everlearn.arrays import Single, Slots


@dataclass(frozen=True)
class Descent:
    """Hyperparameters of the gradient descent."""

    learning_rate: float
    momentum: float
    weight_decay: float
    batch_size: int


class SoftmaxLayer:
    """Weights with a last column for the bias, and their velocity; one row per class."""

    def __init__(self, n_features: int) -> None:
        self.weights = np.zeros((0, n_features + 1), dtype=np.float32)
        self.velocity = np.zeros_like(self.weights)

    def grow(self, n_classes: int) -> None:
        """Add classes up to this number."""
        missing = n_classes - len(self.weights)
        if missing > 0:
            more = np.zeros((missing, self.weights.shape[1]), dtype=np.float32)
            self.weights = np.concatenate([self.weights, more])
            self.velocity = np.concatenate([self.velocity, more])

    def scores(self, X: NDArray[np.floating]) -> Single:
        """W x + b, one column per class."""
        product: Single = np.asarray(X, np.float32) @ self.weights[:, :-1].T
        return product + self.weights[:, -1]

    def sweep(
        self, X: Single, slots: Slots, descent: Descent, rng: np.random.Generator | None = None
    ) -> None:
        """One pass over examples in batches; shuffled if a generator is given."""
        order = np.arange(len(X)) if rng is None else rng.permutation(len(X))
        for start in range(0, len(X), descent.batch_size):
            chosen = order[start : start + descent.batch_size]
            self._step(X[chosen], slots[chosen], descent)

    def _step(self, X: Single, slots: Slots, descent: Descent) -> None:
        scores = self.scores(X)
        scores -= scores.max(axis=1, keepdims=True)
        error = np.exp(scores, out=scores)
        error /= error.sum(axis=1, keepdims=True)
        error[np.arange(len(X)), slots] -= 1.0
        error /= len(X)
        gradient = descent.weight_decay * self.weights
        gradient[:, -1] = 0.0
        gradient[:, :-1] += error.T @ X
        gradient[:, -1] += error.sum(axis=0)
        self.velocity *= descent.momentum
        self.velocity -= descent.learning_rate * gradient
        self.weights += self.velocity
