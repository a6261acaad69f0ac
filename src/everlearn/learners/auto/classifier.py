"""A classifier that chooses its own head by leave-one-out.

Nearest class mean, discriminant analysis and least squares are computed from the same class
moments, and which of them is best depends on the data and on how much of it there is. A bounded
sample of the examples is kept beside the moments (``sample.py``). Each kept example is scored
leave-one-out by every head at every regularization (``leave_one_out.py``, both in
``closed_form/``), and the first head in an order of preference that is as good as any is used
(``selection.py``). Nothing is learned twice, and nothing is held out: the sample is learned as
well.

    ridge          least squares with an intercept, λ relative to the mean variance tr(T) / d
    discriminant   shrunk towards the mean variance tr(S) / d
    nearest mean   the discriminant with equal variances
    kernel         least squares on infinitely many ReLU features, while all examples are kept
    random feat.   least squares on D of them, from then on (``random_features.py``)

Cost per example O(d²), with random features O(D²); a choice costs O(d³ + D³ + m d (d + K)) for m
kept examples and is made when a tenth more was learned (``predict_one``, in slices:
``following.py``) or after any change (``predict``). Memory is d² + K d + m d numbers, plus the
budget for heads on random features.
"""

from typing import Any, ClassVar

import numpy as np

from everlearn.arrays import AnyArray, Array, Slots, State
from everlearn.base import BOUNDED, EXACT, Promise
from everlearn.deprecation import DEPRECATED, parameter, warn_of_old_parameters
from everlearn.errors import NotForgettable
from everlearn.learners.auto.arc_cosine import KernelSquares, kernel_squares
from everlearn.learners.auto.following import FollowedHead
from everlearn.learners.auto.heads import nearest_mean_scores, ridge_of, shrinkage_of
from everlearn.learners.auto.random_features import RandomFeatureMoments
from everlearn.learners.auto.selection import (
    DISCRIMINANT,
    FEATURES,
    KERNEL,
    NEAREST,
    Frozen,
    HeadChoice,
    LearnedState,
    Selected,
    choose,
)
from everlearn.learners.closed_form.additive import AdditiveClassifier
from everlearn.learners.closed_form.discriminant import ExactDiscriminant
from everlearn.learners.closed_form.least_squares import LeastSquares
from everlearn.learners.closed_form.leave_one_out import LearnedRows
from everlearn.learners.closed_form.sample import Sample
from everlearn.statistics.moments import Moments
from everlearn.statistics.slices import finished
from everlearn.statistics.validated import validated_flag
from everlearn.validation import require_number, require_whole


