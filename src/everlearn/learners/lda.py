"""Streaming linear discriminant analysis.

Each class is a Gaussian around its running mean, with one covariance for all, estimated on the
fly (Hayes and Kanan, *Lifelong Machine Learning with Deep Streaming Linear Discriminant Analysis*,
CVPR Workshops 2020):

    μ_y ← (c_y μ_y + z) / (c_y + 1),   c_y ← c_y + 1                              Eq. 2-3
    Σ ← (t Σ + Δ) / (t + 1),   Δ = c_y/(c_y+1) (z − μ_y)(z − μ_y)ᵀ                 Eq. 4-5
    Λ = [(1 − ε) Σ + ε ν I]⁻¹,   w_k = Λ μ_k,   b_k = −½ μ_k·Λ μ_k                 Eq. 1, 6-7

Two departures from the paper. Its Δ has t/(t+1), with the count of all classes, instead of
c_y/(c_y+1), and takes the mean of a new class as zero; the result depends on the order of the
stream. Here Σ is the pooled within-class covariance S/N in any order, and forgetting and merging
are exact. And its shrinkage is towards I itself; here it is towards the mean variance ν = tr(Σ)/d,
so that no answer depends on the scale of the features. The paper's own form is in
``everlearn_papers.slda``.

Symbols: z is ``x``, c_k is ``moments_.counts``, t is ``moments_.total``, t Σ is the scatter S.

Cost per example, d features and K classes: O(d²) to learn (BLAS-3 in blocks), O(d² + K d) to learn
and ask with ``learn_one`` / ``predict_one``; the published form needs O(d³ + K d²). Memory is
d² + K d numbers.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.linalg import eigh, solve_triangular
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from everlearn.arrays import Array, Slots, State, like, softmax
from everlearn.base import BOUNDED, EXACT, Promise
from everlearn.device.backend import device_backend
from everlearn.device.moments import DeviceMoments
from everlearn.errors import InvalidParameter, LostDefiniteness, NotForgettable, TooFewExamples
from everlearn.learners.closed_form.additive import AdditiveClassifier
from everlearn.learners.closed_form.discriminant import (
    ExactDiscriminant,
    LinearHead,
    Shrinkage,
    discriminant_head,
)
from everlearn.learners.closed_form.running_discriminant import RunningDiscriminant
from everlearn.learners.closed_form.screened import ScreenedMeans, ScreenedQuestion
from everlearn.learners.closed_form.sparse import sparse_backend, sparse_rows
from everlearn.learners.closed_form.start import start_of, unlabelled_covariance
from everlearn.statistics.labels import Label
from everlearn.statistics.moments import Moments
from everlearn.statistics.products import products, products_one
from everlearn.statistics.screening import MANY_ROWS, Products
from everlearn.validation import (
    checked_rows,
    require_flag,
    require_number,
    require_positive,
    require_share,
)

Priors = Literal["equal", "empirical"]
# Upper bound of the shrinkage: beyond it nothing of S would be left.
MOST_SHRINKAGE = 1.0 - 1e-6


class StreamingLDA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, AdditiveClassifier):
    """Linear discriminant analysis that learns one example at a time.

    Learning costs O(d²) per example, independent of the number learned; asking O(d² + K d).

    Parameters
    ----------
    shrinkage : float in (0, 1) or "oas", default=0.1
        ε: how much of the mean variance is mixed into the covariance. ``"oas"`` computes it from
        the data (Oracle Approximating Shrinkage) whenever the learner is asked.
    priors : {"equal", "empirical"} or a mapping from labels to weights, default="equal"
        Prior probability of each class: equal, proportional to its number of examples, or
        proportional to the given weights; a class missing from the mapping has weight one.
    class_scatter : bool, default=False
        Keep a separate scatter per class, K d² numbers instead of d². It makes ``forget_class``
        exact without the examples; ``forget`` with the examples is exact anyway.
    half_life : float of at least 1, optional
        The weight of an example halves after this many further examples, for streams that change.
        Exact, at the same cost; ``forget`` is refused, and ``merge`` takes both learners as of now.
    start_covariance : float, array of shape (n_features,) or (n_features, n_features), optional
        Σ₀, a known within-class covariance: one variance for all features, one for each, or a
        matrix. Read when the first example is learned. It counts as ``start_weight`` examples,
        Σ = (n₀ Σ₀ + S) / (n₀ + N), so that the first answers use it and later ones mostly the
        data. See :meth:`started_from` for unlabelled vectors.
    start_weight : float, default=1.0
        n₀.

    Attributes
    ----------
    classes_ : ndarray
        The labels taught, sorted.
    coef_ : ndarray of shape (n_classes, n_features)
    intercept_ : ndarray of shape (n_classes,)
        W and b of Eq. 1, in the order of ``classes_``, up to a term common to all classes.
    means_ : ndarray of shape (n_classes, n_features)
        μ, in the order of ``classes_``.
    covariance_ : ndarray of shape (n_features, n_features)
        Σ, before shrinkage.
    priors_ : ndarray of shape (n_classes,)
    moments_ : the underlying statistics

    See Also
    --------
    NearestClassMean : The same without a covariance, O(d) per example.
    FixedCovarianceLDA : Keeps the covariance of the first batch, O(d) per example.
    RecursiveRLSC : Least squares on the same statistics, with recoding for rare classes.

    Notes
    -----
    ``predict``, ``decision_function`` and ``predict_proba`` depend only on the examples learned.
    ``predict_one`` has a fixed cost, at the price of a tolerance: it uses a shrinkage within 5 % of
    the one requested (the term ε ν I of Eq. 6 cannot follow N by rank-one updates). The factor for
    the next shrinkage is computed in slices, one with every call, so that none stalls; with 1,280
    features it takes up to a hundred calls, and while fewer than about a thousand examples are
    known the shrinkage may be that of so many calls ago.

    ``decision_function`` is Eq. 1 up to a term common to all classes, which keeps full precision
    for features far from zero. ``predict_proba`` is the posterior.

    *Promises*: everything is exact: batch = loop = any order, merge, forget. Scaling all features
    by the same number changes no answer.

    With ``start_covariance`` all of this still holds: the start is a parameter, not something
    taught. After everything is forgotten the start remains, merging needs the same start in both
    learners and counts it once, and a scaling has to scale Σ₀ as well. It cannot be combined with
    ``half_life``, and such a learner computes on the host.

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

    _backends = (sparse_backend, device_backend)
    _takes_sparse = True

    def __init__(
        self,
        *,
        shrinkage: float | Literal["oas"] = 0.1,
        priors: Priors | Mapping[Label, float] = "equal",
        class_scatter: bool = False,
        half_life: float | None = None,
        start_covariance: float | ArrayLike | None = None,
        start_weight: float = 1.0,
    ) -> None:
        self.shrinkage = shrinkage
        self.priors = priors
        self.class_scatter = class_scatter
        self.half_life = half_life
        self.start_covariance = start_covariance
        self.start_weight = start_weight

    @classmethod
    def started_from(cls, X: ArrayLike, *, weight: float | None = None, **parameters: Any) -> Self:
        """A learner that starts from the covariance of unlabelled vectors.

        Their covariance includes the spread between classes, so it overestimates the within-class
        covariance; the more examples are taught, the less that matters.

        Parameters
        ----------
        X : array-like of shape (n_vectors, n_features)
            At least two vectors; only their covariance is kept.
        weight : float, optional
            Number of examples they count as; defaults to their number.
        **parameters : the other parameters of the learner
        """
        rows = checked_rows(X)
        if len(rows) < 2:
            raise TooFewExamples("one vector has no covariance; give at least two")
        return cls(
            start_covariance=unlabelled_covariance(rows),
            start_weight=float(len(rows) if weight is None else weight),
            **parameters,
        )

    @property
    def promises(self) -> frozenset[Promise]:
        exact = EXACT if self.class_scatter else EXACT - {Promise.FORGET_CLASS}
        return self._unless_fading(BOUNDED | exact)

    @property
    def coef_(self) -> Array:
        with self._lock:
            weights, _, _ = self._linear()
            return weights[self.registry_.order]

    @property
    def intercept_(self) -> Array:
        with self._lock:
            weights, bias, origin = self._linear()
            return (bias + self._log_priors() - weights @ origin)[self.registry_.order]

    @property
    def means_(self) -> Array:
        with self._lock:
            means: Array = self.moments_.means[self.registry_.order]
            return means.copy()

    @property
    def priors_(self) -> Array:
        with self._lock:
            logarithms = self._log_priors()[self.registry_.order]
        return softmax(logarithms)

    @property
    def covariance_(self) -> Array:
        with self._lock:
            return self.moments_.scatter() / self.moments_.scatter_weight

    def transform(self, X: Any) -> Array:
        """Coordinates along which the classes are separated most, in units of their spread.

        The directions v solve B v = λ Λ⁻¹ v, with B the covariance of the class means, weighted by
        ``priors_``; the largest λ first. There is one less than there are classes, and no more than
        features. O(d³ + K d²) for the directions.
        """
        with self._lock:
            self._require_fitted()
            directions = self._directions()
            if sp.issparse(X):
                rows = sparse_rows(self, X, reset=False)
                return rows.products(directions.T) - self.moments_.mean @ directions
            coordinates = (self._rows(X) - self.moments_.mean) @ directions
            return like(coordinates, X)

    @property
    def _n_features_out(self) -> int:
        return min(len(self.registry_) - 1, self.n_features_in_)

    def _directions(self) -> Array:
        share, floor = self._shrinkage()(self.moments_)
        within = (1.0 - share) * self.covariance_ + floor * np.eye(self.n_features_in_)
        gaps = self.means_ - self.priors_ @ self.means_
        try:
            lower = np.linalg.cholesky(within)
        except np.linalg.LinAlgError:
            raise LostDefiniteness(
                "the scatter within classes is singular, so there are no directions; give a larger "
                "shrinkage, or features that vary"
            ) from None
        whitened = solve_triangular(lower, gaps.T * np.sqrt(self.priors_), lower=True)
        _, vectors = eigh(whitened @ whitened.T)
        wanted = vectors[:, ::-1][:, : self._n_features_out]
        directions: Array = solve_triangular(lower.T, wanted, lower=False)
        return directions * np.where(directions.sum(axis=0) < 0, -1.0, 1.0)

    def linear_head(self) -> tuple[Array, Array]:
        with self._lock:
            self._require_fitted()
            return self.coef_, self.intercept_

    @property
    def _is_started(self) -> bool:
        """Whether there is a covariance before the first example."""
        return self.start_covariance is not None

    @property
    def exact_in_order(self) -> bool:
        return not self.class_scatter and not self._fades

    def _check_parameters(self) -> None:
        require_flag("class_scatter", self.class_scatter)
        require_share("shrinkage", self.shrinkage, or_word="oas")
        require_number("half_life", self.half_life, least=1.0, or_none=True)
        require_positive("start_weight", self.start_weight)
        if self._is_started and self._fades:
            raise InvalidParameter(
                "start_covariance cannot be combined with half_life, because the start would fade"
            )
        if isinstance(self.priors, Mapping):
            for label, weight in self.priors.items():
                require_positive(f"priors[{label!r}]", weight)
        elif not isinstance(self.priors, str) or self.priors not in get_args(Priors):
            raise InvalidParameter(
                "priors must be 'equal', 'empirical' or a mapping from labels to weights, not "
                f"{self.priors!r:.80}"
            )

    def _begin(self, n_features: int) -> None:
        self.moments_ = Moments(
            n_features,
            class_scatter=self.class_scatter,
            half_life=self.half_life,
            start=start_of(self.start_covariance, self.start_weight, n_features),
        )
        self._started_as = self.start_covariance, self.start_weight
        self._screened = ScreenedMeans()
        self._exact = ExactDiscriminant()
        self._running = RunningDiscriminant(n_features)

    def _require_same_start(self) -> None:
        """The start is read with the first example; a file with another one answers otherwise."""
        covariance, weight = self._started_as
        same = covariance is self.start_covariance or np.array_equal(
            np.asarray(covariance, dtype=np.float64),
            np.asarray(self.start_covariance, dtype=np.float64),
        )
        if not same or weight != self.start_weight:
            raise InvalidParameter(
                "start_covariance or start_weight was changed after examples were learned, which "
                "they are read before; set them back, or call fit to learn anew"
            )

    def _own_state(self) -> State:
        self._require_same_start()
        return super()._own_state()

    def _learn(self, X: Array, slots: Slots, weights: Array | None) -> None:
        self._require_same_start()
        self._running.follow(self.moments_.add(X, slots, weights), slots)

    def _learn_one(self, x: Array, slot: int) -> None:
        self._running.follow_one(self.moments_.add_one(x, slot), slot)

    def _forget_class(self, slot: int) -> None:
        if not self.class_scatter:
            raise NotForgettable(
                "one scatter matrix is kept for all classes, so the part of this class is not "
                "known; pass its examples to forget, or create the learner with "
                "class_scatter=True (K d² numbers of memory)"
            )
        super()._forget_class(slot)

    def _release(self, X: Array, slots: Slots, weights: Array | None) -> None:
        super()._release(X, slots, weights)
        self._after_other_change()

    def _after_other_change(self) -> None:
        self._running.invalidate()

    def _scores(self, X: Array) -> Array:
        weights, bias, origin = self._linear()
        scores = products(X - origin, weights)
        scores += bias + self._log_priors()
        return scores

    def _scores_one(self, x: Array) -> Array:
        scores = self._running.scores_one(x, self.moments_, self._shrinkage())
        if self.priors == "equal":
            return scores
        # These scores are in units of N / (1 − ε), see discriminant.py.
        share, _ = self._shrinkage()(self.moments_)
        return scores + self._log_priors() * (1.0 - share) / self.moments_.scatter_weight

    def _contenders(self, x: Array) -> tuple[Slots, Array] | None:
        return None if self.moments_.n_slots < MANY_ROWS else super()._contenders(x)

    def _screened_question(self, x: Array) -> ScreenedQuestion | None:
        asked = self._running.question(x, self.moments_, self._shrinkage())
        if asked is None or self.priors != "equal":
            return None
        z, bias = asked
        means = self.moments_.means
        share, _ = self._shrinkage()(self.moments_)
        # These scores are in units of N / (1 − ε), see discriminant.py.
        return ScreenedQuestion(
            lambda _: Products(z, bias=bias),
            lambda slots: products_one(means[slots], z) + bias[slots],
            self.moments_.scatter_weight / (1.0 - share),
        )

    def _log_priors(self) -> Array:
        """By slot, up to a term common to all classes; empty slots are never scored."""
        return self._log_priors_of(self.moments_.counts)

    def _log_priors_of(self, counts: Array) -> Array:
        if self.priors == "empirical":
            return np.log(np.maximum(counts, 1e-300))
        given = self.priors if isinstance(self.priors, Mapping) else {}
        if not given:
            return np.zeros(len(counts))
        labels = self.registry_.by_slot
        return np.log([1.0 if label is None else given.get(label, 1.0) for label in labels])

    def _linear(self) -> LinearHead:
        return self._exact.linear(self.moments_, self._shrinkage())

    def _shrinkage(self) -> Shrinkage:
        return shrinkage_named(self.shrinkage)

    # On a device.

    @property
    def _runs_on_device(self) -> bool:  # type: ignore[override]
        return not self.class_scatter and not self._fades and not self._is_started

    @property
    def _asked(self) -> object:
        priors = self.priors
        return self.shrinkage, tuple(priors.items()) if isinstance(priors, Mapping) else priors

    def _device_head(self, moments: DeviceMoments) -> LinearHead:
        head = discriminant_head(moments, self._shrinkage())
        if self.priors == "equal":
            return head
        return head._replace(
            bias=head.bias + moments.device.array(self._log_priors_of(moments.counts))
        )


