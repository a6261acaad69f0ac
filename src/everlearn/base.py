"""The contract of a learner, and what every learner does the same way.

A learner is a scikit-learn classifier that can be taught at any time. This file validates input,
keeps the labels, and turns scores into answers; a learner itself supplies a handful of hooks that
speak of slots and plain arrays:

    _begin(n_features)               empty state
    _learn(X, slots, weights)        a block of examples        _learn_one(x, slot)
    _scores(X)                       one column per slot        _scores_one(x)
    _forget, _forget_class, _merge   where they are exact
    _own_state, _own_restore         the state as named arrays and plain notes

The order is always: validate everything, then change state. A rejected input leaves the learner
as it was.
"""

from collections.abc import Callable, Iterable
from enum import StrEnum
from math import isfinite
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg.blas import ddot
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import column_or_1d, validate_data

from everlearn.errors import (
    InvalidInput,
    InvalidLabel,
    InvalidWeight,
    NotFinite,
    NotForgettable,
    NotMergeable,
    WrongKind,
    WrongShape,
    WrongWidth,
)
from everlearn.statistics.labels import Label, Labels

Array = NDArray[np.float64]
Slots = NDArray[np.intp]
State = tuple[dict[str, NDArray[Any]], dict[str, Any]]


class Promise(StrEnum):
    """What a learner may promise beyond the contract; ``check_learner`` tests what is promised."""

    BATCH_IS_LOOP = "a batch teaches the same as its rows one by one"
    ANY_ORDER = "the order of the examples does not matter"
    MERGE = "merging two learners equals one learner taught both streams"
    FORGET = "forgetting an example equals never having learned it"
    FORGET_CLASS = "forgetting a class equals never having learned it"


EXACT = frozenset(Promise)


class StreamingEstimator(BaseEstimator):  # type: ignore[misc]
    """What everything that is taught shares: validation first, and no change on an error."""

    n_features_in_: int

    def _require_fitted(self) -> None:
        raise NotImplementedError

    def _require_same_parameters(self, other: "StreamingEstimator") -> None:
        theirs = other.get_params(deep=False)
        for name, ours in self.get_params(deep=False).items():
            if not np.array_equal(ours, theirs[name]):
                raise NotMergeable(
                    f"{name} differs: {ours!r} here, {theirs[name]!r} there; "
                    "learners must have the same parameters to be merged"
                )

    def _unchanged_on_error(self, change: Callable[[], None]) -> Self:
        """Run a change that validates first; undo what validation itself noted if it fails."""
        before = dict(self.__dict__)
        try:
            change()
        except Exception:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        return self

    def _rows(self, X: ArrayLike, *, reset: bool | None = None, missing: bool = False) -> Array:
        if reset is None:
            self._require_fitted()
        try:
            rows: Array = validate_data(
                self,
                X,
                reset=bool(reset),
                dtype=np.float64,
                order="C",
                estimator=self,
                ensure_all_finite="allow-nan" if missing else True,
            )
        except (ValueError, TypeError) as error:
            raise _named(error) from None
        if not _squares_are_finite((np.nan_to_num(rows) if missing else rows).ravel()):
            raise NotFinite("Input X is too large: its squares overflow; scale the features")
        return rows

    def _vector(self, x: ArrayLike, method: str) -> Array:
        if not (type(x) is np.ndarray and x.dtype == np.float64 and x.flags.c_contiguous):
            x = _as_vector(x, method)
        if x.ndim != 1:
            raise WrongShape(
                f"{method} takes one vector, got an array of shape {x.shape}; "
                "use partial_fit or predict for several rows"
            )
        width = getattr(self, "n_features_in_", None)
        if width is not None and len(x) != width:
            raise WrongWidth(f"{method} got {len(x)} features, this learner was taught {width}")
        if not _squares_are_finite(x):
            raise NotFinite(f"{method} got NaN, infinity or numbers whose squares overflow")
        return x


