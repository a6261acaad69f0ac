"""The heads of AutoClassifier: each answers single questions and is updated with every example.

    RidgeHead          ridge regression, on the features or on random features    O(d² + K d)
    KernelHead         kernel ridge regression on all examples                    O(n² + n d)
    DiscriminantHead   discriminant analysis                                      O(d² + K d)
    NearestHead        nearest class mean                                         O(K d)

A head is computed from a frozen state, in slices, and then catches up with the examples that
arrived in the meantime (``following.py``).
"""

from collections import deque
from typing import NamedTuple, Protocol

import numpy as np

from everlearn.arrays import Array
from everlearn.learners.auto.arc_cosine import KernelSquares, kernel_squares
from everlearn.learners.auto.linear_paths import FrozenMoments, factor_of
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
)
from everlearn.learners.closed_form.discriminant import Shrinkage
from everlearn.learners.closed_form.least_squares import LeastSquares
from everlearn.learners.closed_form.running_discriminant import (
    NextSolution,
    RunningDiscriminant,
    cell_of,
    ridge_of_shrinkage,
    slice_of,
)
from everlearn.learners.lda import TowardsMeanVariance
from everlearn.statistics.factor import Factor
from everlearn.statistics.moments import Moments
from everlearn.statistics.slices import Work

# Cost of a multiplication in a question or a rank-one update, which are bound by memory, relative
# to one in a matrix product.
QUESTION_COST = 10.0


class LearnedExample(NamedTuple):
    """A learned example, its slot, and the row by whose outer product S grew."""

    x: Array
    slot: int
    row: Array


class SingleHead(Protocol):
    """Answers single questions."""

    @property
    def cost(self) -> float:
        """Cost of one question or one example, in multiplications of a matrix product."""

    def follow(self, example: LearnedExample) -> None:
        """Update with a learned example."""

    def catch_up(self) -> None:
        """Do the work that updates left for the next question."""

    def scores_one(self, x: Array) -> Array:
        """Scores of one vector, one column per slot."""


class NearestHead:
    """Nearest class mean."""

    def __init__(self, moments: Moments) -> None:
        self._moments = moments

    @property
    def cost(self) -> float:
        return QUESTION_COST * self._moments.means.size

    def follow(self, example: LearnedExample) -> None:
        pass

    def catch_up(self) -> None:
        pass

    def scores_one(self, x: Array) -> Array:
        scores: Array = nearest_mean_scores(x[None], self._moments)[0]
        return scores


class DiscriminantHead:
    """Discriminant analysis."""

    def __init__(
        self, moments: Moments, shrinkage: Shrinkage, running: RunningDiscriminant
    ) -> None:
        self._moments, self._shrinkage, self._running = moments, shrinkage, running

    @property
    def cost(self) -> float:
        return QUESTION_COST * slice_of(self._moments)

    def follow(self, example: LearnedExample) -> None:
        self._running.follow_one(example.row, example.slot)

    def catch_up(self) -> None:
        pass

    def scores_one(self, x: Array) -> Array:
        return self._running.scores_one(x, self._moments, self._shrinkage)


class KernelHead:
    """Kernel ridge regression on all examples."""

    def __init__(self, squares: KernelSquares) -> None:
        self._squares = squares

    @property
    def cost(self) -> float:
        return QUESTION_COST * self._squares.question_products

    def follow(self, example: LearnedExample) -> None:
        self._squares.extend(example.x, example.slot)

    def catch_up(self) -> None:
        pass

    def scores_one(self, x: Array) -> Array:
        scores: Array = self._squares.scores(x[None])[0]
        return scores


class RidgeHead:
    """Ridge regression with an intercept, on the features or on random features.

    Parameters
    ----------
    squares : LeastSquares
        On live moments; its factor belongs to ``before``.
    before : FrozenMoments
        The moments for which the factor was computed.
    features : RandomFeatureMoments, optional
    """

    def __init__(
        self,
        squares: LeastSquares,
        before: FrozenMoments,
        features: RandomFeatureMoments | None = None,
    ) -> None:
        self._squares = squares
        self._total, self._mean = before.total, before.mean.copy()
        self._features = features

    @property
    def cost(self) -> float:
        moments = self._squares.moments
        return QUESTION_COST * (2.0 * moments.n_features**2 + moments.means.size)

    def follow(self, example: LearnedExample) -> None:
        """T grows by N/(N + 1) of the outer product of x − m, and m moves by 1/(N + 1) of it."""
        gap = self._seen(example.x) - self._mean
        row = np.sqrt(self._total / (self._total + 1.0)) * gap
        self._total += 1.0
        self._mean += gap / self._total
        self._squares.follow_one(row, example.slot)

    def catch_up(self) -> None:
        self._squares.catch_up()

    def scores_one(self, x: Array) -> Array:
        return self._squares.scores_one(self._seen(x))

    def _seen(self, x: Array) -> Array:
        if self._features is None:
            return x
        seen: Array = self._features.seen(x[None])[0]
        return seen


