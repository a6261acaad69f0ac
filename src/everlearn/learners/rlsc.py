"""Recursive regularized least squares for classification, with class extension and recoding.

Ridge regression onto one indicator per class (Camoriano et al., *Incremental Robot Learning of New
Objects with Fixed Update Time*, ICRA 2017, Algorithm 1):

    A = Σ x xᵀ + λ I,   b_k = Σ_{i of class k} x_i = n_k μ_k                        Eq. 16-20
    W = A⁻¹ b Γ^α,      Γ = diag(N / n_k)                                           Eq. 21
    answer = argmax_k W_k·x                                                         Eq. 17

Γ^α recodes the targets so that a class with few examples is not drowned by classes with many; it
is a scale per class at the time of asking. λ I enters once. Rebalancing weights the examples
instead (Eq. 22); the paper calls it impossible to update, and indeed every weight changes with
every example, but with the second moments of each class kept apart it can be solved anew at any
time without the data:

    A = Σ_k γ_k (S_k + n_k μ_k μ_kᵀ) + λ I,   b_k = γ_k n_k μ_k,   γ_k = (N / n_k)^α

Symbols: λ is ``regularization``, α is ``recoding``; x and b are centred about the mean of all
examples if ``fit_intercept`` is set, which is the same as an intercept without penalty.

Cost per example, d features and K classes: O(d²) to learn, O(d² + K d) to ask. The published form
solves for all of W at every step, O(K d²). Here A's factor follows by one rank-one update, and a
question costs two triangular solves, z = A⁻¹ x, and K products b_k·z. Memory d² + K d.
Exact in every sense: batch = loop = any order; merge; forget.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everlearn.arrays import Array, Slots, State, as_numpy
from everlearn.base import BOUNDED, EXACT, Promise
from everlearn.device.device import Incoming
from everlearn.errors import InvalidParameter, NotForgettable
from everlearn.learners.closed_form.additive import AdditiveClassifier
from everlearn.learners.closed_form.device_heads import DeviceLeastSquares
from everlearn.learners.closed_form.least_squares import LeastSquares
from everlearn.learners.closed_form.model_selection import HeldOut, Selection, select
from everlearn.learners.closed_form.on_device import DeviceClassifier
from everlearn.learners.closed_form.screened import Products
from everlearn.learners.closed_form.sparse import TakesSparse
from everlearn.parameters import (
    require_flag,
    require_number,
    require_one_of,
    require_positive,
    require_whole,
)
from everlearn.statistics.device_moments import DeviceMoments
from everlearn.statistics.moments import Moments
from everlearn.statistics.products import products_one
from everlearn.statistics.stored import stored_whole

# ``predict_one`` chooses λ and α anew when this share of examples has come in since it last did.
RESELECT_AFTER = 0.1
# With a half-life it takes λ from up to so many times fainter examples.
FADED = 1.05


class RecursiveRLSC(TakesSparse, DeviceClassifier, AdditiveClassifier):
    """Ridge regression onto class indicators, one example at a time.

    Learning costs O(d²) per example however much was learned before, asking O(d² + K d).

    Parameters
    ----------
    regularization : float > 0 or "auto", default=1.0
        λ. ``"auto"`` chooses among ``candidates`` by accuracy on held-out examples.
    recoding : float in [0, 1] or "auto", default=0.7
        α: how far rare classes are brought up to frequent ones; 0 is plain ridge regression, 1
        makes all classes count the same. ``"auto"`` takes the largest value that costs well-known
        classes no accuracy. The paper found 0.6 to 0.7 on its three data sets.
    weighting : {"recode", "rebalance"}, default="recode"
        Recode the targets (Algorithm 1), or weight the examples (Eq. 22 with α = 1). Rebalancing
        keeps the scatter of each class, K d² numbers, and solves anew, O(K d² + d³), at the first
        question after a change.
    fit_intercept : bool, default=False
        Add an intercept, not penalised.
    candidates : array-like of float, optional
        Values of λ to choose from. By default 20 values, evenly spaced in their logarithm, from
        10 to 1e-4 times the mean scatter of a feature about the mean of all examples, wherever
        the origin is.
    hold_out_every : int, default=6
        With ``"auto"``: every this-many-th example is held out to choose by.
    validation_size : int, default=2000
        The most examples held out at any time; beyond it the largest classes give theirs up.
    class_scatter : bool, default=False
        Keep the scatter of each class apart, K d² numbers, so that ``forget_class`` is exact
        without the examples. ``forget`` with the examples is exact anyway.
    half_life : float of at least 1, optional
        After so many further examples an example counts for half as much: for streams that change.
        Exact, at the same cost; ``forget`` is refused, and ``merge`` takes both learners as of now.
        λ is beside examples as they count now. Not together with ``"auto"``. ``predict_one`` uses
        a λ up to 5 % smaller.

    Attributes
    ----------
    classes_ : ndarray
        The labels taught, sorted.
    coef_ : ndarray of shape (n_classes, n_features)
    intercept_ : ndarray of shape (n_classes,)
        The recoded W, in the order of ``classes_``.
    regularization_, recoding_ : float
        λ and α in force.
    moments_ : the statistics all this is read from

    See Also
    --------
    StreamingLDA : Another reading of the same statistics.

    Notes
    -----
    *Model selection* (Sec. VI-C): every sixth example is set aside, λ and then α are chosen by
    accuracy on them with the others as training set, counting only classes that have at least half
    as many held-out examples as the median class. One eigendecomposition gives the solutions for
    all λ. Where the paper takes the λ with the highest accuracy, the middle one of all within a
    standard error of it is taken. Beyond the paper, the held-out examples are learned as well once
    the choice is made, with λ scaled by the number of examples. ``predict``, ``decision_function``
    and ``predict_proba`` choose anew after every change; ``predict_one`` when a tenth more examples
    have come in.

    ``predict_proba`` is the softmax of the scores over the residual variance (corrected for the
    degrees of freedom used): the posterior if residuals were Gaussian.

    *Promises*: exact. With ``"auto"`` the statistics are exact, but which examples are held out,
    and so the chosen λ and α, depend on the order of the stream.

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

    def __init__(
        self,
        *,
        regularization: float | str = 1.0,
        recoding: float | str = 0.7,
        weighting: str = "recode",
        fit_intercept: bool = False,
        candidates: Any = None,
        hold_out_every: int = 6,
        validation_size: int = 2000,
        class_scatter: bool = False,
        half_life: float | None = None,
    ) -> None:
        self.regularization = regularization
        self.recoding = recoding
        self.weighting = weighting
        self.fit_intercept = fit_intercept
        self.candidates = candidates
        self.hold_out_every = hold_out_every
        self.validation_size = validation_size
        self.class_scatter = class_scatter
        self.half_life = half_life

    @property
    def promises(self) -> frozenset[Promise]:
        if self._chooses:
            return BOUNDED | {Promise.BATCH_IS_LOOP}
        exact = EXACT if self._keeps_class_scatter else EXACT - {Promise.FORGET_CLASS}
        return self._unless_fading(BOUNDED | exact)

    @property
    def regularization_(self) -> float:
        return self._current().regularization

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
        """The residual variance of a score: what makes scores differences of log-probabilities."""
        with self._lock:
            return self._current().noise()

    def linear_head(self) -> tuple[Array, Array]:
        with self._lock:
            return self.coef_, self.intercept_

    @property
    def _chooses(self) -> bool:
        return isinstance(self.regularization, str) or isinstance(self.recoding, str)

    @property
    def _keeps_class_scatter(self) -> bool:
        return self.class_scatter or self.weighting == "rebalance"

    def _check_parameters(self) -> None:
        require_positive("regularization", self.regularization, or_word="auto")
        require_number("recoding", self.recoding, least=0.0, most=1.0, or_word="auto")
        require_one_of("weighting", self.weighting, ("recode", "rebalance"))
        require_flag("fit_intercept", self.fit_intercept)
        require_flag("class_scatter", self.class_scatter)
        # Every second at most: something has to be left to learn from.
        require_whole("hold_out_every", self.hold_out_every, least=2)
        require_whole("validation_size", self.validation_size)
        require_number("half_life", self.half_life, least=1.0, or_none=True)
        if self._fades and self._chooses:
            raise InvalidParameter(
                "with a half_life, regularization and recoding are numbers: what was held out to "
                "choose by has faded since"
            )
        if self.candidates is None:
            return
        if np.ndim(self.candidates) != 1 or not len(self.candidates):
            raise InvalidParameter("candidates is a list of positive numbers to choose λ from")
        for value in np.asarray(self.candidates).tolist():
            require_positive("each of candidates", value)

    def _empty_moments(self, n_features: int) -> Moments:
        return Moments(
            n_features, class_scatter=self._keeps_class_scatter, half_life=self.half_life
        )

    def _begin(self, n_features: int) -> None:
        super()._begin(n_features)
        self._held_out = HeldOut(n_features, every=self.hold_out_every, size=self.validation_size)
        # Two readings: one that follows every example, one that is exact after a choice.
        self._running = _Reading()
        self._fresh = _Reading()

    @property
    def runs_on_device(self) -> bool:
        return not self._keeps_class_scatter and not self._fades

    @property
    def _learns_one_there(self) -> bool:
        return not self._chooses

    def _reading(self) -> DeviceLeastSquares:
        return DeviceLeastSquares(
            self._choose_at if self._chooses else self._given,
            intercept=self.fit_intercept,
            reselect_after=RESELECT_AFTER,
        )

    def _given(self, moments: DeviceMoments) -> tuple[float, float]:
        return float(self.regularization), float(self.recoding)

    def _choose_at(self, moments: DeviceMoments) -> tuple[float, float]:
        """λ and α from moments on some device."""
        from everlearn.learners.closed_form.device_selection import select_at

        given = None if self.candidates is None else np.asarray(self.candidates, dtype=np.float64)
        return select_at(
            moments,
            self._held_out,
            regularization=None if isinstance(self.regularization, str) else self.regularization,
            recoding=None if isinstance(self.recoding, str) else self.recoding,
            candidates=given,
            intercept=self.fit_intercept,
        )

    def _beside(
        self, incoming: Incoming, slots: Slots, weights: Array | None
    ) -> Callable[[], Callable[[], None]]:
        if not self._chooses:
            return super()._beside(incoming, slots, weights)
        counted = np.flatnonzero(np.ones(len(slots)) if weights is None else weights)
        slots, weights = slots[counted], None if weights is None else weights[counted]
        held_out = self._held_out
        # While rows are added up elsewhere, this thread finds out which of them will be kept.
        with_time = ThreadPoolExecutor(1)
        planned = with_time.submit(held_out.places_for, slots)
        with_time.shutdown(wait=False)

        def ready() -> Callable[[], None]:
            found = planned.result()
            kept = counted[list(found.values())]
            rows = as_numpy(incoming.rows(kept)) if found else np.zeros((0, self.n_features_in_))
            return lambda: held_out.take(found, rows, slots, weights)

        return ready

    def _absorb(self, X: Array, slots: Slots, weights: Array | None) -> None:
        solution = self._running.solution
        weighed = self.moments_.weights_of_next(len(X), weights)
        rows = solution.rows_beside(X, weighed) if solution else None
        super()._absorb(X, slots, weights)
        if solution:
            solution.follow(rows)
        if self._chooses:
            self._held_out.offer(X, slots, weights)

    def _learn_one(self, x: Array, slot: int) -> None:
        solution = self._running.solution
        weighed = self.moments_.weights_of_next(1, None)
        rows = solution.rows_beside(x[None], weighed) if solution else None
        self.moments_.add_one(x, slot)
        if solution:
            solution.follow_one(rows, slot)
        if self._chooses:
            self._held_out.offer(x[None], np.array([slot]))

    def _release(self, X: Array, slots: Slots, weights: Array | None) -> None:
        super()._release(X, slots, weights)
        solution = self._running.solution
        if solution:
            solution.unfollow(solution.rows_beside(X, weights))
        self._held_out.discard(X, slots)

    def _forget_class(self, slot: int) -> None:
        if not self._keeps_class_scatter:
            raise NotForgettable(
                "second moments are kept for all classes together, and the part of this class "
                "cannot be told from the rest; pass its examples to forget, or build the learner "
                "with class_scatter=True (K d² numbers of memory)"
            )
        super()._forget_class(slot)
        self._held_out.discard_class(slot)

    def _merge(self, other: Any, slots: Slots) -> None:
        super()._merge(other, slots)
        self._held_out.absorb(other._held_out, slots)

    def _after_other_change(self) -> None:
        if self._running.solution:
            self._running.solution.invalidate()

    def _scores(self, X: Array) -> Array:
        return self._current().scores(X)

    def _scores_one(self, x: Array) -> Array:
        return self._recent().scores_one(x)

    def _screened_scores(self, x: Array) -> tuple[Slots, Array] | None:
        solution = self._recent()
        z, offset, scale = solution.question(x)
        asked = Products(z, scale, offset)
        slots = self._screened.candidates(self.moments_, lambda _: asked)
        if slots is None:
            return None
        return slots, (products_one(self.moments_.means[slots], z) + offset) * scale[slots]

    def _current(self) -> LeastSquares:
        """The solution for exactly what was taught, with the parameters as they are now."""
        if not self._chooses and not self._fades:
            return self._recent()
        reading = self._fresh
        if reading.solution is None or reading.made_for != (self._asked, self.moments_.version):
            reading.solution = self._solve()
            reading.made_for = (self._asked, self.moments_.version)
        return reading.solution

    def _recent(self) -> LeastSquares:
        """The solution that follows every example, with λ and α chosen not long ago."""
        reading = self._running
        total, unit = self.moments_.total, self.moments_.unit
        grown = self._chooses and not (
            reading.total <= total <= reading.total * (1.0 + RESELECT_AFTER)
        )
        # λ grows beside examples that fade; a factor cannot follow that.
        grown = grown or not reading.unit <= unit <= reading.unit * FADED
        if reading.solution is None or reading.made_for != self._asked or grown:
            reading.solution = self._solve()
            reading.made_for = self._asked
            reading.total, reading.unit = total, unit
        return reading.solution

    @property
    def _asked(self) -> tuple[object, ...]:
        return self.regularization, self.recoding, self.weighting, self.fit_intercept

    def _solve(self) -> LeastSquares:
        """A solution with λ and α as given, or chosen now."""
        if self.weighting == "rebalance" and not self.moments_.keeps_class_scatter:
            raise InvalidParameter(
                "weighting='rebalance' needs the scatter of each class from the first example on; "
                "teach a new learner"
            )
        if self._chooses:
            chosen = self._select()
        else:
            chosen = Selection(float(self.regularization), float(self.recoding))
        return LeastSquares(
            self.moments_,
            chosen.regularization,
            chosen.recoding,
            rebalance=self.weighting == "rebalance",
            intercept=self.fit_intercept,
        )

    def _select(self) -> Selection:
        given = None if self.candidates is None else np.asarray(self.candidates, dtype=np.float64)
        return select(
            self.moments_,
            self._held_out,
            regularization=None if isinstance(self.regularization, str) else self.regularization,
            recoding=None if isinstance(self.recoding, str) else self.recoding,
            candidates=given,
            rebalance=self.weighting == "rebalance",
            intercept=self.fit_intercept,
        )

    def _own_state(self) -> State:
        arrays, notes = super()._own_state()
        if self._chooses:
            arrays |= self._held_out.state()
            notes["seen"] = self._held_out.seen
        return arrays, notes

    def _own_restore(self, arrays: dict[str, NDArray[Any]], notes: dict[str, Any]) -> None:
        super()._own_restore(arrays, notes)
        if self._chooses:
            seen = stored_whole(notes, "seen", most=2**63 - 1)
            self._held_out.restore(arrays, seen, self.registry_.n_slots)


class _Reading:
    """A solution and what it was made for; mutable, so that asking leaves the learner's dict be."""

    def __init__(self) -> None:
        self.solution: LeastSquares | None = None
        self.made_for: object = None
        self.total = 0.0
        self.unit = 1.0
