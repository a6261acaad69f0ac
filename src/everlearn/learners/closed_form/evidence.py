"""Accuracy of leave-one-out scores on kept examples, and whether a difference is significant.

The sample has as many examples of rare classes as of frequent ones; each is weighted as in the
stream it represents. Counts of correct answers are noisy: accuracy over regularization is a noisy
plateau, whose highest point is random. One table of scores therefore only counts as better than
another if it leads by more than a standard error and an example, over the examples where the two
differ.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from everlearn.arrays import Array, Slots
from everlearn.learners.closed_form.leave_one_out import LearnedRows, recoded
from everlearn.statistics.slices import Work, copied

# A preferred table may be behind by this many standard errors
ERRORS = 1.0
# and this many examples: with few of them, one or two are no evidence.
LEAST_LEAD = 1.0
# Classes are uneven, and recoding is considered, if the largest is this many times larger.
UNEVEN = 2.0
# Cost of a power, in multiplications.
POWER = 100.0
# A class with less than this share of the total weight left consists of rounding errors.
NOTHING = 1e-9


def comparable(kept: LearnedRows, counts: Array) -> Slots:
    """Positions of examples whose class would still exist without them."""
    single = np.minimum(kept.weights, 1.0)
    return np.flatnonzero(counts[kept.slots] - single > NOTHING * counts.sum())


def one_copy_each(kept: LearnedRows, positions: Slots, piece: float = np.inf) -> Work[LearnedRows]:
    """These examples with weight at most one: of an example of weight two, one copy is left out."""
    slots, weights = kept.slots[positions], np.minimum(kept.weights[positions], 1.0)
    if len(positions) == len(kept):
        return LearnedRows(kept.X, slots, weights)
    X = yield from copied(kept.X, piece, positions)
    return LearnedRows(X, slots, weights)


class LeaveOneOutEvidence:
    """Evaluates tables of leave-one-out scores on kept examples."""

    def __init__(self, counts: Array, rows: LearnedRows, weights: Array) -> None:
        self._rows, self._slots = rows, rows.slots
        self._counts = counts
        kept = np.bincount(rows.slots, weights, len(counts))
        share = counts[rows.slots] / kept[rows.slots] * weights
        self.total = float(weights.sum())
        self._share: Array = share * self.total / share.sum()
        # An example of weight two counts as two that are right or wrong together.
        self._squares: Array = self._share**2 / weights
        known = counts[counts > 0]
        self._uneven = bool(known.max() > UNEVEN * known.min())

    def right(self, tables: list[Array]) -> Array:
        """Number of examples that each table of scores answers correctly."""
        return self._hits(tables) @ self._share

    def first_as_good_as_the_best(self, tables: list[Array]) -> int:
        """The first table that is not behind the best by a standard error and an example."""
        hits = self._hits(tables)
        best = hits[int((hits @ self._share).argmax())]
        behind = (best.astype(np.float64) - hits) @ self._share
        error = np.sqrt((best != hits) @ self._squares)
        return int(np.flatnonzero(~(behind > ERRORS * error + LEAST_LEAD))[0])  # it may overflow

    def _hits(self, tables: list[Array]) -> NDArray[np.bool_]:
        """One row per table: which examples it answers correctly."""
        return np.array([scores.argmax(axis=1) == self._slots for scores in tables])

    def recoding(self, scores: Array, recodings: tuple[float, ...]) -> Work[tuple[float, Array]]:
        """The first α that is as good as any, if classes differ in size, else 0.

        Returns the recoded scores as well.
        """
        if not self._uneven:
            return 0.0, self._recoded(scores, 0.0)
        tables = []
        for alpha in recodings:
            tables.append(self._recoded(scores, alpha))
            yield POWER * scores.size
        best = self.first_as_good_as_the_best(tables)
        return recodings[best], tables[best]

    def _recoded(self, scores: Array, alpha: float) -> Array:
        return recoded(scores.copy(), self._slots, self._rows.weights, self._counts, alpha)

    def temperature(self, scores: Array) -> float:
        """The divisor of the scores that maximises the likelihood of the correct answers."""
        own = scores[np.arange(len(scores)), self._slots]
        gaps = scores - own[:, None]
        finite = np.isfinite(gaps)
        share = np.broadcast_to(self._share[:, None], gaps.shape)[finite]
        scale = _deviation(gaps[finite], share)
        if not scale > 0:
            return 1.0

        def surprise(logarithm: float) -> float:
            shrunk = gaps / (scale * np.exp(logarithm))
            top = shrunk.max(axis=1)
            return float(self._share @ (top + np.log(np.exp(shrunk - top[:, None]).sum(axis=1))))

        best = minimize_scalar(surprise, bounds=(-7.0, 3.0), method="bounded")
        return scale * float(np.exp(best.x))


def _deviation(values: Array, weights: Array) -> float:
    if not weights.sum() > 0:
        return 0.0
    mean = np.average(values, weights=weights)
    return float(np.sqrt(np.average((values - mean) ** 2, weights=weights)))
