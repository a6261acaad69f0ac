"""Where the covariance of streaming LDA comes from: Table 3 of Hayes and Kanan (2020).

    ones              a matrix of ones, which says nothing; t = 0
    another data set  the pooled covariance of features of other images, t as many
    base              that of the first checkpoint's worth of the stream itself, by Oracle
                      Approximating Shrinkage, t as many: what Table 1 starts from

Fixed, it stays as it began; plastic, what the stream brings is added to it, so that t Σ grows from
t_0 Σ_0. The rest is streaming LDA: running means, Λ = [(1 − ε) Σ + ε I]⁻¹.
"""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from everlearn.arrays import Array
from everlearn.statistics.moments import Moments
from everlearn_papers.slda.last_layer import answers
from everlearn_papers.slda.learners import SHRINKAGE, FixedLDA, PlasticLDA


class StartedLDA:
    """Streaming LDA with a covariance from elsewhere.

    Parameters
    ----------
    covariance, n_before : Σ_0, and how many examples it stands for
    n_classes : labels are whole numbers below it
    plastic : whether the stream adds to it
    """

    def __init__(
        self, covariance: Array, n_before: float, n_classes: int, *, plastic: bool
    ) -> None:
        self.covariance = covariance
        self.n_before = n_before
        self.plastic = plastic
        self.moments_ = Moments(len(covariance))
        self.moments_.reserve(n_classes)

    @property
    def classes_(self) -> NDArray[np.intp]:
        return np.flatnonzero(self.moments_.counts > 0)

    def partial_fit(self, X: NDArray[Any], y: NDArray[Any]) -> Self:
        self.moments_.add(np.asarray(X, np.float64), np.asarray(y, np.intp))
        return self

    def covariance_now(self) -> Array:
        """Σ after what was learned."""
        if not self.plastic:
            return self.covariance
        total = self.n_before + self.moments_.total
        now: Array = (self.n_before * self.covariance + self.moments_.scatter()) / total
        return now

    def decision_function(self, X: NDArray[Any]) -> NDArray[Any]:
        shrunk = (1.0 - SHRINKAGE) * self.covariance_now()
        shrunk[np.diag_indices_from(shrunk)] += SHRINKAGE
        means = self.moments_.means[self.classes_]
        weights = cho_solve(cho_factor(shrunk), means.T)
        scores: NDArray[Any] = X @ weights - 0.5 * np.einsum("kd,dk->k", means, weights)
        return scores

    def predict(self, X: NDArray[Any]) -> NDArray[Any]:
        return answers(self.decision_function(X), self.classes_)


def begun(begin: tuple[Array, float] | None, n_classes: int, kind: str) -> Any:
    """Streaming LDA with Σ_0 and what it stands for, or with that of its own first batch."""
    if begin is None:
        return PlasticLDA() if kind == "plastic" else FixedLDA()
    return StartedLDA(*begin, n_classes, plastic=kind == "plastic")


def pooled(X: NDArray[Any], y: NDArray[Any]) -> Array:
    """The within-class covariance of labelled examples."""
    _, slots = np.unique(y, return_inverse=True)
    moments = Moments(X.shape[1])
    moments.reserve(int(slots.max()) + 1)
    moments.add(np.asarray(X, np.float64), slots.astype(np.intp))
    covariance: Array = moments.scatter() / moments.total
    return covariance
