"""Recursive regularized least squares for classification, with class extension and recoding.

Ridge regression onto one indicator per class (Camoriano et al., *Incremental Robot Learning of New
Objects with Fixed Update Time*, ICRA 2017, Algorithm 1):

    A = Σ x xᵀ + λ I,   b_k = Σ_{i of class k} x_i = n_k μ_k                        Eq. 16-20
    W = A⁻¹ b Γ^α,      Γ = diag(N / n_k)                                           Eq. 21
    answer = argmax_k W_k·x                                                         Eq. 17

Γ^α recodes the targets so that a class with few examples is not dominated by classes with many; it
is a factor per class, applied when asked. λ I enters once. Rebalancing weights the examples instead
(Eq. 22). The paper calls it impossible to update, since every weight changes with every example;
with separate second moments per class it can be solved again at any time without the data:

    A = Σ_k γ_k (S_k + n_k μ_k μ_kᵀ) + λ I,   b_k = γ_k n_k μ_k,   γ_k = (N / n_k)^α

Symbols: λ is ``regularization``, α is ``recoding``; x and b are centred about the overall mean if
``fit_intercept`` is set, which is equivalent to an unpenalised intercept.

Cost per example, d features and K classes: O(d²) to learn, O(d² + K d) to ask. The published form
solves for all of W at every step, O(K d²). Here A's factor gets one rank-one update, and a question
costs two triangular solves, z = A⁻¹ x, and K products b_k·z. Memory is d² + K d numbers.
Everything is exact: batch = loop = any order; merge; forget.
"""

from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from everlearn.arrays import Array, Slots, State, as_numpy
from everlearn.base import BOUNDED, EXACT, ClassWeight, Promise
from everlearn.deprecation import DEPRECATED, warn_of_old_parameters
from everlearn.device.backend import device_backend
from everlearn.device.device import Device
from everlearn.device.moments import DeviceMoments
from everlearn.errors import InvalidParameter, NotForgettable
from everlearn.learners.closed_form.additive import AdditiveClassifier
from everlearn.learners.closed_form.least_squares import LeastSquares, LeastSquaresHead
from everlearn.learners.closed_form.model_selection import Question, Selection, select
from everlearn.learners.closed_form.sample import Sample, numbers_on_device
from everlearn.learners.closed_form.screened import ScreenedQuestion
from everlearn.learners.closed_form.sparse import sparse_backend
from everlearn.statistics.factor import Factor
from everlearn.statistics.moments import Moments
from everlearn.statistics.products import products_one
from everlearn.statistics.screening import Products
from everlearn.validation import (
    require_class_weight,
    require_flag,
    require_number,
    require_one_of,
    require_positive,
    require_whole,
)

Weighting = Literal["recode", "rebalance"]
# ``predict_one`` chooses λ and α again after this share of examples was added.
RESELECT_AFTER = 0.1
# With a half-life, λ may be relative to examples up to this many times fainter.
FADED = 1.05


