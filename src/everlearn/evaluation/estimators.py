"""Adapters: one interface for estimators of everlearn, scikit-learn and River.

    everlearn        learn_one(x, y), predict_one(x); new classes at any time
    scikit-learn     partial_fit(X, y, classes=…), predict(X); the classes are declared at first
    River            learn_one(dict, y), predict_one(dict)

Scikit-learn's estimators need every class up front and get them. Learners that meet new classes
later have no such advantage, which matters when results are compared.
"""

import contextlib
import copy
import inspect
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from everlearn.base import StreamingClassifier
from everlearn.errors import NotStreaming


class Adapter(Protocol):
    """The interface the protocols use."""

    def learn(self, X: NDArray[Any], y: NDArray[Any]) -> None: ...
    def learn_one(self, x: NDArray[Any], y: Any) -> Any: ...
    def predict(self, X: NDArray[Any]) -> NDArray[Any]: ...
    def predict_one(self, x: NDArray[Any]) -> Any: ...


def adapted(estimator: Any, classes: Sequence[Any]) -> Adapter:
    """Wrap an estimator; ``classes`` is passed to those that need it in advance."""
    one = hasattr(estimator, "learn_one") and hasattr(estimator, "predict_one")
    many = hasattr(estimator, "partial_fit") and hasattr(estimator, "predict")
    if one and many:
        return _EverlearnAdapter(estimator)
    if many:
        return _ScikitLearnAdapter(estimator, classes)
    if one:
        return _RiverAdapter(estimator)
    raise NotStreaming(
        f"{type(estimator).__name__} cannot learn incrementally; it needs partial_fit and predict "
        "(scikit-learn), or learn_one and predict_one (River)"
    )


def warm_up(estimator: Any, X: NDArray[Any], y: NDArray[Any]) -> None:
    """Let a copy learn and answer, so that compilation at first use is not timed."""
    if not isinstance(estimator, StreamingClassifier):
        return
    twin = copy.deepcopy(estimator)
    # Examples that it rejects are rejected and counted again in the run itself.
    with contextlib.suppress(ValueError):
        for x, label in zip(X, y.tolist(), strict=True):
            twin.learn_one(x, label)
            twin.predict_one(x)


class _EverlearnAdapter:
    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator
        self.learn_one = estimator.learn_one
        self.predict_one = estimator.predict_one
        self.predict = estimator.predict

    def learn(self, X: NDArray[Any], y: NDArray[Any]) -> None:
        self.estimator.partial_fit(X, y)


class _ScikitLearnAdapter:
    def __init__(self, estimator: Any, classes: Sequence[Any]) -> None:
        self.estimator = estimator
        self.predict = estimator.predict
        takes_classes = "classes" in inspect.signature(estimator.partial_fit).parameters
        self._declared = {"classes": np.unique(np.asarray(classes))} if takes_classes else {}

    def learn(self, X: NDArray[Any], y: NDArray[Any]) -> None:
        self.estimator.partial_fit(X, y, **self._declared)

    def learn_one(self, x: NDArray[Any], y: Any) -> None:
        self.learn(x[None], np.array([y]))

    def predict_one(self, x: NDArray[Any]) -> Any:
        return self.predict(x[None])[0]


class _RiverAdapter:
    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def learn(self, X: NDArray[Any], y: NDArray[Any]) -> None:
        for x, label in zip(X, y.tolist(), strict=True):
            self.learn_one(x, label)

    def learn_one(self, x: NDArray[Any], y: Any) -> None:
        self.estimator.learn_one(_as_dict(x), y)

    def predict(self, X: NDArray[Any]) -> NDArray[Any]:
        answers = np.empty(len(X), dtype=object)
        answers[:] = [self.predict_one(x) for x in X]
        return answers

    def predict_one(self, x: NDArray[Any]) -> Any:
        return self.estimator.predict_one(_as_dict(x))


def _as_dict(x: NDArray[Any]) -> dict[int, float]:
    return dict(enumerate(x.tolist()))
