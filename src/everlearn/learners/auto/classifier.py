"""A classifier that chooses its own head by leave-one-out.

Nearest class mean, discriminant analysis and least squares read the same class moments, and which
of them answers best depends on the data and on how much of it there is. Here a bounded sample of
the examples is kept beside the moments (``sample.py``), each of them is answered leaving itself
out, by every head at every regularization (``leave_one_out.py``, both in ``closed_form/``), and the
first in an order of preference that is as good as any answers (``selection.py``). Nothing is taught
twice, and nothing has to be held out: the sample is learned as well.

    ridge          least squares with an intercept, λ relative to the mean variance tr(T) / d
    discriminant   shrunk towards the mean variance tr(S) / d
    nearest mean   the discriminant with all variances alike
    kernel         least squares behind infinitely many ReLU features, while all examples are kept
    random feat.   behind D of them, from then on (``random_features.py``)

Cost per example O(d²), with random features O(D²), and one choice, O(d³ + D³ + m d K) for m kept
examples, whenever a tenth more was learned (``predict_one``) or anything was (``predict``). Memory
d² + K d + m d numbers, and what the budget allows for heads on random features.
"""

from typing import Any, ClassVar

import numpy as np

from everlearn.arrays import AnyArray, Array, Slots, State
from everlearn.base import BOUNDED, EXACT, Promise
from everlearn.deprecation import DEPRECATED, parameter, warn_of_old_parameters
from everlearn.errors import NotForgettable
from everlearn.learners.auto.arc_cosine import KernelPath, KernelSquares
from everlearn.learners.auto.random_features import RandomFeatureMoments
from everlearn.learners.auto.selection import (
    DISCRIMINANT,
    FEATURES,
    KERNEL,
    NEAREST,
    HeadChoice,
    choose,
)
from everlearn.learners.closed_form.additive import AdditiveClassifier
from everlearn.learners.closed_form.discriminant import ExactDiscriminant
from everlearn.learners.closed_form.least_squares import LeastSquares
from everlearn.learners.closed_form.leave_one_out import LearnedRows
from everlearn.learners.closed_form.running_discriminant import RunningDiscriminant
from everlearn.learners.closed_form.sample import Sample
from everlearn.learners.lda import TowardsMeanVariance
from everlearn.statistics.moments import Moments
from everlearn.statistics.stored import stored_flag
from everlearn.validation import require_number, require_whole

# ``predict_one`` keeps its choice until this much more was learned.
CHOOSE_AGAIN = 0.1


