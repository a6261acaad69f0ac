"""Textbook implementations, as given in the papers, with the best available routines.

Each stores and computes what its paper does; only the language differs. LAPACK and BLAS do the
heavy parts, and the rank-one Cholesky update is compiled (the authors used MATLAB's CHOLUPDATE), so
that the methods are compared and not the loops.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve

from everlearn.statistics.factor_kernels import update_and_solve_forward

Array = NDArray[np.float64]


class PublishedSLDA:
    """Hayes and Kanan 2020: a d×d temporary per example, a pseudo-inverse before a prediction."""

    def __init__(
        self, n_features: int, n_classes: int, shrinkage: float = 1e-4, exact: bool = False
    ) -> None:
        self.means = np.zeros((n_classes, n_features))
        self.counts = np.zeros(n_classes)
        self.covariance = np.zeros((n_features, n_features))
        self.updates = 0
        self.shrinkage = shrinkage
        # c/(c+1) instead of t/(t+1), and shrinkage towards the mean variance: the same answers as
        # StreamingLDA, for the same work.
        self.exact = exact
        self.weights: Array | None = None

    def start(self, X: Array, labels: NDArray[np.intp]) -> None:
        """Begin from a base batch, as the authors do."""
        for label in np.unique(labels):
            mine = X[labels == label]
            self.means[label], self.counts[label] = mine.mean(axis=0), len(mine)
        centred = X - self.means[labels]
        self.covariance = centred.T @ centred / len(X)
        self.updates = len(X)

    def learn(self, x: Array, label: int) -> None:
        t = self.updates
        share = self.counts[label] / (self.counts[label] + 1) if self.exact else t / (t + 1)
        delta = np.outer(x - self.means[label], x - self.means[label]) * share
        self.covariance = (t * self.covariance + delta) / (t + 1)
        self.means[label] += (x - self.means[label]) / (self.counts[label] + 1)
        self.counts[label] += 1
        self.updates += 1
        self.weights = None

    def ask(self, x: Array) -> int:
        if self.weights is None:
            size = np.trace(self.covariance) / len(x) if self.exact else 1.0
            floor = self.shrinkage * size * np.eye(len(x))
            precision = np.linalg.pinv(
                (1 - self.shrinkage) * self.covariance + floor, hermitian=True
            )
            self.weights = self.means @ precision
            self.bias = -0.5 * np.sum(self.means * self.weights, axis=1)
        scores = self.weights @ x + self.bias
        scores[self.counts == 0] = -np.inf
        return int(scores.argmax())


class PublishedRLSC:
    """Camoriano et al. 2017, Algorithm 1: rank-one Cholesky update, then W solved in full."""

    def __init__(
        self, n_features: int, n_classes: int, regularization: float, recoding: float
    ) -> None:
        self.R = np.sqrt(regularization) * np.eye(n_features)
        self.b = np.zeros((n_features, n_classes), order="F")
        self.counts = np.zeros(n_classes)
        self.recoding = recoding
        self.W = np.zeros((n_features, n_classes))

    def start(self, X: Array, labels: NDArray[np.intp]) -> None:
        """Begin from a batch; the last example is learned, so that W exists."""
        for label in np.unique(labels[:-1]):
            mine = X[:-1][labels[:-1] == label]
            self.b[:, label], self.counts[label] = mine.sum(axis=0), len(mine)
        A = X[:-1].T @ X[:-1] + self.R.T @ self.R
        self.R = np.ascontiguousarray(np.linalg.cholesky(A).T)
        self.learn(X[-1], int(labels[-1]))

    def learn(self, x: Array, label: int) -> None:
        self.counts[label] += 1
        self.b[:, label] += x
        update_and_solve_forward(self.R, x.copy(), np.empty((0, len(x))))
        known = np.maximum(self.counts, 1)
        recoded = self.b * (self.counts.sum() / known) ** self.recoding
        # R is upper triangular in C order, which LAPACK reads as lower without a copy.
        self.W = cho_solve((self.R.T, True), recoded, overwrite_b=True, check_finite=False)

    def ask(self, x: Array) -> int:
        scores = x @ self.W
        scores[self.counts == 0] = -np.inf
        return int(scores.argmax())
