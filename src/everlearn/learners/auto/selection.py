"""Which head answers best, judged by leave-one-out on the examples kept.

Counts of right answers are noisy, so neighbouring regularizations are averaged (1-2-1), and a
regularization that suits the number of examples a class has, λ = 8 / n̄ of the mean variance, is
preferred by a quarter of an example for each step of the grid. So the best of the linear readings
is found. A head on random features is taken before it, at the regularization nearest to the usual
one, unless it is behind the best by more than a standard error and an example, where both differ.
Without evidence the kernel, or where there is none ridge regression, is taken at the usual
regularization.

The regularization of random features is looked for with the first half of them, at an eighth of the
cost, and that of the kernel with half of the examples where there are many. All of them are less
noisy and may want it weaker, so the next weaker one is tried as well.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from everlearn.arrays import Array, Slots
from everlearn.learners.auto.arc_cosine import KernelPath
from everlearn.learners.auto.random_features import RandomFeatureMoments
from everlearn.learners.closed_form.evidence import LeaveOneOutEvidence, comparable, left_out
from everlearn.learners.closed_form.leave_one_out import (
    MANY_FEATURES,
    DiscriminantPath,
    LearnedRows,
    LeastSquaresPath,
)
from everlearn.learners.closed_form.model_selection import usual_regularization
from everlearn.learners.closed_form.sample import Sample
from everlearn.statistics.moments import Moments

RIDGE, DISCRIMINANT, NEAREST = "ridge regression", "discriminant analysis", "nearest class mean"
KERNEL, FEATURES = "arc-cosine kernel ridge regression", "ridge regression on random features"
# Regularization, as shares of the mean variance; the last of the discriminant's is nearest class
# mean.
RIDGES = np.array([1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0])
RANDOM_FEATURE_RIDGES = np.array([1e-3, 1e-2, 0.1, 1.0])
SHRINKAGES = np.array([0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, np.inf])
# α, the preferred first. Stronger ones cost accuracy wherever classes are uneven (docs/quality.md).
RECODINGS = (0.375, 0.25, 0.125, 0.0)
# What one step away from the usual regularization costs, and another reading than ridge, in
# examples.
STEP, OTHER_READING = 0.25, 1.0
# The share of random features that their regularization is looked for with.
SOME_FEATURES = 0.5
# Beyond so many examples, half of them tell the regularization of the kernel.
MANY = 2000
# Heads on random features are asked about so many examples at most, and at so many regularizations
# about the usual.
MOST_ASKED = 1000
BELOW_USUAL, ABOVE_USUAL = 2, 1


@dataclass(frozen=True)
class HeadChoice:
    """A reading, how strongly it is regularised, and the evidence for it."""

    reading: str
    regularization: float
    recoding: float = 0.0
    temperature: float = 1.0
    right: tuple[tuple[str, float], ...] = ()
    asked: int = 0
    width: int = 0

    def in_words(self) -> str:
        """The choice and the reason for it."""
        width = f" ({self.width:,} of them)" if self.reading == FEATURES else ""
        at = f"at {self.regularization:.2g} of the mean variance"
        if not self.asked:
            return (
                f"{self.reading} {at}: no class has two examples yet, so nothing could be compared"
            )
        others = ", ".join(f"{right:.1%} by {reading}" for reading, right in self.right)
        recoded_by = f", recoded by {self.recoding:g}" if self.recoding else ""
        return (
            f"{self.reading}{width} {at}{recoded_by}: of {self.asked} examples, each tested "
            f"without itself, right were {others}"
        )


# A reading, its regularization, and the scores of all examples asked about.
_Asked = tuple[str, float, Array]


@dataclass(frozen=True)
class _Candidate:
    """A reading, what it scores at a regularization, and what right answers at each are worth."""

    reading: str
    regularizations: Array
    scores: Callable[[float], Array]
    worth: Callable[[Array], Array]


def choose(
    moments: Moments, sample: Sample, features: RandomFeatureMoments
) -> tuple[HeadChoice, KernelPath | None]:
    """The head with the most right leave-one-out answers.

    With the kernel comes what was computed of it, to answer with.
    """
    n_classes = np.count_nonzero(moments.counts)
    usual = usual_regularization(moments.counts)
    kept = sample.rows()
    positions = comparable(kept, moments.counts)
    if features.keeps or features.moments is not None:
        positions = sample.first(positions, MOST_ASKED)
    has_kernel = moments.total <= features.keeps and sample.is_all
    if not len(positions) or n_classes < 2:
        return HeadChoice(KERNEL if has_kernel and n_classes > 1 else RIDGE, usual), None
    rows = left_out(kept, positions)
    evidence = LeaveOneOutEvidence(moments.counts, rows, kept.weights[positions])
    linear = _linear(moments, rows, usual)
    if not linear:
        return HeadChoice(NEAREST, np.inf), None
    right: dict[str, float] = {}
    best: tuple[float, _Asked] | None = None
    for one in linear:
        asked = [(one.reading, float(s), one.scores(float(s))) for s in one.regularizations]
        counts = evidence.right([scores for _, _, scores in asked])
        right[one.reading] = float(counts.max()) / evidence.total
        worth = one.worth(counts)
        at = len(worth) - 1 - int(worth[::-1].argmax())
        if best is None or worth[at] > best[0]:
            best = float(worth[at]), asked[at]
    assert best is not None
    regularizations = _regularizations_near(usual)
    preferred: list[_Asked] = []
    path: KernelPath | None = None
    if has_kernel:
        path, preferred = _kernel(moments, sample, positions, regularizations)
    elif features.moments is not None:
        preferred = _features(moments, sample, features, evidence, positions, regularizations)
    asked = [*preferred, best[1]]
    tables = [scores for _, _, scores in asked]
    for (name, _, _), count in zip(asked, evidence.right(tables), strict=True):
        right[name] = max(right.get(name, 0.0), float(count) / evidence.total)
    reading, regularization, scores = asked[evidence.first_as_good_as_the_best(tables)]
    recoding = 0.0
    if reading not in (DISCRIMINANT, NEAREST):
        recoding = evidence.recoding(scores, RECODINGS)
        scores = evidence.recoded(scores, recoding)
    elif reading == DISCRIMINANT:  # as the reading itself scales them
        scores = scores * moments.total * (1.0 + regularization)
    choice = HeadChoice(
        reading,
        regularization,
        recoding,
        evidence.temperature(scores),
        tuple(right.items()),
        round(evidence.total),
        features.width if reading == FEATURES else 0,
    )
    return choice, path if reading == KERNEL else None


def _linear(moments: Moments, rows: LearnedRows, usual: float) -> list[_Candidate]:
    """Least squares, discriminant and nearest mean of the features as they are."""
    squares = LeastSquaresPath(moments, rows)
    if not squares.mean_variance > 0:
        return []
    ridges = RANDOM_FEATURE_RIDGES if moments.n_features > MANY_FEATURES else RIDGES
    found = [
        _Candidate(
            RIDGE,
            ridges,
            lambda s: squares.scores(s * squares.mean_variance),
            lambda hits: _preferred(hits, ridges, usual),
        )
    ]
    if moments.n_features > MANY_FEATURES:
        return found
    discriminants = DiscriminantPath(moments, rows)
    if not discriminants.mean_variance > 0:
        return found

    def scores(regularization: float) -> Array:
        return discriminants.scores(regularization * discriminants.mean_variance)

    return [
        *found,
        _Candidate(
            DISCRIMINANT, SHRINKAGES[:-1], scores, lambda hits: _smoothed(hits) - OTHER_READING
        ),
        _Candidate(NEAREST, SHRINKAGES[-1:], scores, lambda hits: hits - OTHER_READING),
    ]


def _regularizations_near(usual: float) -> list[float]:
    """Those tried of heads on random features, the nearest to the usual one first."""
    near = int(np.abs(np.log(RIDGES / usual)).argmin())
    some = RIDGES[max(0, near - BELOW_USUAL) : near + ABOVE_USUAL + 1]
    return [float(s) for s in some[np.abs(np.log(some / usual)).argsort(kind="stable")]]


def _kernel(
    moments: Moments, sample: Sample, asked: Slots, regularizations: list[float]
) -> tuple[KernelPath, list[_Asked]]:
    """Kernel ridge regression on all there is, at regularizations that may suit it."""
    kept = sample.rows()
    if len(kept) > MANY:
        regularizations = _suiting_half(sample, regularizations)
    path = KernelPath(moments.counts, kept, asked, np.minimum(kept.weights, 1.0)[asked])
    variance = path.total_variance / moments.n_features
    if not variance > 0:
        return path, []
    # The preferred regularization last: where it is chosen, its factor is at hand.
    tables = [path.scores(s * variance) for s in reversed(regularizations)][::-1]
    return path, [(KERNEL, s, table) for s, table in zip(regularizations, tables, strict=True)]


def _suiting_half(sample: Sample, regularizations: list[float]) -> list[float]:
    """The multiple of the usual regularization that suits half of the examples, and one less.

    Half as many examples of each class want it twice as strong.
    """
    kept = sample.rows()
    half = sample.first(np.arange(len(kept)), len(kept) // 2)
    rows = kept.take(half)
    counts = np.zeros(int(kept.slots.max()) + 1)
    np.add.at(counts, rows.slots, rows.weights)
    among = comparable(rows, counts)
    asked = np.flatnonzero(np.isin(half, sample.first(half[among], MOST_ASKED)))
    if not len(asked):
        return regularizations
    alone = left_out(rows, asked)
    evidence = LeaveOneOutEvidence(counts, alone, rows.weights[asked])
    path = KernelPath(counts, rows, asked, alone.weights)
    variance = path.total_variance / kept.X.shape[1] * kept.weights.sum() / counts.sum()
    tables = [path.scores(s * variance) for s in regularizations]
    return _and_one_less(regularizations, evidence.first_as_good_as_the_best(tables))


def _and_one_less(regularizations: list[float], found: int) -> list[float]:
    weaker = [s for s in regularizations if s < regularizations[found]]
    return [regularizations[found], *sorted(weaker)[-1:]]


def _features(
    moments: Moments,
    sample: Sample,
    features: RandomFeatureMoments,
    evidence: "LeaveOneOutEvidence",
    asked: Slots,
    regularizations: list[float],
) -> list[_Asked]:
    """Ridge on random features, at the regularization that suits some of them and one less."""
    assert features.moments is not None
    kept = sample.rows()
    alone = np.minimum(kept.weights, 1.0)
    rows = LearnedRows(features.seen(kept.X[asked]), kept.slots[asked], alone[asked])
    some = LeastSquaresPath(features.moments, rows, int(SOME_FEATURES * features.width))
    per_feature = features.width / moments.n_features
    variance = some.mean_variance * per_feature
    if not variance > 0:
        return []
    found = evidence.first_as_good_as_the_best([some.scores(s * variance) for s in regularizations])
    squares = LeastSquaresPath(features.moments, rows)
    variance = squares.mean_variance * per_feature
    return [
        (FEATURES, s, squares.scores(s * variance)) for s in _and_one_less(regularizations, found)
    ]


def _smoothed(hits: Array) -> Array:
    """Averages of neighbours, 1-2-1: accuracy over regularization is a plateau with noise on it."""
    padded = np.concatenate([hits[:1], hits, hits[-1:]]).astype(np.float64)
    return 0.25 * padded[:-2] + 0.5 * padded[1:-1] + 0.25 * padded[2:]


def _preferred(hits: Array, regularizations: Array, usual: float) -> Array:
    """Right answers, less what it costs to be away from the usual regularization."""
    steps = np.abs(np.log(regularizations / usual)) / np.log(
        regularizations[1] / regularizations[0]
    )
    return _smoothed(hits) - STEP * steps
