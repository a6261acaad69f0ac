"""A classifier that chooses its own reading of what it was taught.

Nearest class mean, discriminant analysis and least squares read the same class moments, and which
of them answers best depends on the data and on how much of it there is. Here a bounded sample of
the examples is kept beside the moments (:mod:`everlearn.learners.sample`), each of them is answered
*without itself*, by every reading at every strength (:mod:`everlearn.learners.leave_one_out`), and
the reading that is right most often answers. Nothing is taught twice, and nothing has to be held
out: the sample is learned as well.

    ridge          least squares with an intercept, λ relative to the mean variance tr(T) / d
    discriminant   shrunk towards the mean variance tr(S) / d
    nearest mean   the discriminant with all variances alike

Counts of right answers are noisy, so neighbouring strengths are averaged (1-2-1), and a strength
that suits the number of examples a class has, λ = 8 / n̄ of the mean variance, is preferred by a
quarter of an example for each step of the grid; without evidence it is taken as it is.

Cost per example O(d²), and one choice, O(d³ + m d K) for m kept examples, whenever a tenth more was
learned (``predict_one``) or anything was (``predict``). Memory d² + K d + m d numbers.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from everlearn.arrays import AnyArray, Array, Slots, State
from everlearn.base import BOUNDED, EXACT, Promise
from everlearn.errors import DamagedModel, NotForgettable
from everlearn.learners.additive import AdditiveClassifier
from everlearn.learners.discriminant import (
    ExactDiscriminant,
    RunningDiscriminant,
    TowardsMeanVariance,
)
from everlearn.learners.least_squares import LeastSquares
from everlearn.learners.leave_one_out import WIDE, DiscriminantPath, LeastSquaresPath, Rows
from everlearn.learners.sample import Sample
from everlearn.parameters import require_whole
from everlearn.statistics.moments import Moments
from everlearn.statistics.stored import stored

RIDGE, DISCRIMINANT, NEAREST = "ridge regression", "discriminant analysis", "nearest class mean"
# Strengths, as shares of the mean variance; the last of the discriminant's is nearest class mean.
RIDGES = np.array([1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0])
WIDE_RIDGES = np.array([1e-3, 1e-2, 0.1, 1.0])
SHRINKAGES = np.array([0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, np.inf])
RECODINGS = np.array([0.0, 0.25, 0.5, 0.75, 1.0])
# Without evidence: λ is this over the mean number of examples of a class.
USUAL = 8.0
# What one step away from the usual strength costs, and another reading than ridge, in examples.
STEP, OTHER_READING = 0.25, 1.0
# Classes are uneven, and recoding worth a look, when the largest is this much larger.
UNEVEN = 2.0
# ``predict_one`` keeps its choice until this much more was learned.
CHOOSE_AGAIN = 0.1


@dataclass(frozen=True)
class Choice:
    """A reading, how strongly it is regularised, and the evidence for it."""

    reading: str
    strength: float
    recoding: float = 0.0
    temperature: float = 1.0
    right: tuple[tuple[str, float], ...] = ()
    asked: int = 0

    def in_words(self) -> str:
        """The choice and the reason for it."""
        if not self.asked:
            return (
                f"{self.reading} at {self.strength:.2g} of the mean variance: no class has two "
                "examples yet, so nothing could be compared"
            )
        others = ", ".join(f"{right:.1%} by {reading}" for reading, right in self.right)
        recoded = f", recoded by {self.recoding:g}" if self.recoding else ""
        return (
            f"{self.reading} at {self.strength:.2g} of the mean variance{recoded}: of {self.asked} "
            f"examples answered without themselves, right were {others}"
        )


class AutoClassifier(AdditiveClassifier):
    """Reads its answers off class moments in whichever way the examples themselves speak for.

    Parameters
    ----------
    sample_size : int, default=2000
        The most examples kept to choose by, shared evenly between the classes.

    Attributes
    ----------
    choice_ : Choice
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
    ``predict``, ``decision_function`` and ``predict_proba`` are functions of what was taught and
    nothing else; ``predict_one`` keeps a choice until a tenth more examples were learned.

    *Promises*: batch = loop = any order, merge and forget are exact. Forgetting has one limit:
    where a class has more examples than the sample has room for, forgetting one that is kept leaves
    the sample one smaller than if it had never been learned, and the choice may differ.
    ``forget_class`` would need the scatter of each class; pass its examples to ``forget``.

    *Cost*: O(d²) to learn an example; choosing anew costs O(d³ + m d (d + K)) for m kept
    examples, when the learner is asked in a batch after a change.

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
    'discriminant analysis'
    """

    moments_: Moments

    def __init__(self, *, sample_size: int = 2000) -> None:
        self.sample_size = sample_size

    @property
    def promises(self) -> frozenset[Promise]:
        return (EXACT | BOUNDED) - {Promise.FORGET_CLASS}

    @property
    def choice_(self) -> Choice:
        return self._exact.choice(self.moments_, self._sample)

    @property
    def why_(self) -> str:
        return self.choice_.in_words()

    @property
    def temperature_(self) -> float:
        return self.choice_.temperature

    def _check_parameters(self) -> None:
        require_whole("sample_size", self.sample_size)

    def _empty_moments(self, n_features: int) -> Moments:
        return Moments(n_features)

    def _begin(self, n_features: int) -> None:
        super()._begin(n_features)
        self._sample = Sample(n_features, int(self.sample_size))
        self._exact = _Chosen()
        self._running = _Following(n_features)

    def _absorb(self, X: Array, slots: Slots, weights: Array | None) -> None:
        super()._absorb(X, slots, weights)
        self._sample.offer(X, slots, weights)
        self._running.invalidate()

    def _learn_one(self, x: Array, slot: int) -> None:
        self._running.before(self.moments_, x)
        self._running.after(self.moments_.add_one(x, slot), slot)
        self._sample.offer(x[None], np.array([slot]), None)

    def _release(self, X: Array, slots: Slots, weights: Array | None) -> None:
        super()._release(X, slots, weights)
        self._sample.discard(X, slots)
        self._running.invalidate()

    def _forget_class(self, slot: int) -> None:
        raise NotForgettable(
            "one scatter matrix is kept for all classes, and the part of this class cannot be told "
            "from the rest; pass its examples to forget"
        )

    def _merge(self, other: Any, slots: Slots) -> None:
        super()._merge(other, slots)
        self._sample.absorb(other._sample, slots)

    def _after_other_change(self) -> None:
        self._running.invalidate()

    def _scores(self, X: Array) -> Array:
        return self._exact.scores(X, self.moments_, self._sample)

    def _scores_one(self, x: Array) -> Array:
        return self._running.scores_one(x, self.moments_, self._sample)

    def _own_state(self) -> State:
        arrays, notes = super()._own_state()
        return arrays | self._sample.state(), notes

    def _own_restore(self, arrays: dict[str, AnyArray], notes: dict[str, Any]) -> None:
        super()._own_restore(arrays, notes)
        X = stored(arrays, "sample", None, self.n_features_in_)
        last = self.moments_.n_slots - 1
        slots = stored(arrays, "sample_slots", len(X), dtype=np.int64, least=0, most=last)
        weights = stored(arrays, "sample_weights", len(X), least=0.0)
        if len(X) > max(self.sample_size, last + 1):
            raise DamagedModel(f"sample holds {len(X)} examples, more than sample_size")
        self._sample.restore(X, slots, weights)


class _Chosen:
    """The reading chosen for exactly these moments."""

    def __init__(self) -> None:
        self._made_for = -1
        self._choice: Choice | None = None
        self._solution: LeastSquares | None = None
        self._discriminant = ExactDiscriminant()

    def choice(self, moments: Moments, sample: Sample) -> Choice:
        if self._choice is None or self._made_for != moments.version:
            self._choice = choose(moments, sample.rows())
            self._made_for = moments.version
            self._solution = None
        return self._choice

    def scores(self, X: Array, moments: Moments, sample: Sample) -> Array:
        chosen = self.choice(moments, sample)
        if chosen.reading == NEAREST:
            return nearest_mean_scores(X, moments)
        if chosen.reading == DISCRIMINANT:
            weights, bias, origin = self._discriminant.linear(moments, _shrinkage(chosen))
            return (X - origin) @ weights.T + bias
        if self._solution is None:
            self._solution = least_squares(moments, chosen)
        return self._solution.scores(X)


class _Following:
    """A reading chosen not long ago that follows every example at a fixed cost."""

    def __init__(self, n_features: int) -> None:
        self._n_features = n_features
        self._choice: Choice | None = None
        self._chosen_at = 0.0
        self._solution: LeastSquares | None = None
        self._discriminant: RunningDiscriminant | None = None
        self._beside: Array | None = None

    def invalidate(self) -> None:
        """The moments changed as a whole."""
        self._solution = self._discriminant = None

    def before(self, moments: Moments, x: Array) -> None:
        """One example is about to be learned."""
        if self._solution is not None:
            self._beside = self._solution.rows_beside(x[None], None)

    def after(self, row: Array, slot: int) -> None:
        """It was, and S grew by the outer product of this row."""
        if self._solution is not None:
            self._solution.follow_one(self._beside, slot)
        if self._discriminant is not None:
            self._discriminant.follow_one(row, slot)

    def scores_one(self, x: Array, moments: Moments, sample: Sample) -> Array:
        recent = self._chosen_at <= moments.total <= self._chosen_at * (1.0 + CHOOSE_AGAIN)
        if self._choice is None or not recent:
            self._choice = choose(moments, sample.rows())
            self._chosen_at = moments.total
            self.invalidate()
        if self._choice.reading == NEAREST:
            return nearest_mean_scores(x[None], moments)[0]
        if self._choice.reading == DISCRIMINANT:
            if self._discriminant is None:
                self._discriminant = RunningDiscriminant(self._n_features)
            return self._discriminant.scores_one(x, moments, _shrinkage(self._choice))
        if self._solution is None:
            self._solution = least_squares(moments, self._choice)
        return self._solution.scores_one(x)


def least_squares(moments: Moments, choice: Choice) -> LeastSquares:
    """Ridge regression as chosen, on the moments as they are."""
    mean_variance = float(moments.total_scatter().diagonal().mean())
    regularization = choice.strength * mean_variance if mean_variance > 0 else 1.0
    return LeastSquares(moments, regularization, choice.recoding, rebalance=False, intercept=True)


def nearest_mean_scores(X: Array, moments: Moments) -> Array:
    """−½ ‖x − μ_k‖² up to a term that all classes share, about the mean of all."""
    centred = moments.means - moments.mean
    scores: Array = (X - moments.mean) @ centred.T - 0.5 * np.einsum("ij,ij->i", centred, centred)
    return scores


def _shrinkage(choice: Choice) -> TowardsMeanVariance:
    """ε of (1 − ε) S/N + ε ν I, whose ridge is ε / (1 − ε) of the mean variance."""
    return TowardsMeanVariance(choice.strength / (1.0 + choice.strength))


def choose(moments: Moments, rows: Rows) -> Choice:
    """The reading that answers most of these examples rightly without themselves."""
    usual = USUAL * np.count_nonzero(moments.counts) / moments.total
    # An example of weight two is two examples: one of them is left out.
    alone = np.minimum(rows.weights, 1.0)
    comparable = np.flatnonzero(moments.counts[rows.slots] - alone > 1e-9 * moments.total)
    evidence_weights, rows = rows.weights[comparable], Rows(rows.X, rows.slots, alone)
    rows = rows.take(comparable)
    if not len(rows) or np.count_nonzero(moments.counts) < 2:
        return Choice(RIDGE, usual)
    evidence = _Evidence(moments, rows.slots, evidence_weights)
    squares = LeastSquaresPath(moments, rows)
    if not squares.mean_variance > 0:
        return Choice(NEAREST, np.inf)
    wide = moments.n_features > WIDE
    ridges = WIDE_RIDGES if wide else RIDGES
    right = {RIDGE: evidence.right([squares.scores(s * squares.mean_variance) for s in ridges])}
    found = [(_preferred(right[RIDGE], ridges, usual), RIDGE, ridges)]
    discriminants = None if wide else DiscriminantPath(moments, rows)
    if discriminants is not None and discriminants.mean_variance > 0:
        scores = [discriminants.scores(s * discriminants.mean_variance) for s in SHRINKAGES]
        hits = evidence.right(scores)
        right |= {DISCRIMINANT: hits[:-1], NEAREST: hits[-1:]}
        found.append((_smoothed(hits[:-1]) - OTHER_READING, DISCRIMINANT, SHRINKAGES[:-1]))
        found.append((hits[-1:] - OTHER_READING, NEAREST, SHRINKAGES[-1:]))
    worth, reading, strengths = max(found, key=lambda one: float(one[0].max()))
    strength = float(strengths[len(worth) - 1 - int(worth[::-1].argmax())])
    recoding = 0.0
    if reading == RIDGE:
        recoding = evidence.recoding(squares, strength * squares.mean_variance)
        best = squares.scores(strength * squares.mean_variance, recoding)
    else:
        assert discriminants is not None
        best = discriminants.scores(strength * discriminants.mean_variance)
        if reading == DISCRIMINANT:  # as the reading itself scales them
            best *= moments.total * (1.0 + strength)
    shares = tuple((name, float(hits.max()) / evidence.total) for name, hits in right.items())
    return Choice(
        reading, strength, recoding, evidence.temperature(best), shares, round(evidence.total)
    )


class _Evidence:
    """What examples answered without themselves say for a table of scores.

    The sample has as many examples of rare classes as of frequent ones; each counts for as much as
    it would in the stream it stands for.
    """

    def __init__(self, moments: Moments, slots: Slots, weights: Array) -> None:
        kept = np.bincount(slots, weights, moments.n_slots)
        counts = moments.counts
        share = counts[slots] / kept[slots] * weights
        self.total = float(weights.sum())
        self._share: Array = share * self.total / share.sum()
        self._slots = slots
        known = counts[counts > 0]
        self._uneven = bool(known.max() > UNEVEN * known.min())

    def right(self, tables: list[Array]) -> Array:
        """How many examples each table of scores answers rightly."""
        return np.array([self._share @ (scores.argmax(axis=1) == self._slots) for scores in tables])

    def recoding(self, path: LeastSquaresPath, regularization: float) -> float:
        """The largest α that is right as often as no recoding, where classes differ in size."""
        if not self._uneven:
            return 0.0
        hits = self.right([path.scores(regularization, alpha) for alpha in RECODINGS])
        return float(RECODINGS[np.flatnonzero(hits >= hits[0]).max()])

    def temperature(self, scores: Array) -> float:
        """By what to divide scores so that the right answers are most likely."""
        own = scores[np.arange(len(scores)), self._slots]
        gaps = scores - own[:, None]
        scale = float(np.std(gaps[np.isfinite(gaps)]))
        if not scale > 0:
            return 1.0

        def surprise(logarithm: float) -> float:
            shrunk = gaps / (scale * np.exp(logarithm))
            top = shrunk.max(axis=1)
            return float(self._share @ (top + np.log(np.exp(shrunk - top[:, None]).sum(axis=1))))

        best = minimize_scalar(surprise, bounds=(-7.0, 3.0), method="bounded")
        return scale * float(np.exp(best.x))


def _smoothed(hits: Array) -> Array:
    """Averages of neighbours, 1-2-1: accuracy over strength is a plateau with noise on it."""
    padded = np.concatenate([hits[:1], hits, hits[-1:]]).astype(np.float64)
    return 0.25 * padded[:-2] + 0.5 * padded[1:-1] + 0.25 * padded[2:]


def _preferred(hits: Array, strengths: Array, usual: float) -> Array:
    """Right answers, less what it costs to be away from the usual strength."""
    steps = np.abs(np.log(strengths / usual)) / np.log(strengths[1] / strengths[0])
    return _smoothed(hits) - STEP * steps