@dataclass(frozen=True)
class TowardsMeanVariance:
    """A given share ε of the mean variance: r = ε ν."""

    share: float

    def __call__(self, moments: Moments | DeviceMoments) -> tuple[float, float]:
        return self.share, floor_of(self.share, moments.scatter_trace, moments)


@dataclass(frozen=True)
class Oracle:
    """The share computed by Oracle Approximating Shrinkage."""

    def __call__(self, moments: Moments | DeviceMoments) -> tuple[float, float]:
        if isinstance(moments, Moments):
            weight = oas_weight(moments.upper_scatter(), moments.scatter_weight)
        elif moments.scatter_trace > 0:
            squares = moments.squared_scatter()
            weight = oas_weight_of(squares, moments.n_features, moments.total)
        else:
            weight = 1.0
        weight = min(weight, MOST_SHRINKAGE)
        return weight, floor_of(weight, moments.scatter_trace, moments)


def shrinkage_named(parameter: float | str) -> Shrinkage:
    """The ``shrinkage`` of a learner as an object: a number, or "oas"."""
    return Oracle() if isinstance(parameter, str) else TowardsMeanVariance(float(parameter))


def oas_weight(upper_scatter: Array, total: float) -> float:
    """ε of Oracle Approximating Shrinkage, (1 − ε) S/N + ε ν I.

    Chen, Wiesel, Eldar and Hero 2010, Eq. 23, in the form scikit-learn uses; in units of ν, so
    that no square overflows.
    """
    d = upper_scatter.shape[0]
    variance = float(upper_scatter.diagonal().mean())
    if not variance > 0:
        return 1.0
    relative = upper_scatter / variance
    diagonal = relative.diagonal()
    mean_square = (diagonal @ diagonal + 2.0 * np.sum(np.triu(relative, 1) ** 2)) / d**2
    return oas_weight_of(mean_square, d, total)


def oas_weight_of(mean_square: float, d: int, total: float) -> float:
    """ε from the mean square of the entries of S in units of its mean diagonal."""
    denominator = (total + 1.0) * (mean_square - 1.0 / d)
    return 1.0 if denominator <= 0 else min(float((mean_square + 1.0) / denominator), 1.0)


def floor_of(weight: float, trace: float, moments: Moments | DeviceMoments) -> float:
    """The floor r of a share ε: ε ν."""
    # Without any variance all directions are equal: the identity, as in nearest class mean.
    return weight * trace / (moments.scatter_weight * moments.n_features) if trace > 0 else 1.0