class AutoClassifier(AdditiveClassifier):
    """Chooses among closed-form heads by leave-one-out accuracy on its own examples.

    Parameters
    ----------
    sample_size : int, default=8000
        The most examples kept, for the choice and for the kernel; beyond it the largest classes
        give up theirs.
    memory_mb : float, default=512
        Megabytes for heads on random features beside the linear ones; 0 for linear heads only. A
        kernel of n examples takes 8 n² bytes while it is used, D features always take 16 D² bytes:
        512 MB are 8,000 examples and 5,600 features, 2 GB are 16,000 (with a ``sample_size`` of as
        many) and 11,000. While ``predict_one`` chooses again, the next head takes as much again.
    microseconds : float, optional
        Time budget per example for heads on random features, at 20 billion operations a second.
    memory : float
        The old name of ``memory_mb``.

        .. deprecated:: 0.2

    Attributes
    ----------
    choice_ : HeadChoice
        The current choice of head.
    why_ : str
        The choice and its reason, as a sentence.
    classes_ : ndarray
    temperature_ : float
        Maximises the leave-one-out likelihood of the kept examples.
    moments_ : the underlying statistics

    See Also
    --------
    RecursiveRLSC, StreamingLDA, NearestClassMean : The single heads.
    PowerNormalizer : Use it before features from a neural network.

    Notes
    -----
    A kernel of all examples is more accurate than 5,600 features (by two points where 45 to 80 of
    each of 100 classes are known) and costs nothing to learn; accuracy may therefore drop slightly
    when the first example no longer fits. If that matters, give more memory and a larger sample.

    ``predict``, ``decision_function`` and ``predict_proba`` depend only on the examples learned.
    ``predict_one`` keeps a choice until a tenth more examples were learned; then the next head is
    chosen and computed in slices, one with every example and every question, and the current one
    answers until it is ready, 200 to 500 calls later with 1,280 features. Which head answers
    depends on the calls, not on time. Batches of up to 64 examples count as one call.

    *Promises*: batch = loop = any order, merge and forget are exact. Forgetting has one limit:
    where a class has more examples than the sample has room for, forgetting one that is kept leaves
    the sample one smaller than if it had never been learned, and the choice may differ.
    ``forget_class`` would need the scatter of each class; pass its examples to ``forget``.

    *Cost*: O(d²) to learn an example, with random features O(D²). A new choice costs
    O(d³ + m d (d + K)) for m kept examples, at once for a batch of questions after a change, or for
    one question after a batch of more than 64: 2 to 13 s with 1,280 features. In a stream no call
    stalls for it: of the first 12,500 questions with 1,280 features the median takes 14 ms, the
    longest 0.4 s, 26 times the median, and the longest example 0.6 s; after that the longest
    question takes nine times the median.

    References
    ----------
    Allen, *The relationship between variable selection and data augmentation*, Technometrics 1974
    (leave-one-out for least squares). Lachenbruch and Mickey, Technometrics 1968 (for a
    discriminant).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from everlearn import AutoClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> learner = AutoClassifier().fit(X[:1000], y[:1000])
    >>> bool(learner.score(X[1000:], y[1000:]) > 0.9)
    True
    >>> learner.choice_.head
    'arc-cosine kernel ridge regression'
    """

    _renamed_parameters: ClassVar[dict[str, str | None]] = {"memory": "memory_mb"}

    def __init__(
        self,
        *,
        sample_size: int = 8000,
        memory_mb: float = 512.0,
        microseconds: float | None = None,
        memory: float | str = DEPRECATED,
    ) -> None:
        self.sample_size = sample_size
        self.memory_mb = memory_mb
        self.microseconds = microseconds
        self.memory = memory

    @property
    def promises(self) -> frozenset[Promise]:
        return (EXACT | BOUNDED) - {Promise.FORGET_CLASS}

    @property
    def choice_(self) -> HeadChoice:
        with self._lock:
            return self._exact.choice(self._learned())

    @property
    def why_(self) -> str:
        return self.choice_.in_words()

    @property
    def temperature_(self) -> float:
        return self.choice_.temperature

    def _check_parameters(self) -> None:
        require_whole("sample_size", self.sample_size)
        warn_of_old_parameters(self)
        require_number("memory_mb", parameter(self, "memory_mb"), least=0.0)
        require_number("microseconds", self.microseconds, least=0.0, or_none=True)

    def _empty_moments(self, n_features: int) -> Moments:
        return Moments(n_features)

    def _begin(self, n_features: int) -> None:
        super()._begin(n_features)
        self._sample = Sample(n_features, int(self.sample_size))
        self._random_features = RandomFeatureMoments(
            n_features, int(self.sample_size), parameter(self, "memory_mb"), self.microseconds
        )
        self._exact = _Chosen()
        self._running = FollowedHead()

    def _learn(self, X: Array, slots: Slots, weights: Array | None) -> None:
        if weights is None and (len(X) == 1 or self._running.can_follow(len(X))):
            for x, slot in zip(X, slots.tolist(), strict=True):
                self._follow_one(x, slot)
            self._running.advance()
            return
        super()._learn(X, slots, weights)
        self._take_note(X, slots, weights)
        self._running.invalidate()

    def _learn_one(self, x: Array, slot: int) -> None:
        self._follow_one(x, slot)
        self._running.advance()

    def _follow_one(self, x: Array, slot: int) -> None:
        row = self.moments_.add_one(x, slot)
        self._take_note(x[None], np.array([slot]), None)
        self._running.follow(row, x, slot)

    def _take_note(self, X: Array, slots: Slots, weights: Array | None) -> None:
        if self.moments_.total > self._random_features.begins_beyond:
            self._random_features.begin(self._sample.rows)
        self._random_features.learn(X, slots, weights)
        self._sample.offer(X, slots, weights)

    def _release(self, X: Array, slots: Slots, weights: Array | None) -> None:
        super()._release(X, slots, weights)
        self._random_features.forget(X, slots, weights)
        self._sample.discard(X, slots, weights)
        self._running.invalidate()

    def _forget_class(self, slot: int) -> None:
        raise NotForgettable(
            "one scatter matrix is kept for all classes, so the part of this class is not known; "
            "pass its examples to forget"
        )

    def _merge(self, other: Any, slots: Slots) -> None:
        super()._merge(other, slots)
        if (
            other._random_features.has_begun
            or self.moments_.total > self._random_features.begins_beyond
        ):
            self._random_features.begin(self._sample.rows)
        theirs = other._sample.rows()
        theirs = LearnedRows(theirs.X, slots[theirs.slots], theirs.weights)
        self._random_features.merge(other._random_features, theirs, slots)
        self._sample.absorb(other._sample, slots)

    def _after_other_change(self) -> None:
        self._running.invalidate()

    def _scores(self, X: Array) -> Array:
        return self._exact.scores(X, self._learned())

    def _scores_one(self, x: Array) -> Array:
        return self._running.scores_one(x, self._learned())

    def _learned(self) -> LearnedState:
        return LearnedState(self.moments_, self._sample, self._random_features)

    def _own_state(self) -> State:
        arrays, notes = super()._own_state()
        features, about = self._random_features.state()
        return arrays | self._sample.state() | features, notes | about

    def _own_restore(self, arrays: dict[str, AnyArray], notes: dict[str, Any]) -> None:
        super()._own_restore(arrays, notes)
        self._sample.restore_from(arrays, self.moments_)
        # Files from before there were heads on random features do not contain them.
        is_new = "wide" in notes
        self._random_features.restore(
            arrays, is_new and validated_flag(notes, "wide"), self._sample.is_all
        )


