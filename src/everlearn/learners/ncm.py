"""Nearest class mean: a class is represented by the mean of its examples.

    euclidean    argmin_k ‖x − μ_k‖
    cosine       argmax_k x·μ_k / (‖x‖ ‖μ_k‖)
    learned      argmin_k ‖W(x − μ_k)‖,  W learned once (see learned_metric.py)

Sparse rows are processed without their zeros (see sparse.py), except by a learned metric.

One example costs O(d) to learn and O(K d) to ask; memory is K d numbers. Everything is exact: a
batch equals its rows one by one, in any order; forgetting and merging are exact. A learned metric
guarantees none of this: it is learned once, from a batch of several classes, and then fixed.
"""

from collections.abc import Iterable
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from everlearn.arrays import Array, Slots, State, unit_rows
from everlearn.base import BOUNDED, Promise
from everlearn.device.backend import device_backend
from everlearn.device.device import unit_rows_at
from everlearn.device.moments import DeviceMoments
from everlearn.errors import NotForgettable, NotMergeable
from everlearn.learners.closed_form.additive import AdditiveClassifier
from everlearn.learners.closed_form.screened import ScreenedQuestion
from everlearn.learners.closed_form.sparse import SparseRows, sparse_backend, sparse_means
from everlearn.statistics.class_means import ClassMeans
from everlearn.statistics.moments import BLOCK_ROWS
from everlearn.statistics.products import FEW_ROWS, products
from everlearn.statistics.screening import Products, Screen
from everlearn.statistics.validated import validated_array
from everlearn.validation import require_number, require_one_of, require_whole

Metric = Literal["euclidean", "cosine", "learned"]
# Classes scored together in a batch.
CLASSES_AT_ONCE = 4096


