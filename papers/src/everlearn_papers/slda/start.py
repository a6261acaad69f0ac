"""Initial covariances Σ_0 of streaming LDA: Table 3 of Hayes and Kanan (2020).

    ones              an uninformative matrix of ones; t_0 = 0
    another data set  the pooled covariance of features of other images; t_0 is their number
    base              estimated from the examples before the first checkpoint by Oracle
                      Approximating Shrinkage; t_0 is their number; used in Table 1

The fixed variant keeps Σ_0; the plastic variant updates it with the stream, starting from the
scatter t_0 Σ_0. The rest is streaming LDA: running means, Λ = [(1 − ε) Σ + ε I]⁻¹.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from everlearn.arrays import Array
from everlearn.statistics.moments import Moments
from everlearn_papers.slda.learners import FixedLDA, PlasticLDA


def begun(begin: tuple[Array, float] | None, kind: str) -> Any:
    """Return streaming LDA that starts from (Σ_0, t_0), or from its first batch if None."""
    if begin is None:
        return PlasticLDA() if kind == "plastic" else FixedLDA()
    covariance, n_before = begin
    if kind == "fixed":
        return FixedLDA(base=covariance)
    if not n_before:  # t_0 = 0: Σ_0 has no effect after the first example
        return PlasticLDA(base="plain")
    return PlasticLDA(base="plain", start_covariance=covariance, start_weight=n_before)


def pooled(X: NDArray[Any], y: NDArray[Any]) -> Array:
    """Return the pooled within-class covariance of labelled examples."""
    _, slots = np.unique(y, return_inverse=True)
    moments = Moments(X.shape[1])
    moments.reserve(int(slots.max()) + 1)
    moments.add(np.asarray(X, np.float64), slots.astype(np.intp))
    covariance: Array = moments.scatter() / moments.total
    return covariance