class _Chosen:
    """The head chosen for exactly what was learned."""

    def __init__(self) -> None:
        self._made_for = -1
        self._selected: Selected | None = None
        self._choice: HeadChoice | None = None
        self._solution: LeastSquares | KernelSquares | None = None
        self._discriminant = ExactDiscriminant()

    def choice(self, learned: LearnedState) -> HeadChoice:
        if self._choice is None or self._made_for != learned.moments.version:
            self._selected = self._solution = None
            self._selected = finished(choose(Frozen(learned)))
            self._choice = self._selected.with_temperature()
            self._made_for = learned.moments.version
        return self._choice

    def scores(self, X: Array, learned: LearnedState) -> Array:
        chosen, moments = self.choice(learned), learned.moments
        if chosen.head == NEAREST:
            return nearest_mean_scores(X, moments)
        if chosen.head == DISCRIMINANT:
            weights, bias, origin = self._discriminant.linear(moments, shrinkage_of(chosen))
            return (X - origin) @ weights.T + bias
        if self._solution is None:
            assert self._selected is not None
            self._solution = _solution(self._selected, learned)
            self._selected = None
        features = learned.features
        return self._solution.scores(features.seen(X) if chosen.head == FEATURES else X)


def _solution(selected: Selected, learned: LearnedState) -> LeastSquares | KernelSquares:
    """Least squares as chosen, on everything learned so far."""
    choice, moments = selected.choice, learned.moments
    if selected.kernel is not None:
        return finished(selected.kernel.squares(choice.regularization, choice.recoding))
    if choice.head == KERNEL and learned.sample.is_all:
        rows = learned.sample.rows()
        return finished(
            kernel_squares(rows, moments.n_slots, choice.regularization, choice.recoding)
        )
    of_features = learned.features.moments
    read = of_features if choice.head == FEATURES and of_features is not None else moments
    regularization = ridge_of(choice, read.total_scatter(), moments.n_features)
    return LeastSquares(read, regularization, choice.recoding, rebalance=False, intercept=True)