class RecursiveRLSC(AdditiveClassifier):
    """Ridge regression onto class indicators, one example at a time.

    Learning costs O(d²) per example, independent of the number learned; asking O(d² + K d).

    Parameters
    ----------
    regularization : float > 0 or "auto", default=1.0
        λ. ``"auto"`` chooses among ``candidates`` by leave-one-out accuracy.
    recoding : float in [0, 1] or "auto", default=0.7
        α: how far rare classes are raised to the level of frequent ones; 0 is plain ridge
        regression, 1 makes all classes count the same. ``"auto"`` takes the largest value whose
        leave-one-out accuracy is as good as any. The paper found 0.6 to 0.7 on its three data sets.
    weighting : {"recode", "rebalance"}, default="recode"
        Recode the targets (Algorithm 1), or weight the examples (Eq. 22 with α = 1). Rebalancing
        keeps the scatter of each class, K d² numbers, and solves again, O(K d² + d³), at the first
        question after a change.
    class_weight : {"balanced"} or a mapping from labels to weights, optional
        As in scikit-learn. A mapping multiplies ``sample_weight`` when an example is learned or
        forgotten; a label missing from it has weight one. ``"balanced"`` gives every class the same
        total weight, N / (K n_k) for each of its n_k examples, with the counts of the moment of the
        question: rebalancing with α = 1 and λ K, so ``recoding`` has no effect. It costs what
        rebalancing costs.
    fit_intercept : bool, optional
        Add an unpenalised intercept. By default only together with ``class_weight``: a linear score
        without an intercept changes its sign at the origin, whatever the weights are.
    candidates : array-like of float, optional
        Values of λ to choose from. Defaults to 20 values, evenly spaced on a logarithmic scale,
        from 10 to 1e-4 times the mean scatter of a feature about the overall mean; they do not
        depend on the origin.
    validation_size : int, default=2000
        With ``"auto"``: the most examples kept for the choice; beyond it the largest classes give
        up theirs.
    class_scatter : bool, default=False
        Keep a separate scatter per class, K d² numbers, so that ``forget_class`` is exact without
        the examples. ``forget`` with the examples is exact anyway.
    half_life : float of at least 1, optional
        The weight of an example halves after this many further examples, for streams that change.
        Exact, at the same cost; ``forget`` is refused, and ``merge`` takes both learners as of now.
        λ is relative to the current weights. Not together with ``"auto"``. ``predict_one`` uses a
        λ up to 5 % smaller.
    hold_out_every : int
        Has no effect, since nothing is held out any more.

        .. deprecated:: 0.2

    Attributes
    ----------
    classes_ : ndarray
        The labels taught, sorted.
    coef_ : ndarray of shape (n_classes, n_features)
    intercept_ : ndarray of shape (n_classes,)
        The recoded W, in the order of ``classes_``.
    regularization_, recoding_ : float
        λ and α in use.
    moments_ : the underlying statistics

    See Also
    --------
    StreamingLDA : Discriminant analysis on the same statistics.

    Notes
    -----
    *Model selection*: a bounded sample of the examples is kept, independent of their order. Each is
    scored as if it had never been learned, which follows from the statistics in closed form; λ and
    then α are chosen by accuracy on them, each weighted as in the stream. One eigendecomposition
    gives the solutions for all λ. The middle one of all λ within a standard error of the highest
    accuracy is taken. The paper (Sec. VI-C) holds out every sixth example instead. ``predict``,
    ``decision_function`` and ``predict_proba`` choose again after every change; ``predict_one``
    when a tenth more examples were learned, in one call: a second with 1,280 features, 2,500 times
    as long as other questions. In a stream where no call may take long, give numbers, or use
    :class:`~everlearn.AutoClassifier`, which chooses in slices.

    ``predict_proba`` is the softmax of the scores over the residual variance (corrected for the
    degrees of freedom used): the posterior if residuals were Gaussian.

    *Promises*: exact: batch = loop = any order, merge, forget; with ``"auto"`` too. Forgetting then
    has one limit: where a class has more examples than the sample has room for, forgetting one that
    is kept leaves the sample one smaller than if it had never been learned.

    References
    ----------
    Camoriano et al., ICRA 2017.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from everlearn import RecursiveRLSC
    >>> X, y = load_digits(return_X_y=True)
    >>> learner = RecursiveRLSC(regularization="auto").fit(X[:1000] / 16, y[:1000])
    >>> bool(learner.score(X[1000:] / 16, y[1000:]) > 0.85)
    True
    """

    _backends = (sparse_backend, device_backend)
    _renamed_parameters: ClassVar[dict[str, str | None]] = {"hold_out_every": None}
    _takes_sparse = True

    def __init__(
        self,
        *,
        regularization: float | Literal["auto"] = 1.0,
        recoding: float | Literal["auto"] = 0.7,
        weighting: Weighting = "recode",
        class_weight: ClassWeight = None,
        fit_intercept: bool | None = None,
        candidates: Any = None,
        validation_size: int = 2000,
        class_scatter: bool = False,
        half_life: float | None = None,
        hold_out_every: int | str = DEPRECATED,
    ) -> None:
        self.regularization = regularization
        self.recoding = recoding
        self.weighting = weighting
        self.class_weight = class_weight
        self.fit_intercept = fit_intercept
        self.candidates = candidates
        self.validation_size = validation_size
        self.class_scatter = class_scatter
        self.half_life = half_life
        self.hold_out_every = hold_out_every

    @property
    def promises(self) -> frozenset[Promise]:
        exact = EXACT if self._keeps_class_scatter else EXACT - {Promise.FORGET_CLASS}
        return self._unless_fading(BOUNDED | exact)

    @property
    def regularization_(self) -> float:
        return self._current().regularization / self._ridge_factor

    @property
    def recoding_(self) -> float:
        return self._current().recoding

    @property
    def coef_(self) -> Array:
        coefficients: Array = self._current().coefficients()[self.registry_.order]
        return coefficients

    @property
    def intercept_(self) -> Array:
        intercepts: Array = self._current().intercepts()[self.registry_.order]
        return intercepts

    @property
    def temperature_(self) -> float:
        """The residual variance of a score, which scales scores to log-probabilities."""
        with self._lock:
            return self._current().noise()

    def linear_head(self) -> tuple[Array, Array]:
        with self._lock:
            self._require_fitted()
            return self.coef_, self.intercept_

    def linear_question(self, x: Array) -> tuple[Array, float, Array]:
        """Coefficients that turn class means into scores of one vector: a_k (μ_k·z + c) by slot.

        Returns
        -------
        z : ndarray of shape (n_features,)
        c : float
        a : ndarray of shape (n_slots,)
        """
        with self._lock:
            solution = self._current()
            z, offset, scale = solution.question(np.asarray(x, dtype=np.float64))
            return z, offset, self.moments_.total**solution.recoding * scale

    def inverse_times(self, rows: Array) -> Array:
        """A⁻¹ applied to every row, for what was learned until now."""
        with self._lock:
            self._require_fitted()
            return self._current().solve(np.ascontiguousarray(rows, dtype=np.float64))

    def computed_factor(self) -> Array:
        """R with RᵀR = A, computed from the statistics, which takes O(K d² + d³)."""
        with self._lock:
            self._require_fitted()
            return self._solve().factor()

    def take_factor(self, R: Array) -> None:
        """Use the result of :meth:`computed_factor` for the same statistics, if it is accurate."""
        with self._lock:
            self._require_fitted()
            solution = self._solve(Factor.of(R))
            solution.check(now=True)
            self._keep(solution)

    def frozen_solution(self, moments: Any) -> LeastSquares:
        """The solution for what was learned until now, for moments that do not change."""
        with self._lock:
            self._require_fitted()
            return self._current().frozen(moments)

    @property
    def _chooses(self) -> bool:
        return isinstance(self.regularization, str) or isinstance(self.recoding, str)

    @property
    def _keeps_class_scatter(self) -> bool:
        return self.class_scatter or self._rebalances

    @property
    def _has_intercept(self) -> bool:
        return self.class_weight is not None if self.fit_intercept is None else self.fit_intercept

    @property
    def _balanced(self) -> bool:
        return isinstance(self.class_weight, str)

    @property
    def _rebalances(self) -> bool:
        return self.weighting == "rebalance" or self._balanced

    @property
    def exact_in_order(self) -> bool:
        return not (self._chooses or self._keeps_class_scatter or self._fades)

    def _check_parameters(self) -> None:
        require_positive("regularization", self.regularization, or_word="auto")
        require_number("recoding", self.recoding, least=0.0, most=1.0, or_word="auto")
        require_one_of("weighting", self.weighting, get_args(Weighting))
        require_class_weight(self.class_weight, balances=True)
        if self.fit_intercept is not None:
            require_flag("fit_intercept", self.fit_intercept)
        require_flag("class_scatter", self.class_scatter)
        warn_of_old_parameters(self)
        require_whole("validation_size", self.validation_size)
        require_number("half_life", self.half_life, least=1.0, or_none=True)
        if self._fades and self._chooses:
            raise InvalidParameter(
                "with a half_life, regularization and recoding must be numbers, because the "
                "examples kept for the choice would have to fade as well"
            )
        if self.candidates is None:
            return
        if np.ndim(self.candidates) != 1 or not len(self.candidates):
            raise InvalidParameter("candidates must be a list of positive numbers to choose λ from")
        for value in np.asarray(self.candidates).tolist():
            require_positive("each of candidates", value)

    def _empty_moments(self, n_features: int) -> Moments:
        return Moments(
            n_features, class_scatter=self._keeps_class_scatter, half_life=self.half_life
        )

    def _begin(self, n_features: int) -> None:
        super()._begin(n_features)
        self._sample = Sample(n_features, int(self.validation_size))
        # Two solutions: one updated with every example, one exact after a choice.
        self._running = _Solution()
        self._fresh = _Solution()

    def _learn(self, X: Array, slots: Slots, weights: Array | None) -> None:
        solution = self._running.solution
        weighed = self.moments_.weights_of_next(len(X), weights)
        rows = solution.rows_beside(X, weighed) if solution else None
        super()._learn(X, slots, weights)
        if solution:
            solution.follow(rows)
        if self._chooses:
            self._sample.offer(X, slots, weights)

    def _learn_one(self, x: Array, slot: int) -> None:
        solution = self._running.solution
        weighed = self.moments_.weights_of_next(1, None)
        rows = solution.rows_beside(x[None], weighed) if solution else None
        self.moments_.add_one(x, slot)
        if solution:
            solution.follow_one(rows, slot)
        if self._chooses:
            self._sample.offer(x[None], np.array([slot]), None)

    def _release(self, X: Array, slots: Slots, weights: Array | None) -> None:
        super()._release(X, slots, weights)
        solution = self._running.solution
        if solution:
            solution.unfollow(solution.rows_beside(X, weights))
        if self._chooses:
            self._sample.discard(X, slots, weights)

    def _forget_class(self, slot: int) -> None:
        if not self._keeps_class_scatter:
            raise NotForgettable(
                "second moments are kept for all classes together, so the part of this class is "
                "not known; pass its examples to forget, or create the learner with "
                "class_scatter=True (K d² numbers of memory)"
            )
        super()._forget_class(slot)
        if self._chooses:
            self._sample.discard_class(slot)

    def _merge(self, other: Any, slots: Slots) -> None:
        super()._merge(other, slots)
        if self._chooses:
            self._sample.absorb(other._sample, slots)

    def _after_other_change(self) -> None:
        if self._running.solution:
            self._running.solution.invalidate()

    def _scores(self, X: Array) -> Array:
        return self._current().scores(X)

    def _scores_one(self, x: Array) -> Array:
        return self._recent().scores_one(x)

    def _screened_question(self, x: Array) -> ScreenedQuestion:
        solution = self._recent()
        z, offset, scale = solution.question(x)
        means = self.moments_.means
        return ScreenedQuestion(
            lambda _: Products(z, scale, offset),
            lambda slots: (products_one(means[slots], z) + offset) * scale[slots],
            self.moments_.total**solution.recoding,
        )

    def _current(self) -> LeastSquares:
        """The solution for exactly what was learned, with the current parameters."""
        if not self._chooses and not self._fades:
            return self._recent()
        kept = self._fresh
        if kept.solution is None or kept.made_for != (self._asked, self.moments_.version):
            kept.solution = self._solve()
            kept.made_for = (self._asked, self.moments_.version)
        return kept.solution

    def _recent(self) -> LeastSquares:
        """The solution updated with every example, with recently chosen λ and α."""
        kept = self._running
        total, unit = self.moments_.total, self.moments_.unit
        grown = self._chooses and not (kept.total <= total <= kept.total * (1.0 + RESELECT_AFTER))
        # λ grows relative to fading examples; a factor cannot follow that.
        grown = grown or not kept.unit <= unit <= kept.unit * FADED
        if kept.solution is None or kept.made_for != self._asked or grown:
            return self._keep(self._solve())
        return kept.solution

    def _keep(self, solution: LeastSquares) -> LeastSquares:
        """Update this solution from now on."""
        kept = self._running
        kept.solution, kept.made_for = solution, self._asked
        kept.total, kept.unit = self.moments_.total, self.moments_.unit
        return solution

    @property
    def _asked(self) -> tuple[object, ...]:
        balanced = self._balanced and self._ridge_factor
        return self.regularization, self.recoding, self.weighting, self._has_intercept, balanced

    @property
    def _ridge_factor(self) -> float:
        """K if balanced: weights N / (K n_k) with λ give the scores of N / n_k with λ K."""
        return float(np.count_nonzero(self.moments_.counts)) if self._balanced else 1.0

    @property
    def _given(self) -> tuple[float | None, float | None]:
        """λ and α as given, for rebalancing or recoding; None if they are to be chosen."""
        lam, alpha = self.regularization, 1.0 if self._balanced else self.recoding
        return (
            None if isinstance(lam, str) else float(lam) * self._ridge_factor,
            None if isinstance(alpha, str) else float(alpha),
        )

    def _solve(self, factor: Factor | None = None) -> LeastSquares:
        """A solution with λ and α as given, or chosen now; ``factor`` is used if given."""
        if self._rebalances and not self.moments_.keeps_class_scatter:
            word = "class_weight='balanced'" if self._balanced else "weighting='rebalance'"
            raise InvalidParameter(
                f"{word} needs the scatter of each class from the first example on; create and "
                "teach a new learner"
            )
        return self._solved(self._select(self.moments_), factor)

    def _solved(self, chosen: Selection, factor: Factor | None = None) -> LeastSquares:
        return LeastSquares(
            self.moments_,
            chosen.regularization,
            chosen.recoding,
            rebalance=self._rebalances,
            intercept=self._has_intercept,
            factor=factor,
        )

    def _select(self, moments: Moments | DeviceMoments) -> Selection:
        """λ and α as given, or chosen."""
        lam, alpha = self._given
        if lam is not None and alpha is not None:
            return Selection(lam, alpha)
        return select(moments, self._sample.rows(), self._question())

    def _question(self) -> Question:
        lam, alpha = self._given
        candidates = self.candidates
        if candidates is not None:
            candidates = np.asarray(candidates, dtype=np.float64) * self._ridge_factor
        return Question(
            regularization=lam,
            recoding=alpha,
            candidates=candidates,
            rebalance=self._rebalances,
            intercept=self._has_intercept,
        )

    # On a device.

    @property
    def _runs_on_device(self) -> bool:  # type: ignore[override]
        return not self._keeps_class_scatter and not self._fades

    def _device_head(self, moments: DeviceMoments) -> LeastSquaresHead:
        chosen = self._select(moments)
        return LeastSquaresHead(
            moments, chosen.regularization, chosen.recoding, intercept=self._has_intercept
        )

    def _watcher(self, slots: Slots, weights: Array | None) -> "_SampleWatcher | None":
        return _SampleWatcher(self, slots, weights) if self._chooses else None

    # The state in a file.

    def _own_state(self) -> State:
        arrays, notes = super()._own_state()
        return arrays | (self._sample.state() if self._chooses else {}), notes

    def _own_restore(self, arrays: dict[str, NDArray[Any]], notes: dict[str, Any]) -> None:
        super()._own_restore(arrays, notes)
        if not self._chooses:
            return
        if "held_rows" not in arrays:
            self._sample.restore_from(arrays, self.moments_)
            return
        from everlearn.learners.closed_form.held_out import held_out_choice, held_out_rows

        rows = held_out_rows(arrays, self.moments_)
        self._sample.restore(rows.X, rows.slots, rows.weights, self.moments_.counts.copy())
        chosen = held_out_choice(self.moments_, rows, self._question())
        self._fresh.solution = self._solved(chosen)
        self._fresh.made_for = (self._asked, self.moments_.version)