class StreamingClassifier(ClassifierMixin, StreamingEstimator):  # type: ignore[misc]
    """A classifier that learns one example, or many, at any time."""

    labels_: Labels
    n_features_in_: int

    @property
    def promises(self) -> frozenset[Promise]:
        """What this learner, with these parameters, promises beyond the contract."""
        return frozenset()

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Forget everything, then learn from these examples.

        Parameters
        ----------
        X : array-like of shape (n_examples, n_features)
        y : array-like of shape (n_examples,)
            Words or whole numbers.
        sample_weight : array-like of shape (n_examples,), optional
        """
        return self._unchanged_on_error(lambda: self._learn_batch(X, y, sample_weight, fresh=True))

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: Iterable[Label] | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn from more examples; any labels, new ones included.

        Parameters
        ----------
        X : array-like of shape (n_examples, n_features)
        y : array-like of shape (n_examples,)
        classes : iterable of labels, optional
            Accepted because scikit-learn's callers pass it. It is not needed: a class exists from
            its first example on, and never before.
        sample_weight : array-like of shape (n_examples,), optional
        """
        fresh = not hasattr(self, "labels_")
        return self._unchanged_on_error(lambda: self._learn_batch(X, y, sample_weight, fresh=fresh))

    def learn_one(self, x: ArrayLike, y: Label) -> Self:
        """Learn one example; the fast path, without scikit-learn's validation."""
        vector = self._vector(x, "learn_one")
        if not hasattr(self, "labels_"):
            return self.partial_fit(vector[None], [y])
        slot = self.labels_.find(y)
        if slot is None:
            slots, new = self.labels_.encode([y])
            self._learn_one(vector, int(slots[0]))
            self.labels_.extend(new)
        else:
            self._learn_one(vector, slot)
        return self

    def forget(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Unlearn examples: afterwards the learner is as if it had never been taught them.

        Raises ``NeverLearned``, and changes nothing, where the statistics show that the examples
        were not learned; a learner that keeps no examples cannot notice every such mistake.
        """
        self._require_fitted()
        rows, labels, weights = self._examples(X, y, sample_weight, reset=False)
        slots = self.labels_.slots(labels)
        self.labels_.release(self._forget(rows, slots, weights))
        return self

    def forget_class(self, label: Label) -> Self:
        """Unlearn a whole class by its name."""
        self._require_fitted()
        slot = self.labels_.slot(label)
        self._forget_class(slot)
        self.labels_.release([slot])
        return self

    def merge(self, other: "StreamingClassifier") -> Self:
        """Learn everything that another learner of the same kind has learned."""
        if type(other) is not type(self):
            raise NotMergeable(
                f"a {type(self).__name__} can only be merged with its own kind, "
                f"not with a {type(other).__name__}"
            )
        self._require_same_parameters(other)
        if other is self:
            raise NotMergeable("a learner cannot be merged with itself; merge a copy if it must be")
        if not hasattr(other, "labels_") or not len(other.labels_):
            return self
        if hasattr(self, "labels_") and self.n_features_in_ != other.n_features_in_:
            raise NotMergeable(
                f"this learner was taught {self.n_features_in_} features, "
                f"the other {other.n_features_in_}"
            )
        return self._unchanged_on_error(lambda: self._merge_in(other))

    def decision_function(self, X: ArrayLike) -> Array:
        """Scores, one column per class in the order of ``classes_``; higher is more likely.

        With two classes a single column, positive for the second, as scikit-learn has it.
        """
        scores = self._sorted_scores(self._rows(X))
        if scores.shape[1] == 2:
            difference: Array = scores[:, 1] - scores[:, 0]
            return difference
        return scores

    def predict(self, X: ArrayLike, *, among: Iterable[Label] | None = None) -> NDArray[Any]:
        """The most likely class of each row.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
        among : iterable of labels, optional
            Consider only these classes, for instance those of the task at hand.
        """
        scores = self._sorted_scores(self._rows(X))
        answers: NDArray[Any] = self.classes_[self._masked(scores, among).argmax(axis=1)]
        return answers

    def predict_proba(self, X: ArrayLike, *, among: Iterable[Label] | None = None) -> Array:
        """Probabilities, one column per class in the order of ``classes_``."""
        scores = self._sorted_scores(self._rows(X))
        return _softmax(self._masked(scores, among) / self._temperature())

    def predict_one(self, x: ArrayLike, *, among: Iterable[Label] | None = None) -> Label:
        """The most likely class of one vector; the fast path."""
        self._require_fitted()
        scores = self._scores_one(self._vector(x, "predict_one"))
        labels = self.labels_
        if among is not None:
            allowed = self._candidates(among)
            return self._label_at(int(allowed[_first_best(scores[allowed], labels.rank[allowed])]))
        if labels.has_gaps:
            scores = np.where(labels.rank < labels.n_slots, scores, -np.inf)
        return self._label_at(_first_best(scores, labels.rank))

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes known, sorted."""
        if not hasattr(self, "labels_"):
            raise AttributeError(f"{type(self).__name__} has no classes_ before it is taught")
        return self.labels_.classes

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "labels_") and len(self.labels_) > 0

    # Hooks.

    def _check_parameters(self) -> None:
        """Raise ``InvalidParameter`` for a constructor argument out of range."""

    def _begin(self, n_features: int) -> None:
        raise NotImplementedError

    def _welcome(self, known: Labels, new: list[Label]) -> None:
        """Labels are about to be learned, some of them new; raise to refuse them."""

    def _learn(self, X: Array, slots: Slots, weights: Array | None) -> None:
        raise NotImplementedError

    def _learn_one(self, x: Array, slot: int) -> None:
        self._learn(x[None].copy(), np.array([slot], dtype=np.intp), None)

    def _forget(self, X: Array, slots: Slots, weights: Array | None) -> Iterable[int]:
        """Unlearn examples; returns the slots of classes of which nothing is left."""
        raise NotForgettable(f"{type(self).__name__} does not keep what exact forgetting needs")

    def _forget_class(self, slot: int) -> None:
        raise NotForgettable(f"{type(self).__name__} does not keep what exact forgetting needs")

    def _merge(self, other: Any, slots: Slots) -> None:
        """Add another learner's state; its slot i is our slot ``slots[i]``."""
        raise NotMergeable(f"two {type(self).__name__} learners have no exact sum")

    def _scores(self, X: Array) -> Array:
        raise NotImplementedError

    def _scores_one(self, x: Array) -> Array:
        scores: Array = self._scores(x[None])[0]
        return scores

    def _temperature(self) -> float:
        """By what scores are divided to make them differences of log-probabilities."""
        return 1.0

    def _own_state(self) -> State:
        raise NotImplementedError

    def _own_restore(self, arrays: dict[str, NDArray[Any]], notes: dict[str, Any]) -> None:
        """Take over what :meth:`_own_state` gave; ``_begin`` was called before."""
        raise NotImplementedError

    # What persistence asks of anything it saves.

    def _state(self) -> State:
        """Everything learned, as named arrays and notes made of plain values."""
        if not hasattr(self, "labels_"):
            return {}, {"taught": False}
        arrays, notes = self._own_state()
        names = getattr(self, "feature_names_in_", None)
        return arrays, notes | {
            "taught": True,
            "labels": list(self.labels_.by_slot),
            "n_features": self.n_features_in_,
            "feature_names": None if names is None else [str(name) for name in names],
        }

    def _restore(self, arrays: dict[str, NDArray[Any]], notes: dict[str, Any]) -> None:
        """Take over what :meth:`_state` gave."""
        if not notes["taught"]:
            return
        self.n_features_in_ = int(notes["n_features"])
        if notes["feature_names"] is not None:
            self.feature_names_in_ = np.array(notes["feature_names"], dtype=object)
        self.labels_ = Labels(notes["labels"])
        self._begin(self.n_features_in_)
        self._own_restore(arrays, notes)

    # Validation.

    def _learn_batch(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None, *, fresh: bool
    ) -> None:
        self._check_parameters()
        rows, labels, weights = self._examples(X, y, sample_weight, reset=fresh)
        registry = Labels() if fresh else self.labels_
        slots, new = registry.encode(labels)
        if fresh:
            self._begin(rows.shape[1])
        self._welcome(registry, new)
        self._learn(rows, slots, weights)
        registry.extend(new)
        self.labels_ = registry

    def _merge_in(self, other: "StreamingClassifier") -> None:
        registry = self.labels_ if hasattr(self, "labels_") else Labels()
        known = [label for label in other.labels_.by_slot if label is not None]
        slots, new = registry.encode(known)
        by_slot = np.full(other.labels_.n_slots, -1, dtype=np.intp)
        by_slot[[label is not None for label in other.labels_.by_slot]] = slots
        if not hasattr(self, "labels_"):
            self._begin(other.n_features_in_)
            self.n_features_in_ = other.n_features_in_
        self._welcome(registry, new)
        self._merge(other, by_slot)
        registry.extend(new)
        self.labels_ = registry

    def _examples(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None, *, reset: bool
    ) -> tuple[Array, NDArray[Any], Array | None]:
        rows = self._rows(X, reset=reset)
        if y is None:
            raise InvalidLabel(
                f"{type(self).__name__} requires y to be passed, but the target y is None"
            )
        labels = _column(y)
        if len(labels) != len(rows):
            raise WrongShape(f"X has {len(rows)} rows but y has {len(labels)} labels")
        if sample_weight is None:
            return rows, labels, None
        weights = checked_weights(sample_weight, len(rows))
        # A weight of zero means the example is not there; it must not bring a class into being.
        counted = weights > 0
        return rows[counted], labels[counted], weights[counted]

    def _require_fitted(self) -> None:
        if not (hasattr(self, "labels_") and len(self.labels_)):
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet: it was taught nothing, or "
                "has forgotten everything. Call partial_fit or learn_one first."
            )

    def _sorted_scores(self, rows: Array) -> Array:
        scores: Array = self._scores(rows)[:, self.labels_.order]
        return scores

    def _masked(self, scores: Array, among: Iterable[Label] | None) -> Array:
        if among is None:
            return scores
        columns = self.labels_.rank[self._candidates(among)]
        masked = np.full_like(scores, -np.inf)
        masked[:, columns] = scores[:, columns]
        return masked

    def _candidates(self, among: Iterable[Label]) -> Slots:
        slots = self.labels_.slots(among)
        if not len(slots):
            raise InvalidInput("among names no class; give at least one, or leave it out")
        return slots

    def _label_at(self, slot: int) -> Label:
        label = self.labels_.by_slot[slot]
        assert label is not None
        return label


