"""Prior knowledge: anything that scores examples, positive for what it knows.

A prior is one of

    a weight vector w             h(x) = w·x
    a pair (w, b)                 h(x) = w·x + b
    a binary learner of ours      h(x) = its margin, positive for its positive label
    any fitted estimator          h(x) = its decision_function, one value per row
    a function                    h(X) = one value per row

This file reads all of them the same way, and refuses answers that cannot be learned from.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from everlearn.base import Array
from everlearn.errors import InvalidPrior

LinearForm = tuple[Array, float]


def check_priors(priors: Any) -> None:
    """Refuse what is not a list of priors; looks at their kind, not at what they answer."""
    if not isinstance(priors, (list, tuple, np.ndarray)):
        raise InvalidPrior(f"priors is a list, not a {type(priors).__name__}; put one in a list")
    for index, prior in enumerate(priors):
        if linear_form(prior) is None and _scorer(prior) is None:
            raise InvalidPrior(
                f"prior {index} is a {type(prior).__name__}: a prior is a weight vector, a pair of "
                "a vector and a bias, a fitted estimator with a decision function, or a function"
            )


def scores(priors: Sequence[Any], X: Array) -> Array:
    """One column per prior: its scores of the rows of X."""
    columns = np.empty((len(X), len(priors)))
    for index, prior in enumerate(priors):
        columns[:, index] = _score(prior, X, index)
    return columns


def linear_form(prior: Any) -> LinearForm | None:
    """(w, b) of a prior that is a weight vector or a pair; None for any other."""
    bias = 0.0
    if isinstance(prior, tuple) and len(prior) == 2 and np.ndim(prior[1]) == 0:
        prior, bias = prior[0], float(prior[1])
    if not isinstance(prior, (np.ndarray, list, tuple)):
        return None
    try:
        weights = np.asarray(prior, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    return (weights, bias) if weights.ndim == 1 else None


def _scorer(prior: Any) -> Any:
    for name in ("margin", "decision_function"):
        if hasattr(prior, name):
            return getattr(prior, name)
    return prior if callable(prior) else None


def _score(prior: Any, X: Array, index: int) -> Array:
    form = linear_form(prior)
    width = len(form[0]) if form is not None else getattr(prior, "n_features_in_", X.shape[1])
    if width != X.shape[1]:
        raise InvalidPrior(
            f"prior {index} is for {width} features, the examples have {X.shape[1]}; "
            "priors must have learned from the same features"
        )
    if form is not None:
        values = X @ form[0] + form[1]
    else:
        scorer = _scorer(prior)
        values = np.asarray(scorer(X), dtype=np.float64)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.shape != (len(X),):
        raise InvalidPrior(
            f"prior {index} answered an array of shape {values.shape} for {len(X)} rows; a prior "
            "gives one score per row, so of a learner of many classes use one class's detector"
        )
    if not np.all(np.isfinite(values)):
        raise InvalidPrior(f"prior {index} answered NaN or infinity; leave it out or repair it")
    return values
