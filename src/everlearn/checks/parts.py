"""Parts of the checks: a stream of examples, requirements, and the list of checks."""

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everlearn.arrays import Array
from everlearn.base import Promise
from everlearn.errors import CannotSave, CheckFailed
from everlearn.persistence import load, save

Check = Callable[[Any, "Stream"], None]

# Scores of two learners that should be the same may differ by this much, relative to their size.
TOLERANCE = 1e-9
FORGET_TOLERANCE = 1e-8

CHECKS: list[Check] = []


class NotApplicable(Exception):
    """The learner makes no promise that this check tests."""


@dataclass(frozen=True)
class Stream:
    """Examples to check with: Gaussian classes in random order, and others to ask about."""

    X: Array
    y: NDArray[Any]
    X_new: Array

    @classmethod
    def generate(cls, seed: int, n_classes: int) -> "Stream":
        rng = np.random.default_rng(seed)
        names = np.array(["cup", "chair", "apple", "lamp"][:n_classes])
        centres = 4.0 * rng.normal(size=(n_classes, 6))
        y = rng.permutation(np.repeat(np.arange(n_classes), 60 // n_classes))
        mixing = np.eye(6) + 0.3 * rng.normal(size=(6, 6))
        X = centres[y] + rng.normal(size=(len(y), 6)) @ mixing
        X_new = centres[y] + rng.normal(size=(len(y), 6)) @ mixing
        return cls(X, names[y], X_new)


def check(function: Check) -> Check:
    CHECKS.append(function)
    return function


def taught(learner: Any, stream: Stream) -> Any:
    return learner.partial_fit(stream.X, stream.y)


def answers(learner: Any, stream: Stream) -> set[Any]:
    return set(learner.predict(stream.X_new).tolist())


def scores(learner: Any, X: Array) -> NDArray[Any]:
    for ask in ("decision_function", "predict_proba", "predict"):
        if hasattr(learner, ask):
            return np.asarray(getattr(learner, ask)(X))
    raise CheckFailed("the learner cannot be asked: it has no predict")


def bad_batches(stream: Stream) -> list[tuple[Any, Any]]:
    X, y = stream.X, stream.y
    holed, huge = X.copy(), X.copy()
    holed[3, 2], huge[3, 2] = np.nan, np.inf
    words: list[Any] = y.tolist()
    return [
        (holed, y),
        (huge, y),
        (X[0], y),
        (X[None], y),
        (X[:0], y[:0]),
        (X[:5], y[:4]),
        (X + 1j, y),
        (np.full(X.shape, "word", dtype=object), y),
        (X, [None, *words[1:]]),
        (X, [float("nan"), *words[1:]]),
        (X, [7, *words[1:]]),
    ]


def require(condition: object, complaint: str) -> None:
    if not condition:
        raise CheckFailed(complaint)


def require_equal(ours: Any, theirs: Any, complaint: str) -> None:
    require(np.array_equal(np.asarray(ours), np.asarray(theirs)), complaint)


def require_same_scores(
    ours: Any, theirs: Any, stream: Stream, complaint: str, tolerance: float = TOLERANCE
) -> None:
    require_equal(ours.classes_, theirs.classes_, complaint)
    a, b = scores(ours, stream.X_new), scores(theirs, stream.X_new)
    if a.dtype.kind not in "fiu":
        require_equal(a, b, complaint)
        return
    gap = float(np.max(np.abs(a - b)) / max(float(np.max(np.abs(b))), 1e-300))
    require(gap <= tolerance, f"{complaint} (scores differ by {gap:.1e}, allowed {tolerance})")


def require_raises(kinds: Any, action: Callable[..., Any], *args: Any, **words: Any) -> None:
    try:
        action(*args, **words)
    except kinds as error:
        require(str(error).strip(), f"{type(error).__name__} has no message")
        return
    raise CheckFailed(f"{action.__name__} accepted what it should have refused")


def need_method(learner: Any, name: str) -> None:
    if not hasattr(learner, name):
        raise NotApplicable(f"there is no {name}")


def need_promise(learner: Any, promise: Promise) -> None:
    if promise not in getattr(learner, "promises", ()):
        raise NotApplicable(f'it does not promise that "{promise}"')


def two_classes_only(learner: Any) -> bool:
    tags = getattr(learner, "__sklearn_tags__", None)
    classifier = tags().classifier_tags if tags else None
    return classifier is not None and not classifier.multi_class


def saved_and_loaded(learner: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "learner.everlearn")
        try:
            save(learner, path)
        except CannotSave as reason:
            raise NotApplicable(str(reason)) from None
        return load(path)
