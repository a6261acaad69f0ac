"""Streaming linear discriminant analysis.

Each class is a Gaussian around its running mean, with one covariance for all, estimated on the
fly (Hayes and Kanan, *Lifelong Machine Learning with Deep Streaming Linear Discriminant Analysis*,
CVPR Workshops 2020):

    μ_y ← (c_y μ_y + z) / (c_y + 1),   c_y ← c_y + 1                              Eq. 2-3
    Σ ← (t Σ + Δ) / (t + 1),   Δ = t/(t+1) (z − μ_y)(z − μ_y)ᵀ                     Eq. 4-5
    Λ = [(1 − ε) Σ + ε I]⁻¹,   w_k = Λ μ_k,   b_k = −½ μ_k·Λ μ_k                   Eq. 1, 6-7

As published, μ_y of a new class is zero, so its first example adds its raw outer product to Σ, and
the factor t/(t+1) counts all classes: the result depends on the order of the stream. With
``rule="exact"`` (the default) Δ has c_y/(c_y+1) in its place and a first example adds nothing: Σ is
then the pooled within-class covariance S/N whatever the order, and forgetting and merging are
exact. ``rule="hayes2020"`` is the published recursion.

Symbols: z is ``x``, c_k is ``moments_.counts``, t is ``moments_.total``, t Σ is the scatter S.

Cost per example, d features and K classes: O(d²) to learn (BLAS-3 in blocks), O(d² + K d) to learn
and ask with ``learn_one`` / ``predict_one``; the published form needs O(d³ + K d²). Memory is
d² + K d numbers.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from everlearn.base import EXACT, Array, Promise, Slots, State
from everlearn.errors import InvalidParameter, InvalidWeight, NotForgettable, NotMergeable
from everlearn.learners.additive import AdditiveClassifier
from everlearn.learners.discriminant import (
    ExactDiscriminant,
    FrozenDiscriminant,
    RunningDiscriminant,
    oas_shrinkage,
)
from everlearn.statistics.moments import ClassMeans, Moments


class StreamingLDA(AdditiveClassifier):
    """Linear discriminant analysis that learns one example at a time.

    Learning costs O(d²) per example however much was learned before, asking O(d² + K d).

    Parameters
    ----------
    shrinkage : float in (0, 1) or "oas", default=1e-4
        ε: how much of the identity is mixed into the covariance. ``"oas"`` computes it from the
        data (Oracle Approximating Shrinkage), anew whenever the learner is asked.
    covariance : {"plastic", "fixed"}, default="plastic"
        Whether the covariance goes on learning, or stays as the base batch gave it. The base batch
        is the first call of ``fit`` or ``partial_fit``.
    base : {"plain", "oas", "ones"}, default="plain"
        How the covariance is estimated on the base batch: pooled within-class covariance; the same
        with Oracle Approximating Shrinkage (as in the paper); or not at all, starting from a matrix
        of ones with no weight, which a plastic covariance leaves behind at once and a fixed one
        keeps for ever.
    rule : {"exact", "hayes2020"}, default="exact"
        Exact pooled scatter, or the published recursion with its dependence on order.
    class_scatter : bool, default=False
        Keep the scatter of each class apart, K d² numbers instead of d². It makes ``forget_class``
        exact without the examples; ``forget`` with the examples is exact anyway.

    Attributes
    ----------
    classes_ : ndarray
        The labels taught, sorted.
    coef_ : ndarray of shape (n_classes, n_features)
    intercept_ : ndarray of shape (n_classes,)
        W and b of Eq. 1, in the order of ``classes_``, up to a term that all classes share.
    covariance_ : ndarray of shape (n_features, n_features)
        Σ, before shrinkage.
    moments_ : the statistics all this is read from

    See Also
    --------
    NearestClassMean : The same without covariance, O(d) per example.
    RecursiveRLSC : Least squares on the same statistics, with recoding for rare classes.

    Notes
    -----
    ``predict``, ``decision_function`` and ``predict_proba`` are functions of what was taught and
    nothing else. ``predict_one`` buys its fixed cost with a tolerance: it uses a shrinkage up to
    5 % smaller than asked for (the term ε I of Eq. 6 cannot follow N by rank-one updates).

    ``decision_function`` is Eq. 1 up to a term that is the same for all classes, which keeps full
    precision for features far from zero. ``predict_proba`` is the posterior with equal priors.

    *Promises*: with ``rule="exact"``, ``base`` other than ``"oas"`` and a plastic covariance,
    everything is exact: batch = loop = any order, merge, forget. A fixed covariance keeps what the
    base batch gave it even if those examples are forgotten.

    References
    ----------
    Hayes and Kanan, CVPRW 2020. Chen, Wiesel, Eldar and Hero, IEEE TSP 58(10), 2010 (OAS).

    Examples
    --------
    >>> import numpy as np
    >>> from everlearn import StreamingLDA
    >>> rng = np.random.default_rng(0)
    >>> learner = StreamingLDA()
    >>> for name, centre in [("cup", 0.0), ("chair", 3.0)]:
    ...     for example in centre + rng.normal(size=(20, 4)):
    ...         _ = learner.learn_one(example, name)
    >>> learner.predict_one([2.9, 3.1, 2.8, 3.3])
    'chair'
    """

    moments_: ClassMeans

    def __init__(
        self,
        *,
        shrinkage: float | str = 1e-4,
        covariance: str = "plastic",
        base: str = "plain",
        rule: str = "exact",
        class_scatter: bool = False,
    ) -> None:
        self.shrinkage = shrinkage
        self.covariance = covariance
        self.base = base
        self.rule = rule
        self.class_scatter = class_scatter

    @property
    def promises(self) -> frozenset[Promise]:
        if self.covariance == "fixed" and self.base == "ones":
            return EXACT
        if self.covariance == "fixed" or self.rule == "hayes2020" or self.base == "oas":
            return frozenset()
        return EXACT if self.class_scatter else EXACT - {Promise.FORGET_CLASS}

    @property
    def coef_(self) -> Array:
        weights, _, _ = self._linear()
        coefficients: Array = weights[self.labels_.order]
        return coefficients

    @property
    def intercept_(self) -> Array:
        weights, bias, origin = self._linear()
        intercepts: Array = (bias - weights @ origin)[self.labels_.order]
        return intercepts

    @property
    def covariance_(self) -> Array:
        if self.covariance == "fixed":
            return self._frozen.covariance
        assert isinstance(self.moments_, Moments)
        return self.moments_.scatter() / self.moments_.total

    def _check_parameters(self) -> None:
        _require_one_of("covariance", self.covariance, ("plastic", "fixed"))
        _require_one_of("base", self.base, ("plain", "oas", "ones"))
        _require_one_of("rule", self.rule, ("exact", "hayes2020"))
        if isinstance(self.shrinkage, str):
            _require_one_of("shrinkage", self.shrinkage, ("oas",))
        elif not 0.0 < self.shrinkage < 1.0:
            raise InvalidParameter(
                f"shrinkage is a number between 0 and 1, or 'oas', not {self.shrinkage!r}; "
                "for 1 use NearestClassMean"
            )
        if self.class_scatter and (self.rule != "exact" or self.covariance == "fixed"):
            raise InvalidParameter(
                "class_scatter=True needs rule='exact' and covariance='plastic': "
                "only then does each class have a scatter of its own"
            )

    def _empty_moments(self, n_features: int) -> ClassMeans:
        if self.covariance == "fixed":
            return ClassMeans(n_features)
        if self.rule == "hayes2020":
            return PublishedMoments(n_features)
        return Moments(n_features, class_scatter=self.class_scatter)

    def _begin(self, n_features: int) -> None:
        super()._begin(n_features)
        self._exact = ExactDiscriminant()
        self._running = RunningDiscriminant(n_features)
        if self.covariance == "fixed":
            ones = np.ones((n_features, n_features))
            self._frozen = FrozenDiscriminant(ones, self.shrinkage, 1.0)

    def _learn(self, X: Array, slots: Slots, weights: Array | None) -> None:
        if self._recursive() and weights is not None and np.any(weights != 1.0):
            raise InvalidWeight(
                "the published recursion knows no sample weights after the base batch; leave them "
                "out or use rule='exact'"
            )
        if self.moments_.total:
            super()._learn(X, slots, weights)
        else:
            self._learn_base(X, slots, weights)

    def _recursive(self) -> bool:
        """Whether examples now go through the published recursion, not into a base batch."""
        published = self.rule == "hayes2020" and self.covariance == "plastic"
        return published and (self.moments_.total > 0 or self.base == "ones")

    def _learn_base(self, X: Array, slots: Slots, weights: Array | None) -> None:
        """The first batch: here the covariance may get its start."""
        if self.base == "ones" or (
            self.base == "plain" and self.covariance == "plastic" and self.rule == "exact"
        ):
            super()._learn(X, slots, weights)
            return
        base = Moments(X.shape[1])
        base.add(X, slots, weights)
        if self.base == "oas":
            base.replace_scatter(_shrunk(base))
        if self.covariance == "fixed":
            super()._learn(X, slots, weights)
            self._frozen = FrozenDiscriminant(
                base.scatter() / base.total, self.shrinkage, base.total
            )
        else:
            self.moments_.restore(base.state())
            self._running.invalidate()

    def _absorb(self, X: Array, slots: Slots, weights: Array | None) -> None:
        rows = self.moments_.add(X, slots, weights)
        if self.covariance == "fixed":
            self._frozen.follow(slots)
        else:
            self._running.follow(rows, slots)

    def _learn_one(self, x: Array, slot: int) -> None:
        moments = self.moments_
        moments.add_one(x, slot)
        if isinstance(moments, Moments):
            self._running.follow_one(moments.last_row, slot)
        else:
            self._frozen.follow(np.array([slot]))

    def _release(self, X: Array, slots: Slots, weights: Array | None) -> None:
        if self.rule == "hayes2020" and self.covariance == "plastic":
            raise NotForgettable(
                "the published recursion depends on the order of the stream, so no example can be "
                "taken out of it; use rule='exact'"
            )
        super()._release(X, slots, weights)
        self._after_other_change()

    def _forget_class(self, slot: int) -> None:
        if self.covariance == "plastic" and not self.class_scatter:
            raise NotForgettable(
                "one scatter matrix is kept for all classes, and the part of this class cannot be "
                "told from the rest; pass its examples to forget, or build the learner with "
                "class_scatter=True (K d² numbers of memory)"
            )
        super()._forget_class(slot)

    def _merge(self, other: Any, slots: Slots) -> None:
        if self.covariance == "fixed":
            if not self.moments_.total:
                self._frozen = other._frozen
            elif not np.array_equal(self._frozen.covariance, other._frozen.covariance):
                raise NotMergeable(
                    "the two learners froze different covariances; start both from the same base "
                    "batch, or use covariance='plastic'"
                )
        elif self.rule == "hayes2020":
            raise NotMergeable(
                "the published recursion depends on the order of the stream, so two of them have "
                "no exact sum; use rule='exact'"
            )
        super()._merge(other, slots)

    def _after_other_change(self) -> None:
        self._running.invalidate()
        if self.covariance == "fixed":
            self._frozen.invalidate()

    def _scores(self, X: Array) -> Array:
        weights, bias, origin = self._linear()
        return (X - origin) @ weights.T + bias

    def _scores_one(self, x: Array) -> Array:
        if isinstance(self.moments_, Moments):
            return self._running.scores_one(x, self.moments_, self.shrinkage)
        return super()._scores_one(x)

    def _linear(self) -> tuple[Array, Array, Array]:
        if isinstance(self.moments_, Moments):
            return self._exact.linear(self.moments_, self.shrinkage)
        return self._frozen.linear(self.moments_)

    def _own_state(self) -> State:
        arrays, notes = super()._own_state()
        if self.covariance == "fixed":
            arrays["covariance"] = self._frozen.covariance
            notes["base_total"] = self._frozen.total
        return arrays, notes

    def _own_restore(self, arrays: dict[str, NDArray[Any]], notes: dict[str, Any]) -> None:
        super()._own_restore(arrays, notes)
        if self.covariance == "fixed":
            covariance = np.array(arrays["covariance"], dtype=np.float64)
            if covariance.shape != (self.n_features_in_, self.n_features_in_):
                raise ValueError("a covariance of another width")
            self._frozen = FrozenDiscriminant(covariance, self.shrinkage, notes["base_total"])


class PublishedMoments(Moments):
    """Moments whose scatter follows Eq. 2-5 as published: order matters, weights do not exist."""

    def add_one(self, x: Array, slot: int) -> None:
        from everlearn.kernels.moments import absorb_row_as_published

        self.reserve(slot + 1)
        row = self._next_row()
        absorb_row_as_published(x, slot, self._counts, self._means, self.mean, self.total, row)
        self.total += 1.0
        self.version += 1

    def add(self, X: Array, slots: Slots, weights: Array | None = None) -> Array:
        rows = np.empty_like(X)
        for index, (x, slot) in enumerate(zip(X, slots.tolist(), strict=True)):
            self.add_one(x, slot)
            rows[index] = self.last_row
        return rows


def _shrunk(moments: Moments) -> Array:
    """The scatter whose covariance is the OAS estimate."""
    weight, variance = oas_shrinkage(moments.upper_scatter(), moments.total)
    S = (1.0 - weight) * moments.upper_scatter()
    S.flat[:: len(S) + 1] += weight * variance * moments.total
    return S


def _require_one_of(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        words = " or ".join(repr(word) for word in allowed)
        raise InvalidParameter(f"{name} is {words}, not {value!r}")
