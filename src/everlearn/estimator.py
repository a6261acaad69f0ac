"""Base class of everything that learns, classifiers and transformers alike.

Locking: teaching and asking take the estimator's lock, so an answer comes from before or after a
change and never from the middle of one.

Copy-on-write: a change is made on a shallow copy, which replaces the state at the end. Attributes
set by validation (number and names of features) are discarded with the copy if the change is
refused.
"""

from collections.abc import Callable
from contextlib import ExitStack
from enum import StrEnum
from threading import RLock
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from everlearn.arrays import AnyArray, Array, State
from everlearn.errors import NotMergeable, OtherFeatures, WrongWidth
from everlearn.statistics.validated import validated_flag, validated_integer, validated_strings
from everlearn.validation import checked_rows, checked_vector

# A file that claims more features than this would only exhaust memory.
MOST_FEATURES = 10_000_000


class Promise(StrEnum):
    """Optional guarantees of a learner; ``check_learner`` tests those that are made."""

    BATCH_IS_LOOP = "a batch teaches the same as its rows one by one"
    ANY_ORDER = "the order of the examples does not matter"
    MERGE = "merging two learners equals one learner taught both streams"
    FORGET = "forgetting an example equals never having learned it"
    FORGET_CLASS = "forgetting a class equals never having learned it"
    BOUNDED_MEMORY = "memory does not grow with the number of examples"


EXACT = frozenset(Promise) - {Promise.BOUNDED_MEMORY}
BOUNDED = frozenset({Promise.BOUNDED_MEMORY})


class StreamingEstimator(BaseEstimator):
    """Base class: validates first, and changes nothing on an error."""

    n_features_in_: int
    _lock: RLock
    # Old constructor arguments and their current names; None if they were removed.
    _renamed_parameters: ClassVar[dict[str, str | None]] = {}

    def __new__(cls, *args: Any, **parameters: Any) -> Self:
        estimator = super().__new__(cls)
        estimator._lock = RLock()
        return estimator

    @staticmethod
    def _converted_parameter(name: str, value: Any) -> Any:
        """Convert a value given under the old name of a parameter."""
        return value

    @property
    def promises(self) -> frozenset[Promise]:
        """The guarantees of this estimator, with these parameters, beyond the contract."""
        return frozenset()

    # Hooks.

    def _check_parameters(self) -> None:
        """Raise ``InvalidParameter`` for a constructor argument out of range."""

    def _is_begun(self) -> bool:
        """Whether there is any state, even of a learner that has forgotten everything."""
        raise NotImplementedError

    def _begin(self, n_features: int) -> None:
        """Empty state."""
        raise NotImplementedError

    def _require_fitted(self) -> None:
        raise NotImplementedError

    def _own_state(self) -> State:
        """Everything learned, as named arrays and notes made of plain values."""
        raise NotImplementedError

    def _own_restore(self, arrays: dict[str, AnyArray], notes: dict[str, Any]) -> None:
        """Restore from the result of :meth:`_own_state`; ``_begin`` was called before."""
        raise NotImplementedError

    # Locking and copy-on-write.

    def _shallow_copy(self) -> Self:
        """A shallow copy to make a change on."""
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        return copy

    def _copy_on_write(self, change: Callable[[Self], None]) -> Self:
        """Apply a change to a copy and replace the state; an error leaves it unchanged."""
        with self._lock:
            copy = self._shallow_copy()
            change(copy)
            self.__dict__.update(copy.__dict__)
            for name in self.__dict__.keys() - copy.__dict__.keys():
                del self.__dict__[name]
        return self

    def _locks_with(self, other: "StreamingEstimator") -> ExitStack:
        """The locks of both, always taken in the same order to avoid deadlocks."""
        locks = ExitStack()
        for estimator in sorted((self, other), key=id):
            locks.enter_context(estimator._lock)
        return locks

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        state.pop("_lock", None)  # a copy has its own lock
        return state

    # Validation.

    def _rows(
        self,
        X: ArrayLike,
        *,
        reset: bool | None = None,
        missing: bool = False,
        single: bool = False,
    ) -> Array:
        """Validated rows with the expected features, or setting them (``reset``).

        float64 or, with ``single``, float32 if the input is.
        """
        if reset is None:
            self._require_fitted()
        rows = checked_rows(X, missing=missing, single=single)
        if reset:
            self.n_features_in_ = rows.shape[1]
        else:
            self._require_width(rows.shape[1])
        if hasattr(X, "columns") or "feature_names_in_" in self.__dict__:
            self._compare_feature_names(X, bool(reset))
        return rows

    def _vector(self, x: ArrayLike, method: str) -> Array:
        return checked_vector(x, method, self.__dict__.get("n_features_in_"))

    def _require_width(self, width: int) -> None:
        if width != self.n_features_in_:
            raise WrongWidth(
                f"X has {width} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input; give the features it was taught"
            )

    def _compare_feature_names(self, X: ArrayLike, reset: bool) -> None:
        """Apply scikit-learn's feature-name checks."""
        try:
            validate_data(self, X, reset=reset, skip_check_array=True)
        except (ValueError, TypeError) as error:
            raise OtherFeatures(str(error)) from None

    def _require_same_parameters(self, other: "StreamingEstimator") -> None:
        theirs = other.get_params(deep=False)
        for name, ours in self.get_params(deep=False).items():
            if not np.array_equal(ours, theirs[name]):
                raise NotMergeable(
                    f"{name} differs: {ours!r} here, {theirs[name]!r} there; "
                    "learners must have the same parameters to be merged"
                )

    # The interface persistence needs.

    def _state(self) -> State:
        """The state at one moment: own arrays, and notes of plain values."""
        with self._lock:
            if not self._is_begun():
                return {}, {"taught": False}
            arrays, notes = self._own_state()
            names = getattr(self, "feature_names_in_", None)
            return {key: np.array(value) for key, value in arrays.items()}, notes | {
                "taught": True,
                "n_features": self.n_features_in_,
                "feature_names": None if names is None else [str(name) for name in names],
            }

    def _restore(self, arrays: dict[str, AnyArray], notes: dict[str, Any]) -> None:
        """Restore from the result of :meth:`_state`."""
        self._check_parameters()
        if not validated_flag(notes, "taught"):
            return
        self.n_features_in_ = validated_integer(notes, "n_features", least=1, most=MOST_FEATURES)
        if notes.get("feature_names") is not None:
            names = validated_strings(notes, "feature_names", self.n_features_in_)
            self.feature_names_in_ = np.array(names, dtype=object)
        self._begin(self.n_features_in_)
        self._own_restore(arrays, notes)
