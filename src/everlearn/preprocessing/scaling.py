"""Standardisation that follows the stream: exact mean and variance of all rows so far.

    n ← n + m,    μ ← μ + (m / n) δ,    M ← M + M_B + (n − m) m / n  δ²,    δ = μ_B − μ

for a batch of weight m with mean μ_B and sum of squared deviations M_B (Chan, Golub, LeVeque 1979).
The same equation merges two scalers, and with the sign of m reversed it takes a batch back.

Cost: O(d) a row, and d numbers three times over.
"""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.exceptions import NotFittedError

from everlearn.arrays import Array, State, as_numpy, like
from everlearn.errors import NeverLearned, NotMergeable
from everlearn.estimator import BOUNDED, Promise, StreamingEstimator
from everlearn.statistics.validated import validated_array
from everlearn.validation import checked_weights

# A share of the largest square: rounding errors of a constant are not variance.
ROUNDING = 1e-24


class StreamingScaler(OneToOneFeatureMixin, TransformerMixin, StreamingEstimator):
    """Bring features to mean zero and deviation one, as all rows so far have them.

    Attributes
    ----------
    mean_, var_, scale_ : ndarray of shape (n_features,)
        Mean and variance of each feature, and what it is divided by: its deviation, or 1 where it
        does not vary.
    n_samples_seen_ : float
        The weight of all rows.
    n_features_in_ : int

    See Also
    --------
    InitialWhitening : Follows the first batch alone, so that a learner lives in a fixed space.
    sklearn.preprocessing.StandardScaler : The same numbers; it cannot be saved, merged, or forget.

    Notes
    -----
    It changes the inputs of a learner behind it, whose sums refer to the earlier scale:
    ``StreamPipeline(..., freeze_after=n)`` ends that after n examples. Least squares, LDA and
    nearest means do not care for a fixed scale, so ``InitialWhitening`` is the safer choice.

    *Cost*: O(d) a row.

    *Promises*: the numbers do not depend on the order or the size of batches; ``merge`` and
    ``forget`` are exact, up to floating-point rounding.

    References
    ----------
    Chan, Golub, LeVeque. Updating Formulae and a Pairwise Algorithm for Computing Sample Variances.
    Stanford STAN-CS-79-773, 1979.

    Examples
    --------
    >>> from everlearn import StreamingScaler
    >>> scaler = StreamingScaler().partial_fit([[0.0, 5.0]]).partial_fit([[2.0, 5.0]])
    >>> scaler.transform([[2.0, 6.0]]).tolist()
    [[1.0, 1.0]]
    """

    mean_: Array
    n_samples_seen_: float
    _squares: Array

    def __init__(self) -> None:
        """There is nothing to choose."""

    @property
    def promises(self) -> frozenset[Promise]:
        return BOUNDED

    @property
    def var_(self) -> Array:
        self._require_fitted()
        variance = self._squares / self.n_samples_seen_
        variance[variance <= ROUNDING * self.mean_**2] = 0.0
        return variance

    @property
    def scale_(self) -> Array:
        variance = self.var_
        return np.sqrt(np.where(variance > 0.0, variance, 1.0))

    def fit(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Forget everything, then learn these rows."""

        def learn(changed: Self) -> None:
            changed._start(changed._rows(_on_host(X), reset=True), sample_weight)

        return self._copy_on_write(learn)

    def partial_fit(
        self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Follow these rows."""
        if not self._is_begun():
            return self.fit(X, y, sample_weight)

        def learn(changed: Self) -> None:
            rows = changed._rows(_on_host(X), reset=False)
            changed._add(*_sums(rows, sample_weight))

        return self._copy_on_write(learn)

    def forget(self, X: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Take back rows that were learned."""
        self._require_fitted()

        def unlearn(changed: Self) -> None:
            weight, mean, squares = _sums(changed._rows(_on_host(X), reset=False), sample_weight)
            if weight >= changed.n_samples_seen_:
                raise NeverLearned(
                    f"these rows weigh {weight:g} and {changed.n_samples_seen_:g} were learned; "
                    "something has to be left to scale by, so fit anew instead"
                )
            changed._add(-weight, mean, -squares)

        return self._copy_on_write(unlearn)

    def merge(self, other: "StreamingScaler") -> Self:
        """Learn what another scaler has learned; the other stays as it is."""
        if type(other) is not type(self):
            raise NotMergeable(f"a StreamingScaler merges with another, not {other!r:.80}")
        if not other._is_begun():
            return self
        if self._is_begun() and other.n_features_in_ != self.n_features_in_:
            raise NotMergeable(
                f"the other has {other.n_features_in_} features, this one {self.n_features_in_}"
            )

        def learn(changed: Self) -> None:
            if not changed._is_begun():
                changed._begin(other.n_features_in_)
                changed.n_features_in_ = other.n_features_in_
            changed._add(other.n_samples_seen_, other.mean_, other._squares)

        return self._copy_on_write(learn)

    def transform(self, X: ArrayLike) -> Array:
        """Scaled rows."""
        return like((self._rows(_on_host(X)) - self.mean_) / self.scale_, X)

    def inverse_transform(self, X: ArrayLike) -> Array:
        """Rows from scaled ones."""
        return like(self._rows(_on_host(X)) * self.scale_ + self.mean_, X)

    def __sklearn_is_fitted__(self) -> bool:
        return self._is_begun()

    def _start(self, rows: Array, sample_weight: ArrayLike | None) -> None:
        sums = _sums(rows, sample_weight)
        self._begin(rows.shape[1])
        self._add(*sums)

    def _add(self, weight: float, mean: Array, squares: Array) -> None:
        total = self.n_samples_seen_ + weight
        apart = mean - self.mean_
        self.mean_ = self.mean_ + (weight / total) * apart
        between = self.n_samples_seen_ * weight / total * apart**2
        self._squares = np.maximum(self._squares + squares + between, 0.0)
        self.n_samples_seen_ = total

    def _require_fitted(self) -> None:
        if not self._is_begun():
            raise NotFittedError(
                "This StreamingScaler instance is not fitted yet: it has seen nothing. "
                "Call partial_fit first."
            )

    def _is_begun(self) -> bool:
        return "mean_" in self.__dict__

    def _begin(self, n_features: int) -> None:
        self.mean_, self._squares = np.zeros(n_features), np.zeros(n_features)
        self.n_samples_seen_ = 0.0

    def _own_state(self) -> State:
        notes = {"n_samples_seen": float(self.n_samples_seen_)}
        return {"mean": self.mean_, "squares": self._squares}, notes

    def _own_restore(self, arrays: dict[str, NDArray[Any]], notes: dict[str, Any]) -> None:
        self.mean_ = validated_array(arrays, "mean", self.n_features_in_)
        self._squares = validated_array(arrays, "squares", self.n_features_in_, least=0.0)
        self.n_samples_seen_ = float(notes["n_samples_seen"])
        if not 0.0 < self.n_samples_seen_ < np.inf:
            raise ValueError("the weight of all rows is above zero")


def _on_host(X: Any) -> Any:
    """Copy rows on a device to the host, where the sums are; others are unchanged."""
    from everlearn.device.device import device_of

    return X if device_of(X) is None else as_numpy(X)


def _sums(rows: Array, sample_weight: ArrayLike | None) -> tuple[float, Array, Array]:
    """Weight, mean and squared deviations of a batch."""
    if sample_weight is None:
        weights = np.ones(len(rows))
    else:
        weights = checked_weights(sample_weight, len(rows))
    total = float(weights.sum())
    mean: Array = weights @ rows / total
    squares: Array = weights @ (rows - mean) ** 2
    return total, mean, squares
