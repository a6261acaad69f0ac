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


class Priors:
    """Priors for examples of one width; those that are vectors answer together, in one product."""

    def __init__(self, priors: Sequence[Any], n_features: int) -> None:
        self._n = len(priors)
        self._asked: list[tuple[int, Any]] = []
        self._linear: list[int] = []
        forms = []
        for index, prior in enumerate(priors):
            form = linear_form(prior)
            if form is None:
                self._asked.append((index, prior))
                continue
            _require_width(index, len(form[0]), n_features)
            self._linear.append(index)
            forms.append(form)
        self._W = np.array([w for w, _ in forms]).reshape(len(forms), n_features)
        self._b = np.array([b for _, b in forms])

    def __len__(self) -> int:
        return self._n

    def scores(self, X: Array) -> Array:
        """One column per prior: its scores of the rows of X."""
        columns = np.empty((len(X), self._n))
        if self._linear:
            columns[:, self._linear] = X @ self._W.T + self._b
        for index, prior in self._asked:
            columns[:, index] = _answers(index, prior, X)
        finite = np.isfinite(columns).all(axis=0)
        if not finite.all():
            raise InvalidPrior(
                f"prior {int(np.argmin(finite))} answered NaN or infinity; "
                "leave it out or repair it"
            )
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


def _answers(index: int, prior: Any, X: Array) -> Array:
    width = getattr(prior, "n_features_in_", None)
    if width is not None:
        _require_width(index, width, X.shape[1])
    values = np.asarray(_scorer(prior)(X), dtype=np.float64)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.shape != (len(X),):
        raise InvalidPrior(
            f"prior {index} answered an array of shape {values.shape} for {len(X)} rows; a prior "
            "gives one score per row, so of a learner of many classes use one class's detector"
        )
    return values


def _require_width(index: int, width: int, n_features: int) -> None:
    if width != n_features:
        raise InvalidPrior(
            f"prior {index} is for {width} features, the examples have {n_features}; "
            "priors must have learned from the same features"
        )