def made(
    selected: Selected, frozen: Frozen, learned: LearnedState, came: deque[LearnedExample]
) -> Work[SingleHead]:
    """The chosen head, updated with every example since its construction began."""
    head = yield from _begun(selected, frozen, learned, came)
    while came:
        head.follow(came.popleft())
        head.catch_up()
        yield head.cost
    return head


def _begun(
    selected: Selected, frozen: Frozen, learned: LearnedState, came: deque[LearnedExample]
) -> Work[SingleHead]:
    choice, piece = selected.choice, frozen.piece
    if choice.head == NEAREST:
        came.clear()
        return NearestHead(learned.moments)
    if choice.head == DISCRIMINANT:
        running = RunningDiscriminant(learned.moments.n_features)
        if np.isfinite(piece):  # otherwise the first question computes it as a whole
            yield from _start(running, shrinkage_of(choice), learned.moments, came)
        return DiscriminantHead(learned.moments, shrinkage_of(choice), running)
    if selected.kernel is not None:
        squares = yield from selected.kernel.squares(choice.regularization, choice.recoding)
        return KernelHead(squares)
    if choice.head == KERNEL and frozen.sample.is_all:
        rows, n_slots = frozen.sample.rows, len(frozen.moments.counts)
        squares = yield from kernel_squares(
            rows, n_slots, choice.regularization, choice.recoding, piece=piece
        )
        return KernelHead(squares)
    if choice.head == FEATURES and frozen.has_features:
        assert learned.features.moments is not None
        total = yield from frozen.feature_total()
        solution = yield from _ridge(choice, total, frozen, learned.features.moments)
        return RidgeHead(solution, frozen.feature_moments, learned.features)
    total = yield from frozen.total_scatter()
    solution = yield from _ridge(choice, total, frozen, learned.moments)
    return RidgeHead(solution, frozen.moments)


def _ridge(
    choice: HeadChoice, total_scatter: Array, frozen: Frozen, moments: Moments
) -> Work[LeastSquares]:
    regularization = ridge_of(choice, total_scatter, frozen.moments.n_features)
    lower = yield from factor_of(total_scatter, regularization, frozen.piece)
    return LeastSquares(
        moments,
        regularization,
        choice.recoding,
        rebalance=False,
        intercept=True,
        factor=Factor.of(lower.T),
    )


def _start(
    running: RunningDiscriminant,
    shrinkage: Shrinkage,
    moments: Moments,
    came: deque[LearnedExample],
) -> Work[None]:
    """A solution for the current moments, updated with later examples."""
    came.clear()
    begun = NextSolution(moments, cell_of(ridge_of_shrinkage(shrinkage, moments)))
    while not begun.step():
        yield QUESTION_COST * slice_of(moments)
        while came:
            example = came.popleft()
            begun.follow(example.row[None], (example.slot,))
    running.start(begun.solution, shrinkage)


def ridge_of(choice: HeadChoice, total_scatter: Array, n_features: int) -> float:
    """λ as chosen, relative to the mean variance of ``n_features``."""
    mean_variance = float(total_scatter.diagonal().sum()) / n_features
    return choice.regularization * mean_variance if mean_variance > 0 else 1.0


def nearest_mean_scores(X: Array, moments: Moments) -> Array:
    """−½ ‖x − μ_k‖² up to a term common to all classes, centred at the overall mean."""
    centred = moments.means - moments.mean
    scores: Array = (X - moments.mean) @ centred.T - 0.5 * np.einsum("ij,ij->i", centred, centred)
    return scores


def shrinkage_of(choice: HeadChoice) -> TowardsMeanVariance:
    """ε of (1 − ε) S/N + ε ν I, whose ridge is ε / (1 − ε) of the mean variance."""
    return TowardsMeanVariance(choice.regularization / (1.0 + choice.regularization))
