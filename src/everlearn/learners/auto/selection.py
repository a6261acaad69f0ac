"""Chooses the best head by leave-one-out on the kept examples.

Counts of correct answers are noisy, so neighbouring regularizations are averaged (1-2-1), and a
regularization that suits the number of examples per class, λ = 8 / n̄ of the mean variance, is
preferred by a quarter of an example for each step of the grid. This gives the best linear head. A
head on random features is preferred to it, at the regularization nearest to the usual one, unless
it is worse than the best by more than a standard error and an example, over the examples where the
two differ. Without evidence the kernel, or else ridge regression, is used at the usual
regularization.

The regularization of random features is searched with the first half of them, at an eighth of the
cost, and that of the kernel with half of the examples if there are many. With all of them the
estimates are less noisy and may need less regularization, so the next weaker value is tried as
well.

All of this is done in slices (``statistics/slices.py``): ``predict`` runs them at once, and
``predict_one`` while further examples are learned.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from everlearn.arrays import Array, Slots
from everlearn.deprecation import renamed_attribute
from everlearn.learners.auto.arc_cosine import KernelPath
from everlearn.learners.auto.linear_paths import (
    DiscriminantScores,
    FrozenMoments,
    LeastSquaresScores,
)
from everlearn.learners.auto.random_features import RandomFeatureMoments
from everlearn.learners.closed_form.evidence import LeaveOneOutEvidence, comparable, one_copy_each
from everlearn.learners.closed_form.leave_one_out import MANY_FEATURES, LearnedRows
from everlearn.learners.closed_form.model_selection import usual_regularization
from everlearn.learners.closed_form.sample import Sample
from everlearn.statistics.moments import Moments
from everlearn.statistics.slices import READ, Work, allocated, copied, in_turn, parts

RIDGE, DISCRIMINANT, NEAREST = "ridge regression", "discriminant analysis", "nearest class mean"
KERNEL, FEATURES = "arc-cosine kernel ridge regression", "ridge regression on random features"
# Regularization, as shares of the mean variance; the last of the discriminant's is nearest class
# mean.
RIDGES = np.array([1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0])
RANDOM_FEATURE_RIDGES = np.array([1e-3, 1e-2, 0.1, 1.0])
SHRINKAGES = np.array([0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, np.inf])
# α, preferred value first. Larger ones lose accuracy if classes are uneven (docs/quality.md).
RECODINGS = (0.375, 0.25, 0.125, 0.0)
# Penalty, in examples, for one step away from the usual regularization, and for a head other
# than ridge.
STEP, OTHER_HEAD = 0.25, 1.0
# Share of the random features used to search their regularization.
SOME_FEATURES = 0.5
# Beyond this many examples, half of them are used to search the kernel's regularization.
MANY = 2000
# Heads on random features are scored on at most this many examples, at this many
# regularizations around the usual one.
MOST_ASKED = 1000
# Room for examples that come while memory for a copy of the sample is got.
MORE_ROWS = 64
BELOW_USUAL, ABOVE_USUAL = 2, 1


@dataclass(frozen=True)
class HeadChoice:
    """A head, its regularization, and the evidence for it."""

    head: str
    regularization: float
    recoding: float = 0.0
    temperature: float = 1.0
    right: tuple[tuple[str, float], ...] = ()
    asked: int = 0
    width: int = 0

    def __getattr__(self, name: str) -> Any:
        return renamed_attribute(self, name, {"reading": "head"})

    def in_words(self) -> str:
        """The choice and its reason, as a sentence."""
        width = f" ({self.width:,} of them)" if self.head == FEATURES else ""
        at = f"at {self.regularization:.2g} of the mean variance"
        if not self.asked:
            return f"{self.head} {at}: no class has two examples yet, so nothing could be compared"
        others = ", ".join(f"{right:.1%} with {head}" for head, right in self.right)
        recoded_by = f", recoded by {self.recoding:g}" if self.recoding else ""
        return (
            f"{self.head}{width} {at}{recoded_by}: leave-one-out accuracy on {self.asked} "
            f"examples is {others}"
        )


# A head, its regularization, and the scores of all examples asked about.
_Asked = tuple[str, float, Array]


@dataclass(frozen=True)
class LearnedState:
    """Everything that was learned, as input of a choice."""

    moments: Moments
    sample: Sample
    features: RandomFeatureMoments


@dataclass(frozen=True)
class RoomForCopies:
    """Memory for the copies of a :class:`Frozen`, got from the system beforehand."""

    rows: Array
    scatter: Array
    feature_scatter: Array | None


def room_for(learned: LearnedState, piece: float) -> Work[RoomForCopies]:
    """Room for the sample, which may grow meanwhile, and for scatter."""
    n_features, width = learned.moments.n_features, learned.features.width
    rows = yield from allocated((len(learned.sample) + MORE_ROWS, n_features), piece)
    scatter = yield from allocated((n_features, n_features), piece)
    if not learned.features.has_begun:
        return RoomForCopies(rows, scatter, None)
    feature_scatter = yield from allocated((width, width), piece)
    return RoomForCopies(rows, scatter, feature_scatter)


class Frozen:
    """A snapshot of what was learned, in arrays that further learning does not change.

    Work done at once copies the moments of random features when it needs them. Work in slices has
    matrices copied at once, to ``room``, before anything more is learned, and calls
    :meth:`complete` first, which copies the sample.
    """

    def __init__(
        self, learned: LearnedState, piece: float = np.inf, room: RoomForCopies | None = None
    ) -> None:
        self.piece = piece
        self.moments = FrozenMoments(learned.moments, None if room is None else room.scatter)
        self.sample = learned.sample.frozen(None if room is None else room.rows)
        self.features = learned.features
        self.keeps = learned.features.keeps
        self.has_features = learned.features.has_begun
        self._feature_moments: FrozenMoments | None = None
        self._features_are_total = False
        self._total: Array | None = None
        if np.isfinite(piece) and self.has_features:
            assert learned.features.moments is not None
            into = None if room is None else room.feature_scatter
            self._feature_moments = FrozenMoments(learned.features.moments, into)

    def complete(self) -> Work[None]:
        """Account for the copies, copy the sample, and add the rows that wait to enter scatter."""
        copies = [self.moments, *([self._feature_moments] if self._feature_moments else [])]
        yield sum(each.scatter.size for each in copies) * READ
        yield from self.sample.complete(self.piece)
        for each in copies:
            yield from each.complete(self.piece)

    @property
    def feature_moments(self) -> FrozenMoments:
        """The moments of random features; T instead of S after :meth:`feature_total`."""
        if self._feature_moments is None:
            assert self.features.moments is not None
            self._feature_moments = FrozenMoments(self.features.moments)
        return self._feature_moments

    def total_scatter(self) -> Work[Array]:
        """T, its upper triangle."""
        if self._total is None:
            total = yield from copied(self.moments.scatter, self.piece)
            yield from self.moments.add_between(total, self.piece)
            self._total = total
        return self._total

    def feature_total(self) -> Work[Array]:
        """T of random features, its upper triangle, in place of S."""
        if not self._features_are_total:
            yield from self.feature_moments.add_between(self.feature_moments.scatter, self.piece)
            self._features_are_total = True
        return self.feature_moments.scatter


@dataclass(frozen=True)
class Selected:
    """A choice, the solution of the kernel if that is chosen, and the evidence."""

    choice: HeadChoice
    kernel: KernelPath | None = None
    evidence: LeaveOneOutEvidence | None = None
    scores: Array | None = None

    def with_temperature(self) -> HeadChoice:
        """The choice, with a temperature for its probabilities."""
        if self.evidence is None or self.scores is None:
            return self.choice
        return replace(self.choice, temperature=self.evidence.temperature(self.scores))


@dataclass(frozen=True)
class _Candidate:
    """A head, its scores at a regularization, and the value of correct answers at each."""

    head: str
    regularizations: Array
    scores: Callable[[float], Work[Array]]
    value: Callable[[Array], Array]


def choose(learned: Frozen) -> Work[Selected]:
    """The head with the most correct leave-one-out answers."""
    moments, sample = learned.moments, learned.sample
    n_classes = np.count_nonzero(moments.counts)
    usual = usual_regularization(moments.counts)
    kept = sample.rows
    positions = comparable(kept, moments.counts)
    if learned.keeps or learned.has_features:
        positions = sample.first(positions, MOST_ASKED)
    has_kernel = moments.total <= learned.keeps and sample.is_all
    if not len(positions) or n_classes < 2:
        return Selected(HeadChoice(KERNEL if has_kernel and n_classes > 1 else RIDGE, usual))
    rows = yield from one_copy_each(kept, positions, learned.piece)
    evidence = LeaveOneOutEvidence(moments.counts, rows, kept.weights[positions])
    linear = yield from _linear(learned, rows, usual)
    if not linear:
        return Selected(HeadChoice(NEAREST, np.inf))
    right: dict[str, float] = {}
    best: tuple[float, _Asked] | None = None
    for one in linear:
        tables = yield from in_turn(map(one.scores, one.regularizations.tolist()))
        counts = evidence.right(tables)
        right[one.head] = float(counts.max()) / evidence.total
        value = one.value(counts)
        at = len(value) - 1 - int(value[::-1].argmax())
        if best is None or value[at] > best[0]:
            best = float(value[at]), (one.head, float(one.regularizations[at]), tables[at])
    assert best is not None
    regularizations = _regularizations_near(usual)
    preferred: list[_Asked] = []
    path: KernelPath | None = None
    if has_kernel:
        path, preferred = yield from _kernel(learned, positions, regularizations)
    elif learned.has_features:
        preferred = yield from _features(learned, evidence, positions, regularizations)
    asked = [*preferred, best[1]]
    tables = [scores for _, _, scores in asked]
    for (name, _, _), count in zip(asked, evidence.right(tables), strict=True):
        right[name] = max(right.get(name, 0.0), float(count) / evidence.total)
    head, regularization, scores = asked[evidence.first_as_good_as_the_best(tables)]
    recoding = 0.0
    if head not in (DISCRIMINANT, NEAREST):
        recoding, scores = yield from evidence.recoding(scores, RECODINGS)
    elif head == DISCRIMINANT:  # scaled as by the head itself
        scores = scores * moments.total * (1.0 + regularization)
    choice = HeadChoice(
        head,
        regularization,
        recoding,
        right=tuple(right.items()),
        asked=round(evidence.total),
        width=learned.features.width if head == FEATURES else 0,
    )
    return Selected(choice, path if head == KERNEL else None, evidence, scores)


def _linear(learned: Frozen, rows: LearnedRows, usual: float) -> Work[list[_Candidate]]:
    """Least squares, discriminant and nearest mean on the plain features."""
    moments = learned.moments
    total = yield from learned.total_scatter()
    squares = LeastSquaresScores(moments, total, rows, learned.piece)
    if not squares.mean_variance > 0:
        return []
    ridges = RANDOM_FEATURE_RIDGES if moments.n_features > MANY_FEATURES else RIDGES
    found = [
        _Candidate(
            RIDGE,
            ridges,
            lambda s: squares.at(s * squares.mean_variance),
            lambda hits: _preferred(hits, ridges, usual),
        )
    ]
    if moments.n_features > MANY_FEATURES:
        return found
    discriminants = DiscriminantScores(moments, rows, learned.piece)
    if not discriminants.mean_variance > 0:
        return found

    def scores(regularization: float) -> Work[Array]:
        return discriminants.at(regularization * discriminants.mean_variance)

    return [
        *found,
        _Candidate(
            DISCRIMINANT, SHRINKAGES[:-1], scores, lambda hits: _smoothed(hits) - OTHER_HEAD
        ),
        _Candidate(NEAREST, SHRINKAGES[-1:], scores, lambda hits: hits - OTHER_HEAD),
    ]


def _regularizations_near(usual: float) -> list[float]:
    """Regularizations tried for heads on random features, nearest to the usual one first."""
    near = int(np.abs(np.log(RIDGES / usual)).argmin())
    some = RIDGES[max(0, near - BELOW_USUAL) : near + ABOVE_USUAL + 1]
    return [float(s) for s in some[np.abs(np.log(some / usual)).argsort(kind="stable")]]


def _kernel(
    learned: Frozen, asked: Slots, regularizations: list[float]
) -> Work[tuple[KernelPath, list[_Asked]]]:
    """Kernel ridge regression on all examples, at candidate regularizations."""
    kept = learned.sample.rows
    if len(kept) > MANY:
        regularizations = yield from _suiting_half(learned, regularizations)
    loo = np.minimum(kept.weights, 1.0)[asked]
    path = KernelPath(learned.moments.counts, kept, asked, loo, learned.piece)
    yield from path.begin()
    variance = path.total_variance / learned.moments.n_features
    if not variance > 0:
        return path, []
    # The preferred regularization comes last: if it is chosen, its factor is available.
    tables = yield from in_turn(path.scores(s * variance) for s in reversed(regularizations))
    return path, [(KERNEL, s, t) for s, t in zip(regularizations, reversed(tables), strict=True)]


def _suiting_half(learned: Frozen, regularizations: list[float]) -> Work[list[float]]:
    """The multiple of the usual regularization that suits half of the examples, and one less.

    Half as many examples per class need twice the regularization.
    """
    sample, kept = learned.sample, learned.sample.rows
    half = sample.first(np.arange(len(kept)), len(kept) // 2)
    X = yield from copied(kept.X, learned.piece, half)
    rows = LearnedRows(X, kept.slots[half], kept.weights[half])
    counts = np.zeros(int(kept.slots.max()) + 1)
    np.add.at(counts, rows.slots, rows.weights)
    among = comparable(rows, counts)
    asked = np.flatnonzero(np.isin(half, sample.first(half[among], MOST_ASKED)))
    if not len(asked):
        return regularizations
    single = yield from one_copy_each(rows, asked, learned.piece)
    evidence = LeaveOneOutEvidence(counts, single, rows.weights[asked])
    path = KernelPath(counts, rows, asked, single.weights, learned.piece)
    yield from path.begin()
    variance = path.total_variance / kept.X.shape[1] * kept.weights.sum() / counts.sum()
    tables = yield from in_turn(path.scores(s * variance) for s in regularizations)
    return _and_one_less(regularizations, evidence.first_as_good_as_the_best(tables))


def _and_one_less(regularizations: list[float], found: int) -> list[float]:
    weaker = [s for s in regularizations if s < regularizations[found]]
    return [regularizations[found], *sorted(weaker)[-1:]]


def _features(
    learned: Frozen, evidence: LeaveOneOutEvidence, asked: Slots, regularizations: list[float]
) -> Work[list[_Asked]]:
    """Ridge on random features, at the regularization that suits some of them and one less."""
    features, moments, kept = learned.features, learned.feature_moments, learned.sample.rows
    seen = np.empty((len(asked), features.width))
    each = features.width * learned.moments.n_features
    for part in parts(len(asked), each, learned.piece):
        seen[part] = features.seen(kept.X[asked[part]])
        yield float((part.stop - part.start) * each)
    rows = LearnedRows(seen, kept.slots[asked], np.minimum(kept.weights, 1.0)[asked])
    total = yield from learned.feature_total()
    some = int(SOME_FEATURES * features.width)
    squares = LeastSquaresScores(moments, total, rows, learned.piece, some)
    per_feature = features.width / learned.moments.n_features
    variance = squares.mean_variance * per_feature
    if not variance > 0:
        return []
    tables = yield from in_turn(squares.at(s * variance) for s in regularizations)
    suiting = _and_one_less(regularizations, evidence.first_as_good_as_the_best(tables))
    squares = LeastSquaresScores(moments, total, rows, learned.piece)
    variance = squares.mean_variance * per_feature
    tables = yield from in_turn(squares.at(s * variance) for s in suiting)
    return [(FEATURES, s, table) for s, table in zip(suiting, tables, strict=True)]


def _smoothed(hits: Array) -> Array:
    """Averages of neighbours, 1-2-1: accuracy over regularization is a noisy plateau."""
    padded = np.concatenate([hits[:1], hits, hits[-1:]]).astype(np.float64)
    return 0.25 * padded[:-2] + 0.5 * padded[1:-1] + 0.25 * padded[2:]


def _preferred(hits: Array, regularizations: Array, usual: float) -> Array:
    """Correct answers, minus the penalty for the distance to the usual regularization."""
    steps = np.abs(np.log(regularizations / usual)) / np.log(
        regularizations[1] / regularizations[0]
    )
    return _smoothed(hits) - STEP * steps
