"""Where the covariance of streaming LDA comes from: Table 3 of Hayes and Kanan (2020).

    ones              a matrix of ones, which says nothing; t = 0
    another data set  the pooled covariance of features of other images, t as many
    base              that of the first checkpoint's worth of the stream itself, by Oracle
                      Approximating Shrinkage, t as many: what Table 1 starts from

Fixed, it stays as it began; plastic, what the stream brings is added to it, so that t Σ grows from
t_0 Σ_0. The rest is streaming LDA: running means, Λ = [(1 − ε) Σ + ε I]⁻¹.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from everlearn.arrays import Array
from everlearn.statistics.moments import Moments
from everlearn_papers.slda.learners import FixedLDA, PlasticLDA


def begun(begin: tuple[Array, float] | None, kind: str) -> Any:
    """Streaming LDA with Σ_0 and what it stands for, or with that of its own first batch."""
    if begin is None:
        return PlasticLDA() if kind == "plastic" else FixedLDA()
    covariance, n_before = begin
    if kind == "fixed":
        return FixedLDA(base=covariance)
    if not n_before:  # t = 0: gone with the first example
        return PlasticLDA(base="plain")
    return PlasticLDA(base="plain", start_covariance=covariance, start_weight=n_before)


def pooled(X: NDArray[Any], y: NDArray[Any]) -> Array:
    """The within-class covariance of labelled examples."""
    _, slots = np.unique(y, return_inverse=True)
    moments = Moments(X.shape[1])
    moments.reserve(int(slots.max()) + 1)
    moments.add(np.asarray(X, np.float64), slots.astype(np.intp))
    covariance: Array = moments.scatter() / moments.total
    return covariance
