"""The exact effect of every single teaching on an answer, without retraining.

Removing teaching i, of class c and with leverage h_i = x_i·A⁻¹x_i, from ridge regression is a
rank-one update. With z = A⁻¹x, w_k = A⁻¹b_k, t_i = x_i·z and v_i = x_i·w_k, the plain score of
class k for x becomes (Sherman and Morrison; x = x_i gives the leave-one-out identity of the hat
matrix)

    k ≠ c    b_k·z + v_i t_i / (1 − h_i)
    k = c    b_k·z − t_i + (v_i − h_i) t_i / (1 − h_i)

times the recoding n'_k^−α with the remaining counts. The factor N^α is the same for all classes. It
is omitted where effects are compared; otherwise every teaching would affect every answer a little.
Removing a set S of teachings solves a system with |S| unknowns:
A'⁻¹x = z + U (I − X_S U)⁻¹ X_S z with U = A⁻¹X_Sᵀ.

The leverages of n teachings cost two triangular solves, O(n d²), once; then a question costs two
products with the n × d matrix of teachings. A⁻¹ is applied with the classifier's own factor. The
weights of all classes are never computed: with many names that would cost more than the question.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everlearn.arrays import Array
from everlearn.errors import NotExplainable
from everlearn.learners.closed_form.leave_one_out import leave_one_out_scores
from everlearn.learners.rlsc import RecursiveRLSC
from everlearn.statistics.slices import Work, parts, product_table

Classes = NDArray[np.intp]

# Rows per block of leverages.
BLOCK = 2048
# At most this many leave-one-out scores per block.
MOST_SCORES = 1 << 23


class Ridge:
    """Scores of a ridge classifier for its training examples, with and without each of them.

    Parameters
    ----------
    classifier : RecursiveRLSC
        Fitted, with given λ and α, recoding, and no intercept.
    """

    def __init__(self, classifier: Any) -> None:
        require_ridge(classifier)
        moments, order = classifier.moments_, classifier.registry_.order
        in_order = bool(np.array_equal(order, np.arange(moments.n_slots)))
        self.recoding = float(classifier.recoding)
        self.counts: Array = moments.counts[order]
        # An array, or what slices to arrays.
        self._means: Any = moments.means if in_order else moments.means[order]
        # A⁻¹ applied to every row.
        self.solve: Callable[[Array], Array] = classifier.inverse_times
        self._classifier = classifier

    def scores(self, x: Array) -> Array:
        """The score of every class, without the factor N^α that all classes share."""
        return self.recoded(1.0, self.counts) * self.counts * (self._means @ self.solve(x[None])[0])

    def sums(self, target: int) -> Array:
        """b_k of one class."""
        found: Array = self.counts[target] * self._means[target]
        return found

    def fits(self, solved: Array) -> Array:
        """Plain scores x·A⁻¹b_k of rows with given A⁻¹x, one column per class."""
        found = solved @ self._means.T
        found *= self.counts
        return found

    def solved_and_fits(self, rows: Array, piece: float) -> Work[tuple[Array, Array]]:
        """A⁻¹x of every row, and the plain scores before they are multiplied by the counts."""
        each, blocks = float(rows.shape[1] ** 2), []
        for part in parts(len(rows), each, piece):
            blocks.append(self.solve(rows[part]))
            yield (part.stop - part.start) * each
        solved = blocks[0] if len(blocks) == 1 else np.concatenate(blocks)
        return solved, (yield from product_table(solved, self._means, piece))

    def noise(self, piece: float) -> Work[float]:
        """The residual variance of a score."""
        yield piece
        return float(self._classifier.temperature_)

    def leverages(self, rows: Array) -> Array:
        """x·A⁻¹x of every row."""
        found = np.empty(len(rows))
        for start in range(0, len(rows), BLOCK):
            part = slice(start, start + BLOCK)
            found[part] = np.einsum("ij,ij->i", rows[part], self.solve(rows[part]))
        return found

    def leave_one_out(self, rows: Array, y: Classes) -> Array:
        """Leave-one-out scores of taught examples: a row for each, a column per class."""
        solved = self.solve(rows)
        return self.leave_one_out_solved(rows, y, solved, self.fits(solved))

    def leave_one_out_solved(self, rows: Array, y: Classes, solved: Array, fits: Array) -> Array:
        """As :meth:`leave_one_out`, with A⁻¹x and the plain scores, which are overwritten."""
        leverages = np.einsum("ij,ij->i", rows, solved)
        weights = np.ones(len(y))
        return leave_one_out_scores(fits, leverages, y, weights, self.counts, self.recoding)

    def recoded(self, total: float, counts: Array) -> Array:
        """(total / n_k)^α of every class; zero for an empty one."""
        known = counts > 0
        return np.where(known, (total / np.where(known, counts, 1.0)) ** self.recoding, 0.0)


class Influence(Ridge):
    """A ridge classifier with its training examples, for the effect of each on a question.

    Parameters
    ----------
    classifier : RecursiveRLSC
    X : ndarray of shape (n, n_features)
        All training examples.
    y : ndarray of shape (n,)
        The class of each, as a position in ``classifier.classes_``.
    """

    def __init__(self, classifier: Any, X: Array, y: Classes) -> None:
        super().__init__(classifier)
        self.X = X
        self.y = y
        self.h = self.leverages(X)

    def leave_one_out_blocks(self) -> Iterator[tuple[slice, Array]]:
        """Leave-one-out scores of all teachings, in blocks: their rows, and the scores.

        All scores at once would need memory for n × K numbers.
        """
        size = max(1, MOST_SCORES // len(self.counts))
        for start in range(0, len(self.X), size):
            part = slice(start, min(len(self.X), start + size))
            yield part, self.leave_one_out(self.X[part], self.y[part])

    def without_each(self, x: Array, target: int) -> Array:
        """The score of one class for x, without each teaching in turn."""
        z, w = self.solve(np.stack([x, self.sums(target)]))
        t, v = self.X @ z, self.X @ w
        of_target = self.y == target
        plain = float(self.sums(target) @ z)
        changed = plain + v * t / (1.0 - self.h)
        changed[of_target] = (plain - t + (v - self.h) * t / (1.0 - self.h))[of_target]
        counts = np.where(of_target, self.counts[target] - 1.0, self.counts[target])
        without: Array = self.recoded(1.0, counts) * changed
        return without

    def without(self, x: Array, removed: NDArray[np.intp]) -> Array:
        """The score of every class for x, without some teachings; −∞ for classes without any."""
        rows = self.X[removed]
        z = self.solve(x[None])[0]
        U = self.solve(rows).T
        z = z + U @ np.linalg.solve(np.eye(len(removed)) - rows @ U, rows @ z)
        counts = self.counts - np.bincount(self.y[removed], minlength=len(self.counts))
        plain = self.counts * (self._means @ z)
        np.subtract.at(plain, self.y[removed], rows @ z)
        scores: Array = self.recoded(1.0, counts) * plain
        return np.where(counts > 0, scores, -np.inf)


def require_ridge(classifier: Any) -> None:
    """Require a classifier for which the formulas above hold."""
    if not isinstance(classifier, RecursiveRLSC):
        raise NotExplainable(
            f"{type(classifier).__name__} has no formula for the effect of a single teaching; "
            "switch to ridge regression, which has: everlearn use ridge, or use(classifier='ridge')"
        )
    chosen = isinstance(classifier.regularization, str) or isinstance(classifier.recoding, str)
    weighted = classifier.weighting != "recode" or classifier.class_weight is not None
    weighted = weighted or classifier.half_life is not None
    if chosen or weighted or classifier.fit_intercept:
        raise NotExplainable(
            f"{classifier!r} chooses parameters from the data, weights examples or has an "
            "intercept, so the effect of a single teaching has no formula; switch to a classifier "
            "for which it has: everlearn use ridge, or use(classifier='ridge')"
        )