def _squares_are_finite(x: Array) -> bool:
    # BLAS rather than numpy: overflow is what is asked about here, not something to warn of.
    return isfinite(ddot(x, x))


def _first_best(scores: Array, rank: NDArray[np.intp]) -> int:
    """Where the highest score is; among equals, the class that sorts first."""
    best = int(scores.argmax())
    equal = np.flatnonzero(scores == scores[best])
    return best if len(equal) == 1 else int(equal[rank[equal].argmin()])


def _softmax(scores: Array) -> Array:
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    probabilities: Array = weights / weights.sum(axis=1, keepdims=True)
    return probabilities


def _named(error: Exception) -> InvalidInput:
    """Scikit-learn's complaint about an array under the name of its cause."""
    text = str(error)
    if "NaN" in text or "infinity" in text:
        return NotFinite(text)
    if "features, but" in text:
        return WrongWidth(f"{text}; give the features this learner was taught")
    if isinstance(error, TypeError) or "omplex" in text or "could not convert" in text:
        return WrongKind(f"{text}; features must be plain real numbers in a dense array")
    if "sample(s)" in text or "feature(s)" in text or "array" in text:
        return WrongShape(text)
    return InvalidInput(text)


def _column(y: ArrayLike) -> NDArray[Any]:
    """``y`` as one column, without turning the number 1 into the word "1"."""
    if not hasattr(y, "__array__") and not hasattr(y, "__len__"):
        raise WrongShape(f"y should be a 1d array of labels, got {y!r}")
    if isinstance(y, (list, tuple)) and not any(isinstance(v, (list, tuple)) for v in y):
        column = np.empty(len(y), dtype=object)
        column[:] = y
        return column
    try:
        return np.asarray(column_or_1d(y, warn=True))
    except ValueError as error:
        raise WrongShape(f"{error}; y needs one label per row of X") from None


def checked_weights(sample_weight: ArrayLike, n_rows: int) -> Array:
    """One weight per row, none of them negative and not all of them zero."""
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.ndim == 0:
        weights = np.full(n_rows, float(weights))
    if weights.ndim != 1 or len(weights) != n_rows:
        raise WrongShape(
            f"sample_weight has shape {weights.shape}, expected ({n_rows},): one weight per row"
        )
    if not np.all(np.isfinite(weights)):
        raise NotFinite("sample_weight contains NaN or infinity")
    if np.any(weights < 0):
        raise InvalidWeight(
            f"sample_weight holds {weights.min()}; weights cannot be negative, "
            "use forget to take examples back"
        )
    if not np.any(weights > 0):
        raise InvalidWeight("all sample weights are zero, so there is nothing to learn")
    return weights


def _as_vector(x: ArrayLike, method: str) -> Array:
    values = np.asarray(x)
    if values.dtype.kind not in "iubf":
        raise WrongKind(f"{method} got {values.dtype} values; features must be plain real numbers")
    return np.ascontiguousarray(values, dtype=np.float64)
