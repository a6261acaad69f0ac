"""Linear discriminant analysis with the covariance of the first batch.

As :mod:`everlearn.learners.lda`, but Σ is estimated once, on the base batch (the first call of
``fit`` or ``partial_fit``), and kept; only the class means continue to learn (Hayes and Kanan 2020,
Sec. 3.2). One example costs O(d) to learn, one question O(d²) for the class that moved and O(K d)
for the rest. A base covariance is kept even if the examples it came from are forgotten.
"""

from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from everlearn.arrays import Array, Slots, State
from everlearn.base import BOUNDED, EXACT, Promise
from everlearn.errors import NotMergeable
from everlearn.learners.closed_form.additive import AdditiveClassifier
from everlearn.learners.closed_form.discriminant import FrozenDiscriminant, Shrinkage
from everlearn.learners.closed_form.start import checked_covariance
from everlearn.learners.lda import oas_weight, shrinkage_named
from everlearn.statistics.class_means import ClassMeans
from everlearn.statistics.moments import Moments
from everlearn.statistics.products import products
from everlearn.statistics.validated import validated_array, validated_number
from everlearn.validation import require_one_of, require_share

Base = Literal["plain", "oas", "ones"]


class FixedCovarianceLDA(AdditiveClassifier):
    """Linear discriminant analysis with the covariance of its first batch.

    Learning costs O(d) per example, asking O(d² + K d).

    Parameters
    ----------
    shrinkage : float in (0, 1) or "oas", default=0.1
        ε: how much of the mean variance is mixed into the covariance.
    base : {"plain", "oas", "ones"} or a covariance, default="plain"
        How the covariance is estimated on the base batch: pooled within-class covariance; the same
        with Oracle Approximating Shrinkage (as in the paper); or not at all, a matrix of ones. A
        known covariance is a number, an array of shape (n_features,) or (n_features, n_features);
        it is used unchanged.

    Attributes
    ----------
    classes_ : ndarray
        The labels taught, sorted.
    coef_ : ndarray of shape (n_classes, n_features)
    intercept_ : ndarray of shape (n_classes,)
        In the order of ``classes_``, up to a term that all classes share.
    covariance_ : ndarray of shape (n_features, n_features)
        Σ of the base batch, before shrinkage.
    moments_ : the class means

    See Also
    --------
    StreamingLDA : Keeps updating the covariance.

    Notes
    -----
    *Promises*: none beyond bounded memory, since the covariance depends on which batch came first;
    with ``base="ones"`` or a given covariance everything is exact.

    References
    ----------
    Hayes and Kanan, CVPRW 2020.

    Examples
    --------
    >>> import numpy as np
    >>> from everlearn import FixedCovarianceLDA
    >>> rng = np.random.default_rng(0)
    >>> X, names = rng.normal(size=(40, 4)), np.repeat(["cup", "chair"], 20)
    >>> learner = FixedCovarianceLDA().fit(X + 3.0 * (names == "chair")[:, None], names)
    >>> learner.learn_one([9.0, 9.0, 9.0, 9.0], "lamp").predict_one([8.0, 9.0, 8.0, 9.0])
    'lamp'
    """

    # The covariance needs the whole first batch.
    _block_rows = None

    def __init__(
        self, *, shrinkage: float | Literal["oas"] = 0.1, base: Base | float | ArrayLike = "plain"
    ) -> None:
        self.shrinkage = shrinkage
        self.base = base

    @property
    def promises(self) -> frozenset[Promise]:
        return BOUNDED if self._depends_on_the_base_batch else BOUNDED | EXACT

    @property
    def _depends_on_the_base_batch(self) -> bool:
        return isinstance(self.base, str) and self.base != "ones"

    @property
    def coef_(self) -> Array:
        with self._lock:
            weights, _, _ = self._frozen.linear(self.moments_)
            return weights[self.registry_.order]

    @property
    def intercept_(self) -> Array:
        with self._lock:
            weights, bias, origin = self._frozen.linear(self.moments_)
            return (bias - weights @ origin)[self.registry_.order]

    @property
    def covariance_(self) -> Array:
        base = self._frozen.base
        return base.scatter() / base.total

    def linear_head(self) -> tuple[Array, Array]:
        with self._lock:
            self._require_fitted()
            return self.coef_, self.intercept_

    def _check_parameters(self) -> None:
        require_share("shrinkage", self.shrinkage, or_word="oas")
        if self.base is None or isinstance(self.base, str):
            require_one_of("base", self.base, get_args(Base))

    def _empty_moments(self, n_features: int) -> ClassMeans:
        return ClassMeans(n_features)

    def _begin(self, n_features: int) -> None:
        super()._begin(n_features)
        self._frozen: FrozenDiscriminant

    def _learn(self, X: Array, slots: Slots, weights: Array | None) -> None:
        if not self.moments_.total:
            self._freeze_base(X, slots, weights)
        super()._learn(X, slots, weights)
        self._frozen.follow(slots)

    def _learn_one(self, x: Array, slot: int) -> None:
        super()._learn_one(x, slot)
        self._frozen.follow(np.array([slot]))

    def _merge(self, other: Any, slots: Slots) -> None:
        theirs = other._frozen.base
        if not self.moments_.total:
            self._freeze(theirs.upper_scatter(), theirs.total)
        elif not np.array_equal(self.covariance_, other.covariance_):
            raise NotMergeable(
                "the two learners have different base covariances; start both from the same base "
                "batch, or use StreamingLDA"
            )
        super()._merge(other, slots)

    def _release(self, X: Array, slots: Slots, weights: Array | None) -> None:
        super()._release(X, slots, weights)
        self._after_other_change()

    def _after_other_change(self) -> None:
        if "_frozen" in self.__dict__:
            self._frozen.invalidate()

    def _scores(self, X: Array) -> Array:
        weights, bias, origin = self._frozen.linear(self.moments_)
        return products(X - origin, weights) + bias

    def _freeze_base(self, X: Array, slots: Slots, weights: Array | None) -> None:
        if not self._depends_on_the_base_batch:
            width = X.shape[1]
            ones = isinstance(self.base, str)
            given = np.ones((width, width)) if ones else self.base
            self._freeze(checked_covariance("base", given, width), 1.0)
            return
        batch = Moments(X.shape[1])
        batch.add(np.ascontiguousarray(X, dtype=np.float64), slots, weights)
        scatter = shrunk_scatter(batch) if self.base == "oas" else batch.upper_scatter()
        self._freeze(scatter, batch.total)

    def _freeze(self, upper_scatter: Array, total: float) -> None:
        base = Moments(len(upper_scatter))
        base.total = total
        base.replace_scatter(np.triu(upper_scatter))
        self._frozen = FrozenDiscriminant(base, self._shrinkage())

    def _shrinkage(self) -> Shrinkage:
        return shrinkage_named(self.shrinkage)

    def _own_state(self) -> State:
        arrays, notes = super()._own_state()
        base = self._frozen.base
        return arrays | {"base_scatter": base.upper_scatter()}, notes | {"base_total": base.total}

    def _own_restore(self, arrays: dict[str, NDArray[Any]], notes: dict[str, Any]) -> None:
        super()._own_restore(arrays, notes)
        width = self.n_features_in_
        scatter = validated_array(arrays, "base_scatter", width, width)
        self._freeze(scatter, validated_number(notes, "base_total", above=0.0))
        self._after_other_change()


def shrunk_scatter(moments: Moments) -> Array:
    """The scatter whose covariance is the OAS estimate, its upper triangle."""
    weight = oas_weight(moments.upper_scatter(), moments.total)
    scatter: Array = (1.0 - weight) * moments.upper_scatter()
    scatter.flat[:: len(scatter) + 1] += weight * moments.scatter_trace / moments.n_features
    return scatter
