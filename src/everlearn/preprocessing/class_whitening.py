"""Whitening by the within-class covariance of base classes, for later classes.

    z = (ε I + (1 − ε) W / ν)^(−½) (x − m),    z / ‖z‖

W is the covariance within the classes of the first batch, ν its mean variance tr(W) / d, m the mean
of all its examples. Variation within classes (light, pose, background) is similar for later
classes: one example of a new class says little, but the variation of the others shows which
differences do not matter. Directions are weighted and none is dropped: those that separate the
first classes need not separate others, and projecting onto them loses more than it gains
(docs/quality.md).

Cost: O(n d² + d³) once, O(d²) per example. Memory is d² numbers.
"""

from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.exceptions import NotFittedError

from everlearn.arrays import Array, State, as_numpy, like, unit_rows
from everlearn.device.backend import table_of
from everlearn.device.device import Device, device_of, mapped, unit_rows_at
from everlearn.estimator import BOUNDED, Promise, StreamingEstimator
from everlearn.statistics.definite import spectrum
from everlearn.statistics.labels import Labels
from everlearn.statistics.moments import Moments
from everlearn.statistics.validated import validated_array
from everlearn.validation import checked_labelled, require_number


class ClassWhitening(
    OneToOneFeatureMixin,
    TransformerMixin,
    StreamingEstimator,
):
    """Whiten by the variation within the classes of the first batch, then normalise to length one.

    Later batches change nothing, so that a learner behind it works in a fixed space. Give the first
    classes in one batch: dozens of them, with dozens of examples each.

    Parameters
    ----------
    shrinkage : float in (0, 1], default=0.75
        ε, the share of equal variances; 1 only subtracts the mean.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
    matrix_ : ndarray of shape (n_features, n_features)
        Matrix by which centred examples are multiplied.
    n_features_in_ : int

    See Also
    --------
    InitialWhitening : Each feature separately, without labels.
    PowerNormalizer : Use it first if features come from a network.
    StreamingLDA : Uses the within-class covariance of the classes it answers about.

    Notes
    -----
    Useful for new classes with one to five examples, beside others that are well known. Fitted on
    the same classes it gains nothing.

    *Cost*: O(d²) per row, and O(n d² + d³) for the first batch.

    *Promises*: the map is fixed after the first batch, independent of the order within it; a
    learner behind it keeps its own promises from then on. In a ``StreamPipeline``, where the
    transformer has learned from the same examples, forgetting and merging are refused: fit it
    before, and train the learner on the result of ``transform``.

    Examples
    --------
    >>> from everlearn import ClassWhitening
    >>> X, y = [[0.0, -9], [0, 9], [1, -9], [1, 9]], ["cup", "cup", "chair", "chair"]
    >>> whitening = ClassWhitening(shrinkage=0.01).fit(X, y)
    >>> whitening.transform([[3.0, 4.0]]).round(1).tolist()
    [[1.0, 0.1]]
    """

    mean_: Array
    matrix_: Array

    def __init__(self, *, shrinkage: float = 0.75) -> None:
        self.shrinkage = shrinkage

    @property
    def promises(self) -> frozenset[Promise]:
        return BOUNDED

    def fit(
        self, X: ArrayLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learn the map from these examples and their classes."""
        return self._copy_on_write(lambda changed: changed._take(X, y, sample_weight))

    def partial_fit(
        self, X: ArrayLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """The first call is like ``fit``; later ones change nothing."""
        if not self.__sklearn_is_fitted__():
            return self.fit(X, y, sample_weight)
        if device_of(X) is None:
            self._rows(X, reset=False)
        else:
            table_of(self, X, reset=False)
        return self

    def transform(self, X: ArrayLike) -> Array:
        """Whitened examples, each of length one."""
        self._require_fitted()
        device = device_of(X)
        if device is None:
            return like(unit_rows((self._rows(X) - self.mean_) @ self.matrix_), X)
        rows = table_of(self, X, reset=False)
        return mapped(device, rows, partial(self._map_at, device), width=self.n_features_in_)

    def _map_at(self, device: Device, rows: Any) -> Any:
        """Whitened float64 rows on a device."""
        whitened = (rows - device.array(self.mean_)) @ device.array(self.matrix_)
        return unit_rows_at(device, whitened)

    def __sklearn_is_fitted__(self) -> bool:
        return self._is_begun()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def _take(self, X: ArrayLike, y: ArrayLike | None, sample_weight: ArrayLike | None) -> None:
        require_number("shrinkage", self.shrinkage, above=0.0, most=1.0)
        rows = self._rows(X if device_of(X) is None else as_numpy(X), reset=True)
        labels, weights = checked_labelled(y, sample_weight, len(rows), type(self).__name__)
        slots = Labels().encode(labels)[0]
        if weights is not None:  # rows of weight zero are ignored
            there = weights > 0
            rows, weights, slots = rows[there], weights[there], slots[there]
        moments = Moments(rows.shape[1])
        moments.add(rows, slots, weights)
        self.mean_ = moments.mean.copy()
        self.matrix_ = _whitening(moments, float(self.shrinkage))

    def _require_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(
                "This ClassWhitening instance is not fitted yet: it has seen nothing. "
                "Call fit or partial_fit first."
            )

    def _is_begun(self) -> bool:
        return "matrix_" in self.__dict__

    def _begin(self, n_features: int) -> None:
        """Nothing to do before the first batch."""

    def _own_state(self) -> State:
        return {"mean": self.mean_, "matrix": self.matrix_}, {}

    def _own_restore(self, arrays: dict[str, NDArray[Any]], notes: dict[str, Any]) -> None:
        self.mean_ = validated_array(arrays, "mean", self.n_features_in_)
        self.matrix_ = validated_array(arrays, "matrix", self.n_features_in_, self.n_features_in_)


def _whitening(moments: Moments, shrinkage: float) -> Array:
    """(ε I + (1 − ε) W / ν)^(−½); I if nothing varies within classes."""
    if not moments.scatter_trace > 0:
        return np.eye(moments.n_features)
    variances, Q = spectrum(moments.upper_scatter())
    relative = np.maximum(variances, 0.0) * moments.n_features / moments.scatter_trace
    matrix: Array = (Q / np.sqrt(shrinkage + (1.0 - shrinkage) * relative)) @ Q.T
    return matrix