class AutoClassifier(AdditiveClassifier):
    """Reads its answers off class moments in whichever way the examples themselves speak for.

    Parameters
    ----------
    sample_size : int, default=8000
        The most examples kept, to choose by and for the kernel; beyond it the largest classes give
        theirs up.
    memory_mb : float, default=512
        Megabytes that heads on random features may take beside the linear ones; 0 for linear ones
        alone. A kernel of n examples takes 8 n² bytes while they are asked, D features 16 D² bytes
        always: 512 MB are 8,000 examples and 5,600 features, 2 GB are 16,000 (with a
        ``sample_size`` of as many) and 11,000.
    microseconds : float, optional
        What an example may cost heads on random features, at 20 billion operations a second.
    memory : float
        The old name of ``memory_mb``.

        .. deprecated:: 0.2

    Attributes
    ----------
    choice_ : HeadChoice
        The reading in force for exactly what was taught.
    why_ : str
        The same in words.
    classes_ : ndarray
    temperature_ : float
        Chosen so that the probabilities of the kept examples, each without itself, are most likely.
    moments_ : the statistics all this is read from

    See Also
    --------
    RecursiveRLSC, StreamingLDA, NearestClassMean : The readings, to be chosen by hand.
    PowerNormalizer : Put it in front where features come from a network.

    Notes
    -----
    A kernel of all examples answers better than 5,600 features (by two points where 45 to 80 of
    each of 100 classes are known) and costs nothing to learn; so the example after the last that
    is kept may cost some of that. Where it matters, give more memory and a larger sample.

    ``predict``, ``decision_function`` and ``predict_proba`` are functions of what was taught and
    nothing else; ``predict_one`` keeps a choice until a tenth more examples were learned.

    *Promises*: batch = loop = any order, merge and forget are exact. Forgetting has one limit:
    where a class has more examples than the sample has room for, forgetting one that is kept leaves
    the sample one smaller than if it had never been learned, and the choice may differ.
    ``forget_class`` would need the scatter of each class; pass its examples to ``forget``.

    *Cost*: O(d²) to learn an example; choosing anew costs O(d³ + m d (d + K)) for m kept
    examples, when the learner is asked in a batch after a change. ``predict_one`` stalls for it
    when a tenth more was learned: half a second, 1.3 s at most, in the first 1,500 questions with
    1,280 features, where others take 2 ms.

    References
    ----------
    Allen, *The relationship between variable selection and data augmentation*, Technometrics 1974
    (leaving one out of least squares). Lachenbruch and Mickey, Technometrics 1968 (of a
    discriminant).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from everlearn import AutoClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> learner = AutoClassifier().fit(X[:1000], y[:1000])
    >>> bool(learner.score(X[1000:], y[1000:]) > 0.9)
    True
    >>> learner.choice_.reading
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
            return self._exact.choice(self.moments_, self._sample, self._random_features)

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
        self._running = _Following(n_features)

    def _learn(self, X: Array, slots: Slots, weights: Array | None) -> None:
        super()._learn(X, slots, weights)
        self._take_note(X, slots, weights)
        self._running.invalidate()

    def _learn_one(self, x: Array, slot: int) -> None:
        self._running.before(x, self._random_features)
        row = self.moments_.add_one(x, slot)
        self._take_note(x[None], np.array([slot]), None)
        self._running.after(row, x, slot)

    def _take_note(self, X: Array, slots: Slots, weights: Array | None) -> None:
        if self.moments_.total > self._random_features.begins_beyond:
            self._random_features.begin(self._sample.rows())
        self._random_features.learn(X, slots, weights)
        self._sample.offer(X, slots, weights)

    def _release(self, X: Array, slots: Slots, weights: Array | None) -> None:
        super()._release(X, slots, weights)
        self._random_features.forget(X, slots, weights)
        self._sample.discard(X, slots, weights)
        self._running.invalidate()

    def _forget_class(self, slot: int) -> None:
        raise NotForgettable(
            "one scatter matrix is kept for all classes, and the part of this class cannot be told "
            "from the rest; pass its examples to forget"
        )

    def _merge(self, other: Any, slots: Slots) -> None:
        super()._merge(other, slots)
        if (
            other._random_features.moments is not None
            or self.moments_.total > self._random_features.begins_beyond
        ):
            self._random_features.begin(self._sample.rows())
        theirs = other._sample.rows()
        theirs = LearnedRows(theirs.X, slots[theirs.slots], theirs.weights)
        self._random_features.merge(other._random_features, theirs, slots)
        self._sample.absorb(other._sample, slots)

    def _after_other_change(self) -> None:
        self._running.invalidate()

    def _scores(self, X: Array) -> Array:
        return self._exact.scores(X, self.moments_, self._sample, self._random_features)

    def _scores_one(self, x: Array) -> Array:
        return self._running.scores_one(x, self.moments_, self._sample, self._random_features)

    def _own_state(self) -> State:
        arrays, notes = super()._own_state()
        features, about = self._random_features.state()
        return arrays | self._sample.state() | features, notes | about

    def _own_restore(self, arrays: dict[str, AnyArray], notes: dict[str, Any]) -> None:
        super()._own_restore(arrays, notes)
        self._sample.restore_from(arrays, self.moments_)
        # A file of before there were heads on random features knows nothing of them.
        is_new = "wide" in notes
        self._random_features.restore(
            arrays, is_new and stored_flag(notes, "wide"), self._sample.is_all
        )


class _Chosen:
    """The reading chosen for exactly these moments."""

    def __init__(self) -> None:
        self._made_for = -1
        self._choice: HeadChoice | None = None
        self._kernel: KernelPath | None = None
        self._solution: LeastSquares | KernelSquares | None = None
        self._discriminant = ExactDiscriminant()

    def choice(
        self, moments: Moments, sample: Sample, features: RandomFeatureMoments
    ) -> HeadChoice:
        if self._choice is None or self._made_for != moments.version:
            self._kernel = self._solution = None
            self._choice, self._kernel = choose(moments, sample, features)
            self._made_for = moments.version
        return self._choice

    def scores(
        self, X: Array, moments: Moments, sample: Sample, features: RandomFeatureMoments
    ) -> Array:
        chosen = self.choice(moments, sample, features)
        if chosen.reading == NEAREST:
            return nearest_mean_scores(X, moments)
        if chosen.reading == DISCRIMINANT:
            weights, bias, origin = self._discriminant.linear(moments, _shrinkage(chosen))
            return (X - origin) @ weights.T + bias
        if self._solution is None:
            self._solution = solution(chosen, moments, sample, features, self._kernel)
            self._kernel = None
        return self._solution.scores(features.seen(X) if chosen.reading == FEATURES else X)


class _Following:
    """A reading chosen not long ago that follows every example at a fixed cost."""

    def __init__(self, n_features: int) -> None:
        self._n_features = n_features
        self._choice: HeadChoice | None = None
        self._chosen_at = 0.0
        self._solution: LeastSquares | KernelSquares | None = None
        self._discriminant: RunningDiscriminant | None = None
        self._beside: Array | None = None

    def invalidate(self) -> None:
        """The moments changed as a whole."""
        self._solution = self._discriminant = None

    def before(self, x: Array, features: RandomFeatureMoments) -> None:
        """One example is about to be learned."""
        if isinstance(self._solution, LeastSquares):
            seen = features.seen(x[None]) if self._has_random_features() else x[None]
            self._beside = self._solution.rows_beside(seen, None)

    def after(self, row: Array, x: Array, slot: int) -> None:
        """It was, and S grew by the outer product of this row."""
        if isinstance(self._solution, LeastSquares):
            self._solution.follow_one(self._beside, slot)
        elif self._solution is not None:
            self._solution.extend(x, slot)
        if self._discriminant is not None:
            self._discriminant.follow_one(row, slot)

    def scores_one(
        self, x: Array, moments: Moments, sample: Sample, features: RandomFeatureMoments
    ) -> Array:
        recent = self._chosen_at <= moments.total <= self._chosen_at * (1.0 + CHOOSE_AGAIN)
        if self._choice is None or not recent:
            self.invalidate()
            self._choice, kernel = choose(moments, sample, features)
            self._chosen_at = moments.total
            if kernel is not None:
                self._solution = solution(self._choice, moments, sample, features, kernel)
        if self._choice.reading == NEAREST:
            return nearest_mean_scores(x[None], moments)[0]
        if self._choice.reading == DISCRIMINANT:
            if self._discriminant is None:
                self._discriminant = RunningDiscriminant(self._n_features)
            return self._discriminant.scores_one(x, moments, _shrinkage(self._choice))
        if self._solution is None:
            self._solution = solution(self._choice, moments, sample, features)
        if isinstance(self._solution, KernelSquares):
            return self._solution.scores(x[None])[0]
        return self._solution.scores_one(
            features.seen(x[None])[0] if self._has_random_features() else x
        )

    def _has_random_features(self) -> bool:
        return self._choice is not None and self._choice.reading == FEATURES


def solution(
    choice: HeadChoice,
    moments: Moments,
    sample: Sample,
    features: RandomFeatureMoments,
    kernel: KernelPath | None = None,
) -> LeastSquares | KernelSquares:
    """Least squares as chosen, on what was taught until now."""
    if kernel is not None:
        return kernel.squares(choice.regularization, choice.recoding)
    if choice.reading == KERNEL and sample.is_all:
        rows = sample.rows()
        return KernelSquares(rows, moments.n_slots, choice.regularization, choice.recoding)
    if choice.reading == FEATURES and features.moments is not None:
        return least_squares(features.moments, choice, moments.n_features)
    return least_squares(moments, choice, moments.n_features)


def least_squares(moments: Moments, choice: HeadChoice, n_features: int) -> LeastSquares:
    """Ridge regression as chosen; λ is relative to the mean variance of so many features."""
    mean_variance = float(moments.total_scatter().diagonal().sum()) / n_features
    regularization = choice.regularization * mean_variance if mean_variance > 0 else 1.0
    return LeastSquares(moments, regularization, choice.recoding, rebalance=False, intercept=True)


def nearest_mean_scores(X: Array, moments: Moments) -> Array:
    """−½ ‖x − μ_k‖² up to a term that all classes share, about the mean of all."""
    centred = moments.means - moments.mean
    scores: Array = (X - moments.mean) @ centred.T - 0.5 * np.einsum("ij,ij->i", centred, centred)
    return scores


def _shrinkage(choice: HeadChoice) -> TowardsMeanVariance:
    """ε of (1 − ε) S/N + ε ν I, whose ridge is ε / (1 − ε) of the mean variance."""
    return TowardsMeanVariance(choice.regularization / (1.0 + choice.regularization))
