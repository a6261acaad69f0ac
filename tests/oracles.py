"""Slow and obvious references: every formula as printed in its paper, from the raw examples."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def class_moments(X: Array, y: Any, w: Array | None = None) -> tuple[Any, Array, Array, Array]:
    """Classes, counts, means and pooled within-class scatter, in two passes, class by class."""
    w = np.ones(len(X)) if w is None else w
    classes = sorted(set(np.asarray(y).tolist()))
    counts, means = [], []
    scatter = np.zeros((X.shape[1], X.shape[1]))
    for label in classes:
        mine = np.asarray(y) == label
        counts.append(w[mine].sum())
        mean = (w[mine, None] * X[mine]).sum(axis=0) / counts[-1]
        means.append(mean)
        for x, weight in zip(X[mine], w[mine], strict=True):
            scatter += weight * np.outer(x - mean, x - mean)
    return classes, np.array(counts), np.array(means), scatter


def slda_scores(X: Array, y: Any, X_new: Array, shrinkage: float) -> Array:
    """Pooled covariance, shrunk towards its mean variance, and an explicit inverse."""
    _, _, means, scatter = class_moments(X, y)
    return discriminant_scores(means, scatter / len(X), X_new, shrinkage)


def discriminant_scores(means: Array, covariance: Array, X_new: Array, shrinkage: float) -> Array:
    floor = shrinkage * np.trace(covariance) / len(covariance)
    precision = np.linalg.inv((1 - shrinkage) * covariance + floor * np.eye(len(covariance)))
    weights = means @ precision
    bias = np.array([-0.5 * m @ precision @ m for m in means])
    return X_new @ weights.T + bias


class PublishedRecursion:
    """Hayes and Kanan 2020, Eq. 2-5, one example at a time, with matrices as printed."""

    def __init__(self, n_features: int) -> None:
        self.means: dict[Any, Array] = {}
        self.counts: dict[Any, float] = {}
        self.covariance = np.zeros((n_features, n_features))
        self.t = 0

    def learn(self, z: Array, label: Any) -> None:
        mean = self.means.get(label, np.zeros(len(z)))
        count = self.counts.get(label, 0)
        t = self.t
        delta = t * np.outer(z - mean, z - mean) / (t + 1)
        self.covariance = (t * self.covariance + delta) / (t + 1)
        self.means[label] = (count * mean + z) / (count + 1)
        self.counts[label] = count + 1
        self.t = t + 1


def ridge_scores(
    X: Array,
    y: Any,
    X_new: Array,
    *,
    regularization: float,
    recoding: float = 0.0,
    rebalance: bool = False,
    intercept: bool = False,
) -> Array:
    """Eq. 16 on the raw examples, recoded (Eq. 21) or rebalanced (Eq. 22)."""
    classes, counts, _, _ = class_moments(X, y)
    Y = (np.asarray(y)[:, None] == np.array(classes)).astype(float)
    gamma = (len(X) / counts) ** recoding
    weights = Y @ gamma if rebalance else np.ones(len(X))
    x_mean = weights @ X / weights.sum() if intercept else np.zeros(X.shape[1])
    y_mean = weights @ Y / weights.sum() if intercept else np.zeros(len(classes))
    centred = X - x_mean
    A = centred.T @ (weights[:, None] * centred) + regularization * np.eye(X.shape[1])
    W = np.linalg.solve(A, centred.T @ (weights[:, None] * (Y - y_mean)))
    scores = (X_new - x_mean) @ W + y_mean
    return scores if rebalance else scores * gamma


def up_to_a_common_term(scores: Array) -> Array:
    """Scores that differ by a term all classes share are the same scores."""
    return scores - scores.mean(axis=1, keepdims=True)
