"""Prior models: anything that scores examples, above zero for what it has learned.

A prior model is one of

    a weight vector w             h(x) = w·x
    a pair (w, b)                 h(x) = w·x + b
    a two-label learner of ours   h(x) = its margin, positive for its positive label
    any fitted estimator          h(x) = its decision_function, one value per row
    a function                    h(X) = one value per row

Tommasi et al. (2012), Sec. 2.2, define h_j(x) = ŵ_j·x. ``intercepts=False`` uses every model that
way: a pair loses its b, a learner or estimator its ``intercept_``; a function is not changed.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from everlearn.arrays import AnyArray, Array
from everlearn.errors import InvalidPrior


def check_prior_models(models: Any) -> None:
    """Require a list of prior models; checks their types, not their answers."""
    if not isinstance(models, (list, tuple, np.ndarray)):
        raise InvalidPrior(
            f"prior_models must be a list, not a {type(models).__name__}; put one in a list"
        )
    for index, model in enumerate(models):
        if _linear_form(model) is None and _scorer(model) is None:
            raise InvalidPrior(
                f"prior {index} is a {type(model).__name__}; a prior model must be a weight "
                "vector, a pair of a vector and a bias, a fitted estimator with a decision "
                "function, or a function"
            )


class PriorModels:
    """The prior models of one learner; weight vectors are evaluated together, in one product."""

    # Given, not learned from the first examples (see ``online.Source``).
    n_first = 0

    def __init__(self, models: Sequence[Any], n_features: int, *, intercepts: bool = True) -> None:
        self.n_features = n_features
        self._intercepts = intercepts
        self._others: list[tuple[int, Any]] = []
        self._linear: list[int] = []
        self._W = np.zeros((len(models), n_features))
        self._b = np.zeros(len(models))
        for index, model in enumerate(models):
            form = _linear_form(model)
            if form is None:
                self._others.append((index, model))
                continue
            _require_width(index, len(form[0]), n_features)
            self._linear.append(index)
            self._W[index], self._b[index] = form[0], form[1] if intercepts else 0.0

    def __len__(self) -> int:
        return len(self._b)

    def learned(self, kernel: object, warm_up: object, signs: Array) -> "PriorModels":
        return self

    def restored(self, kernel: object, arrays: dict[str, AnyArray]) -> "PriorModels":
        return self

    def state(self) -> dict[str, AnyArray]:
        return {}

    def scores(self, X: Array) -> Array:
        """One column per model: its scores of the rows of X."""
        columns = np.empty((len(X), len(self)))
        if not columns.size:
            return columns
        if self._linear:
            columns[:, self._linear] = X @ self._W[self._linear].T + self._b[self._linear]
        for index, model in self._others:
            columns[:, index] = self._answers(index, model, X)
        finite = np.isfinite(columns).all(axis=0)
        if not finite.all():
            raise InvalidPrior(
                f"prior {int(np.argmin(finite))} returned NaN or infinity; remove or repair it"
            )
        return columns

    def _answers(self, index: int, model: Any, X: Array) -> Array:
        width = getattr(model, "n_features_in_", None)
        if width is not None:
            _require_width(index, width, X.shape[1])
        values = np.asarray(_scorer(model)(X), dtype=np.float64)
        if values.ndim == 2 and values.shape[1] == 1:
            values = values[:, 0]
        if values.shape != (len(X),):
            raise InvalidPrior(
                f"prior {index} returned an array of shape {values.shape} for {len(X)} rows; a "
                "prior model must return one score per row: of a classifier of many classes use "
                "the detector of one class"
            )
        return values if self._intercepts else values - _intercept(index, model)


def _linear_form(model: Any) -> tuple[Array, float] | None:
    """(w, b) of a weight vector or a pair; None for anything else."""
    bias = 0.0
    if isinstance(model, tuple) and len(model) == 2 and np.ndim(model[1]) == 0:
        model, bias = model[0], float(model[1])
    if not isinstance(model, (np.ndarray, list, tuple)):
        return None
    try:
        weights = np.asarray(model, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    return (weights, bias) if weights.ndim == 1 else None


def _scorer(model: Any) -> Any:
    for name in ("margin", "decision_function"):
        if hasattr(model, name):
            return getattr(model, name)
    return model if callable(model) else None


def _intercept(index: int, model: Any) -> float:
    """The intercept of an estimator's decision function; zero for a plain function."""
    if not hasattr(model, "decision_function"):
        return 0.0
    try:
        return float(np.asarray(model.intercept_, dtype=np.float64).reshape(()))
    except (AttributeError, ValueError):
        raise InvalidPrior(
            f"prior {index} is a {type(model).__name__}, which has no intercept_ to remove; "
            "use prior_intercepts=True, or give it as a function without one"
        ) from None


def _require_width(index: int, width: int, n_features: int) -> None:
    if width != n_features:
        raise InvalidPrior(
            f"prior {index} is for {width} features, the examples have {n_features}; "
            "prior models must have learned from the same features"
        )
