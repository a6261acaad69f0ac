"""A prior covariance that a learner starts from, before its first example.

    Σ = (n₀ Σ₀ + S) / (n₀ + N)

Σ₀ counts as n₀ examples: it decides at first, and matters less the more is learned. It is a
parameter of a learner and not something it was taught, so it is never forgotten, and counts once
when learners that share it are merged.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from everlearn.arrays import Array
from everlearn.errors import InvalidParameter
from everlearn.statistics.moments import Moments, Start

# Eigenvalues of a covariance may be this far below zero, as a share of its trace, by rounding.
ROUNDING = 1e-10


def start_of(covariance: Any, weight: float, n_features: int) -> Start | None:
    """Σ₀ as a scatter of ``n_features`` features; None for no covariance.

    Raises
    ------
    InvalidParameter
        If it is not a covariance of this size.
    """
    if covariance is None:
        return None
    scatter = float(weight) * checked_covariance("start_covariance", covariance, n_features)
    if not np.isfinite(scatter).all():
        raise InvalidParameter("start_covariance times start_weight overflows; give smaller ones")
    return Start(np.triu(scatter), float(weight))


def checked_covariance(name: str, covariance: Any, n_features: int) -> Array:
    """A number, one number per feature, or a symmetric matrix without negative eigenvalues.

    Raises
    ------
    InvalidParameter
        If it is none of these; ``name`` is that of the parameter.
    """
    try:
        given = np.asarray(covariance, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidParameter(
            f"{name} must be a number, one number per feature, or a matrix, not {covariance!r:.80}"
        ) from None
    shapes = ((), (n_features,), (n_features, n_features))
    if given.shape not in shapes:
        raise InvalidParameter(
            f"{name} has the shape {given.shape}; for {n_features} features it must be a "
            f"number, or of shape {shapes[1]} or {shapes[2]}"
        )
    if not np.isfinite(given).all():
        raise InvalidParameter(f"{name} has entries that are not finite")
    if given.ndim < 2:
        if np.any(given < 0):
            raise InvalidParameter(f"{name} has negative variances")
        return np.diag(np.broadcast_to(given, n_features))
    slack = ROUNDING * float(np.abs(given).max())
    if np.any(np.abs(given - given.T) > slack):
        raise InvalidParameter(f"{name} is not symmetric")
    full = (given + given.T) / 2
    if np.linalg.eigvalsh(full)[0] < -ROUNDING * max(float(np.trace(full)), 0.0):
        raise InvalidParameter(f"{name} has negative eigenvalues, so it is not a covariance")
    return full


def unlabelled_covariance(X: ArrayLike) -> Array:
    """The covariance of rows about their mean, divided by their number."""
    rows = np.asarray(X, dtype=np.float64)
    moments = Moments(rows.shape[1])
    moments.reserve(1)
    moments.add(np.ascontiguousarray(rows), np.zeros(len(rows), dtype=np.intp))
    covariance: Array = moments.scatter() / moments.total
    return covariance
