"""Standardization by the mean and deviation of the first examples.

    x ↦ (x − m) / max(s, floor · rms(s))

m and s are estimated once, from the first batch: later examples share the coordinates of earlier
ones, so they must not change. The floor keeps a feature that hardly varied among the first classes
from dominating all others when it varies among later ones.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.exceptions import NotFittedError

from everlearn.arrays import Array, Single, State, as_numpy, like
from everlearn.device.backend import table_of
from everlearn.device.device import Device, Incoming, device_of, mapped
from everlearn.estimator import BOUNDED, Promise, StreamingEstimator
from everlearn.statistics.validated import validated_array
from everlearn.validation import checked_weights

# Lower bound of a deviation, as a share of the root mean square deviation.
FLOOR = 0.1
# Whitened values are clipped here, so that their squares stay finite in float32.
LARGEST = 1e9
# Rows at a time, so that temporary arrays stay in the processor's cache.
BLOCK_ROWS = 64


@dataclass(frozen=True)
class Whitening:
    """A shift and a scale per feature; the result is float32."""

    mean: Array
    scale: Array

    @classmethod
    def of(cls, X: Array, weights: Array | None) -> Self:
        """The whitening fitted to these examples."""
        total = float(len(X)) if weights is None else float(weights.sum())
        mean, variance = np.zeros(X.shape[1]), np.zeros(X.shape[1])
        for part in blocks(len(X)):
            share = np.ones(len(X[part])) if weights is None else weights[part]
            mean += share @ X[part] / total
        for part in blocks(len(X)):
            share = np.ones(len(X[part])) if weights is None else weights[part]
            variance += share @ (X[part] - mean) ** 2 / total
        return cls.from_variance(mean, variance)

    @classmethod
    def at(cls, device: Device, X: Any, weights: Array | None) -> Self:
        """The whitening fitted to examples on a device; raises ``NotFinite``."""
        n_rows, width = (int(size) for size in X.shape)
        total = float(n_rows) if weights is None else float(weights.sum())
        with device.computing():
            share = device.array((np.ones(n_rows) if weights is None else weights) / total)
            mean, variance = device.zeros(width), device.zeros(width)
            incoming = Incoming(device, X, width=width)
            for rows, part in incoming.numbered():
                mean = mean + share[part] @ rows
            incoming.require_finite()
            for rows, part in incoming.numbered():
                apart = rows - mean
                variance = variance + share[part] @ (apart * apart)
            return cls.from_variance(as_numpy(mean), as_numpy(variance).copy())

    @classmethod
    def from_variance(cls, mean: Array, variance: Array) -> Self:
        """The whitening of features with this mean and variance, which is overwritten."""
        # The rounding error of a constant is not a deviation.
        variance[variance <= (1e-12 * np.abs(mean)) ** 2] = 0.0
        floor = FLOOR * np.sqrt(variance.mean())
        deviation = np.maximum(np.sqrt(variance), floor if floor > 0 else 1.0)
        return cls(mean, deviation)

    @classmethod
    def none(cls, n_features: int) -> Self:
        """The identity."""
        return cls(np.zeros(n_features), np.ones(n_features))

    def __call__(self, X: Array, rows: NDArray[Any] | None = None) -> Single:
        """Whitened features of all rows, or of the given ones."""
        n_rows = len(X) if rows is None else len(rows)
        whitened = np.empty((n_rows, X.shape[1]), np.float32)
        for part in blocks(n_rows):
            centred = X[part if rows is None else rows[part]] - self.mean
            centred /= self.scale
            np.clip(centred, -LARGEST, LARGEST, out=whitened[part], casting="same_kind")
        return whitened


def blocks(n_rows: int, size: int = BLOCK_ROWS) -> Iterator[slice]:
    """Consecutive parts of at most ``size`` rows."""
    for start in range(0, n_rows, size):
        yield slice(start, min(start + size, n_rows))


class InitialWhitening(
    OneToOneFeatureMixin,
    TransformerMixin,
    StreamingEstimator,
):
    """Standardise features to mean zero and deviation one by the first batch.

    Later batches change nothing, so that a learner behind it in a
    :class:`everlearn.StreamPipeline` works in a fixed space. Give the first classes in one batch.
    Forests do this on their own.

    Attributes
    ----------
    mean_, scale_ : ndarray of shape (n_features,)
        Subtracted from each feature, and its divisor.
    n_features_in_ : int

    See Also
    --------
    StreamingScaler : Keeps adapting to the stream.

    Notes
    -----
    A feature whose deviation is less than a tenth of the root mean square deviation is divided by
    that tenth; if no feature varies, all are divided by one. Values are clipped at ±10⁹.

    *Cost*: O(d) per row.

    *Promises*: the map is fixed after the first batch, so a learner behind it keeps its own
    promises from then on.

    References
    ----------
    Ristin, Guillaumin, Gall, Van Gool. Incremental Learning of Random Forests for Large-Scale
    Image Classification. PAMI 2015. (Sec. 5.1.2)

    Examples
    --------
    >>> from everlearn import InitialWhitening, NearestClassMean, StreamPipeline
    >>> learner = StreamPipeline([("whiten", InitialWhitening()), ("learn", NearestClassMean())])
    >>> learner.partial_fit([[0.0, 500.0], [1.0, 500.1]], ["cup", "chair"]).predict_one([1, 500.1])
    'chair'
    """

    mean_: Array
    scale_: Array

    def __init__(self) -> None:
        """There are no parameters."""

    @property
    def promises(self) -> frozenset[Promise]:
        return BOUNDED

    def fit(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Estimate mean and deviation from these examples."""
        return self._copy_on_write(lambda changed: changed._take(X, sample_weight))

    def partial_fit(
        self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """The first call is like ``fit``; later ones change nothing."""
        if not self.__sklearn_is_fitted__():
            return self.fit(X, y, sample_weight)
        on_device = device_of(X) is not None
        rows = table_of(self, X, reset=False) if on_device else self._rows(X, reset=False)
        if sample_weight is not None:
            checked_weights(sample_weight, int(rows.shape[0]))
        return self

    def transform(self, X: ArrayLike) -> Array:
        """Whitened examples."""
        device = device_of(X)
        if device is not None:
            self._require_fitted()
            rows = table_of(self, X, reset=False)
            return mapped(device, rows, partial(self._map_at, device), width=self.n_features_in_)
        centred: Array = (self._rows(X) - self.mean_) / self.scale_
        return like(np.clip(centred, -LARGEST, LARGEST, out=centred), X)

    def _map_at(self, device: Device, rows: Any) -> Any:
        """Whitened float64 rows on a device."""
        mean, scale = device.array(self.mean_), device.array(self.scale_)
        return device.xp.clip((rows - mean) / scale, -LARGEST, LARGEST)

    def inverse_transform(self, X: ArrayLike) -> Array:
        """Examples from whitened ones."""
        device = device_of(X)
        if device is not None:
            self._require_fitted()

            def coloured(rows: Any) -> Any:
                return rows * device.array(self.scale_) + device.array(self.mean_)

            table = table_of(self, X, reset=False)
            return mapped(device, table, coloured, width=self.n_features_in_)
        rows: Array = self._rows(X) * self.scale_ + self.mean_
        return like(rows, X)

    def __sklearn_is_fitted__(self) -> bool:
        return self._is_begun()

    def _take(self, X: ArrayLike, sample_weight: ArrayLike | None) -> None:
        device = device_of(X)
        rows = self._rows(X, reset=True) if device is None else table_of(self, X, reset=True)
        n_rows = int(rows.shape[0])
        weights = None if sample_weight is None else checked_weights(sample_weight, n_rows)
        if device is None:
            whitening = Whitening.of(rows, weights)
        else:
            whitening = Whitening.at(device, rows, weights)
        self.mean_, self.scale_ = whitening.mean, whitening.scale

    def _require_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(
                "This InitialWhitening instance is not fitted yet: it has seen nothing. "
                "Call partial_fit first."
            )

    def _is_begun(self) -> bool:
        return "mean_" in self.__dict__

    def _begin(self, n_features: int) -> None:
        """Nothing to do before the first batch."""

    def _own_state(self) -> State:
        return {"mean": self.mean_, "scale": self.scale_}, {}

    def _own_restore(self, arrays: dict[str, NDArray[Any]], notes: dict[str, Any]) -> None:
        self.mean_ = validated_array(arrays, "mean", self.n_features_in_)
        self.scale_ = validated_array(
            arrays, "scale", self.n_features_in_, least=np.finfo(float).tiny
        )
