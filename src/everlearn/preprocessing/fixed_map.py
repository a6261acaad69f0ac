"""Stateless transformers: a fixed function of each example.

A learner behind such a transformer keeps all its promises: the coordinates never change, so
examples may come in any order, and merging and forgetting are exact (see
:class:`everlearn.StreamPipeline`).
"""

from functools import partial
from typing import Any, Self

from numpy.typing import ArrayLike
from sklearn.base import TransformerMixin
from sklearn.exceptions import NotFittedError

from everlearn.arrays import AnyArray, Array, State, like
from everlearn.device.backend import table_of
from everlearn.device.device import Device, device_of, mapped
from everlearn.estimator import Promise, StreamingEstimator


class FixedMap(TransformerMixin, StreamingEstimator):
    """Base class of fixed transformers; each defines ``_map``."""

    # Whether every bit of a row is independent of its batch.
    row_by_row = False

    @property
    def promises(self) -> frozenset[Promise]:
        return frozenset(Promise)

    def _map(self, rows: Array) -> Array:
        raise NotImplementedError

    def _map_at(self, device: Device, rows: Any) -> Any:
        """As ``_map``, for float64 rows on a device."""
        raise NotImplementedError

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Set the number of features; nothing is learned."""
        return self._copy_on_write(lambda changed: changed._note(X, reset=True))

    def partial_fit(self, X: ArrayLike, y: Any = None) -> Self:
        """The first call is like ``fit``; later ones only check the number of features."""
        return self._copy_on_write(lambda changed: changed._note(X, reset=not changed._is_begun()))

    def learn_one(self, x: ArrayLike) -> Self:
        """As ``partial_fit``, for one vector."""
        if not self._is_begun():
            return self.partial_fit(self._vector(x, "learn_one")[None])
        self._vector(x, "learn_one")
        return self

    def transform(self, X: ArrayLike) -> Array:
        """The transformed examples, one row each."""
        device = device_of(X)
        if device is None:
            return like(self._map(self._rows(X)), X)
        self._require_fitted()
        rows = table_of(self, X, reset=False)
        return mapped(device, rows, partial(self._map_at, device), width=self._width)

    def transform_one(self, x: ArrayLike) -> Array:
        """One transformed example."""
        self._require_fitted()
        seen: Array = self._map(self._vector(x, "transform_one")[None])[0]
        return like(seen, x)

    def __sklearn_is_fitted__(self) -> bool:
        return self._is_begun()

    def _note(self, X: ArrayLike, *, reset: bool) -> None:
        self._check_parameters()
        if device_of(X) is None:
            self._rows(X, reset=reset)
        else:
            table_of(self, X, reset=reset)

    @property
    def _width(self) -> int:
        """Number of output features."""
        return int(getattr(self, "_n_features_out", self.n_features_in_))

    def _require_fitted(self) -> None:
        if not self._is_begun():
            name = type(self).__name__
            raise NotFittedError(
                f"This {name} instance is not fitted yet: the number of features is not known. "
                "Call fit or partial_fit first."
            )

    def _is_begun(self) -> bool:
        return "n_features_in_" in self.__dict__

    def _begin(self, n_features: int) -> None:
        """Nothing to do: there is no state."""

    def _own_state(self) -> State:
        return {}, {}

    def _own_restore(self, arrays: dict[str, AnyArray], notes: dict[str, Any]) -> None:
        """Nothing to do: there is no state."""


def in_blocks(n_rows: int, size: int) -> list[slice]:
    """Consecutive parts of at most ``size`` rows."""
    return [slice(start, min(start + size, n_rows)) for start in range(0, n_rows, size)]


def signed_power_at(device: Device, rows: Any, power: float) -> Any:
    """As :func:`signed_power`, on a device."""
    if power == 1.0:
        return rows
    size = device.xp.abs(rows)
    raised = device.xp.sqrt(size) if power == 0.5 else size**power
    return device.xp.sign(rows) * raised