class NearestClassMean(AdditiveClassifier):
    """Classify by the nearest class mean.

    Learning one example costs O(d), independent of the number learned.

    Parameters
    ----------
    metric : {"euclidean", "cosine", "learned"}, default="euclidean"
        The distance. Cosine compares directions and suits features of neural networks whose length
        says more about contrast than about content. A learned metric is a projection that brings
        examples near their class mean; it is learned from the first batch with several classes and
        more examples than classes, and is Euclidean before that. Later classes are added without
        changing it.
    rank : int, default=128
        The number of dimensions a learned metric projects to.
    half_life : float of at least 1, optional
        The weight of an example halves after this many further examples, for streams that change.
        Exact, at the same cost; ``forget`` is refused, and ``merge`` takes both learners as of now.

    Attributes
    ----------
    classes_ : ndarray
        The labels taught, sorted.
    centroids_ : ndarray of shape (n_classes, n_features)
        The mean of each class, in the order of ``classes_``.
    n_features_in_ : int

    See Also
    --------
    StreamingLDA : Also learns the covariance of features; better from some hundred examples on.

    Notes
    -----
    ``decision_function`` is −½ ‖x − μ_k‖² (or the cosine), and ``predict_proba`` its softmax: the
    posterior if classes were spheres of unit variance. It is not calibrated.

    *Promises*: everything is exact: batch = loop = any order, merge, forget, forget a class; with
    ``metric="learned"`` none of it.

    Examples
    --------
    >>> from everlearn import NearestClassMean
    >>> learner = NearestClassMean()
    >>> learner.learn_one([0.0, 0.0], "cup").learn_one([4.0, 4.0], "chair").predict_one([1.0, 0.0])
    'cup'
    """

    projection_: Array | None
    _backends = (sparse_backend, device_backend)

    def __init__(
        self,
        *,
        metric: Metric = "euclidean",
        rank: int = 128,
        half_life: float | None = None,
    ) -> None:
        self.metric = metric
        self.rank = rank
        self.half_life = half_life

    @property
    def promises(self) -> frozenset[Promise]:
        return BOUNDED if self.metric == "learned" else super().promises

    @property
    def centroids_(self) -> Array:
        centroids: Array = self.moments_.means[self.registry_.order]
        return centroids

    def linear_head(self) -> tuple[Array, Array]:
        if self.metric != "euclidean":
            return super().linear_head()
        with self._lock:
            self._require_fitted()
            centroids = self.centroids_
        return centroids, -0.5 * np.einsum("ij,ij->i", centroids, centroids)

    @property
    def exact_in_order(self) -> bool:
        return self.metric != "learned" and not self._fades

    def _check_parameters(self) -> None:
        require_one_of("metric", self.metric, get_args(Metric))
        require_whole("rank", self.rank)
        require_number("half_life", self.half_life, least=1.0, or_none=True)

    def _empty_moments(self, n_features: int) -> ClassMeans:
        return ClassMeans(n_features, half_life=self.half_life)

    def _begin(self, n_features: int) -> None:
        super()._begin(n_features)
        self.projection_ = None

    def _learn(self, X: Array, slots: Slots, weights: Array | None) -> None:
        super()._learn(X, slots, weights)
        if self.metric != "learned" or self.projection_ is not None:
            return
        known, member_of = np.unique(slots, return_inverse=True)
        if 1 < len(known) < len(X):
            from everlearn.learners.learned_metric import learned_metric

            means = self.moments_.means[known]
            self.projection_ = learned_metric(
                np.asarray(X, dtype=np.float64), member_of, weights, means, int(self.rank)
            ).W

    @property
    def _block_rows(self) -> int | None:  # type: ignore[override]
        # The metric is learned from a whole batch.
        return None if self.metric == "learned" else BLOCK_ROWS

    @property
    def _takes_sparse(self) -> bool:  # type: ignore[override]
        return self.metric != "learned"

    def _learn_sparse(self, X: SparseRows, slots: Slots, weights: Array | None) -> None:
        if self._fades:  # the weight of an example depends on its position in the stream
            super()._learn_sparse(X, slots, weights)
        else:
            self.moments_.merge(*sparse_means(X, slots, weights))

    def _scores_sparse(self, rows: SparseRows) -> Array:
        if self.metric == "cosine":
            lengths = np.sqrt(rows.squares())[:, None]
            scores = rows.products(unit_rows(self.moments_.means))
            return np.divide(scores, lengths, out=np.zeros_like(scores), where=lengths > 0)
        means = self.moments_.means
        squares = rows.squares()[:, None] + np.einsum("ij,ij->i", means, means)
        return rows.products(means) - 0.5 * squares

    def _forget(self, X: Array, slots: Slots, weights: Array | None) -> Iterable[int]:
        self._require_exact()
        return super()._forget(X, slots, weights)

    def _forget_class(self, slot: int) -> None:
        self._require_exact()
        super()._forget_class(slot)

    def _merge(self, other: Any, slots: Slots) -> None:
        if self.metric == "learned":
            raise NotMergeable(
                "each learner has learned its own metric; merge learners with a metric that "
                "is not learned"
            )
        super()._merge(other, slots)

    def _require_exact(self) -> None:
        if self.metric == "learned":
            raise NotForgettable(
                "the metric was learned from the first examples and cannot unlearn any of them; "
                "use a metric that is not learned, or fit again without them"
            )

    def _scores(self, X: Array) -> Array:
        if self.metric == "cosine":
            return products(unit_rows(X), unit_rows(self.moments_.means))
        if self.metric == "euclidean" and len(X) <= FEW_ROWS:
            return np.stack([self._scores_one(x) for x in X])
        # About the overall mean, so that a common offset does not cost precision.
        mean, scores = self.moments_.mean, np.empty((len(X), self.moments_.n_slots))
        X = X - mean
        if self.projection_ is not None:
            X = X @ self.projection_.T
        # x·μ − ½ ‖μ‖² − ½ ‖x‖² as one product: two more columns cost less than two more passes.
        X = np.column_stack([X, np.ones(len(X)), -0.5 * np.einsum("ij,ij->i", X, X)])
        # In blocks that fit the cache: a copy of all means would take longer.
        for start in range(0, scores.shape[1], CLASSES_AT_ONCE):
            part = slice(start, start + CLASSES_AT_ONCE)
            means = self.moments_.means[part] - mean
            if self.projection_ is not None:
                means = means @ self.projection_.T
            lengths = -0.5 * np.einsum("ij,ij->i", means, means)
            means = np.column_stack([means, lengths, np.ones(len(means))])
            np.matmul(X, means.T, out=scores[:, part])
        return scores

    def _scores_one(self, x: Array) -> Array:
        if self.metric != "euclidean":
            return super()._scores_one(x)
        from everlearn.statistics.kernels import nearest_mean

        scores = np.empty(len(self.moments_.means))
        nearest_mean(x, self.moments_.means, scores)
        return scores

    def _screened_question(self, x: Array) -> ScreenedQuestion | None:
        if self.metric != "euclidean":
            return None

        def products_of(screen: Screen) -> Products:
            # −½ ‖x − μ‖² is (μ − o)·(x − o) − ½ ‖μ − o‖², less a term all classes share.
            z = x - screen.centre
            offset = -float(screen.centre @ z) - 0.5 * float(z @ z)
            return Products(z, None, offset, -0.5 * screen.squares(), float(z @ z))

        def exact(slots: Slots) -> Array:
            from everlearn.statistics.kernels import nearest_mean

            scores = np.empty(len(slots))
            nearest_mean(x, self.moments_.means[slots], scores)
            return scores

        return ScreenedQuestion(products_of, exact)

    def _own_state(self) -> State:
        arrays, notes = super()._own_state()
        if self.projection_ is not None:
            arrays = arrays | {"projection": self.projection_}
        return arrays, notes

    def _own_restore(self, arrays: dict[str, NDArray[Any]], notes: dict[str, Any]) -> None:
        super()._own_restore(arrays, notes)
        if "projection" in arrays:
            self.projection_ = validated_array(arrays, "projection", None, self.n_features_in_)

    # On a device.

    @property
    def _runs_on_device(self) -> bool:  # type: ignore[override]
        return self.metric != "learned" and not self._fades

    @property
    def _asked(self) -> object:
        return self.metric

    def _device_head(self, moments: DeviceMoments) -> "MeansOnDevice":
        return MeansOnDevice(moments, self.metric)


class MeansOnDevice:
    """−½ ‖x − μ_k‖², or the cosine of the angle between them, on a device."""

    def __init__(self, moments: DeviceMoments, metric: Metric) -> None:
        self._device, self._metric = moments.device, metric
        # About the overall mean, so that a common offset does not cost precision.
        self._origin = moments.mean
        if metric == "cosine":
            self._means = unit_rows_at(moments.device, moments.means)
        else:
            self._means = moments.means - self._origin

    def scores(self, X: Any) -> Any:
        if self._metric == "cosine":
            return unit_rows_at(self._device, X) @ self._means.T
        xp, X = self._device.xp, X - self._origin
        lengths = [xp.sum(rows * rows, axis=1) for rows in (X, self._means)]
        return X @ self._means.T - 0.5 * (lengths[0][:, None] + lengths[1][None, :])

    def temperature(self) -> float:
        return 1.0