class _Solution:
    """A solution and its parameters; mutable, so that predict never writes to `__dict__`."""

    def __init__(self) -> None:
        self.solution: LeastSquares | None = None
        self.made_for: object = None
        self.total = 0.0
        self.unit = 1.0


class _SampleWatcher:
    """Offers rows learned on a device to the sample; only those it keeps are copied."""

    def __init__(self, learner: RecursiveRLSC, slots: Slots, weights: Array | None) -> None:
        self._learner = learner
        self._slots, self._weights = slots, weights
        self._sample = learner._sample.copy()

    def see(self, device: Device, rows: Any, part: slice) -> None:
        slots = self._slots[part]
        weights = None if self._weights is None else self._weights[part]
        counted = np.arange(len(slots)) if weights is None else np.flatnonzero(weights)
        numbers = numbers_on_device(device, rows)[counted]

        def wanted(chosen: Slots) -> Array:
            if not len(chosen):
                return np.zeros((0, int(rows.shape[1])))
            where = device.indices(counted[chosen])
            return as_numpy(device.xp.take(rows, where, axis=0)).astype(np.float64)

        weighed = None if weights is None else weights[counted]
        self._sample.offer_numbered(numbers, slots[counted], weighed, wanted)

    def done(self) -> None:
        self._learner._sample = self._sample
