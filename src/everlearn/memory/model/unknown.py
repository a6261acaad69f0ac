"""Out-of-distribution detection by the cosine to class directions.

With u the example at length one and M_k the mean of the class's examples at length one, the
*likeness* of u to class k is

    f_k(u) = u · M_k / |μ_k|

the cosine between u and the class's direction μ_k. M_k is μ_k plus the noise of n_k examples, so
its own length would overstate |μ_k| for a class of few examples and understate the cosine; |μ_k|²
is therefore estimated without bias, from pairs of different examples,

    |μ_k|² ≈ (|Σ u_i|² − n_k) / (n_k (n_k − 1))

and shrunk towards the average over classes with the weight of ``PRIOR_PAIRS`` pairs. A class of one
example takes that average.

The leave-one-out score of a taught example is the highest of its likenesses to the other classes
and to its own class without it: it is removed from Σ u_i, n_k and |μ_k|, but not from the average
over classes. familiar.py turns likeness into familiarity.
"""

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everlearn.arrays import Array

PRIOR_PAIRS = 10.0
# Lower bound of |μ_k|²: below it the examples of a class have nothing in common.
SHORTEST = 1e-6


class Familiarity:
    """Likeness of examples to the taught classes.

    Parameters
    ----------
    counts : ndarray of shape (n_classes,)
        Examples per class.
    means : ndarray of shape (n_classes, n_features)
        Mean of the examples at length one.
    squares : ndarray of shape (n_classes,), optional
        Squared lengths of the means, if they are known.
    """

    def __init__(self, counts: Array, means: Any, squares: Array | None = None) -> None:
        self.counts = counts
        self.means = means
        known = np.einsum("ij,ij->i", means, means) if squares is None else squares
        self._squares = counts**2 * known
        within = self._squares - counts
        self._overall = _overall(counts, within)
        self.lengths = _lengths(counts, within, self._overall)

    @cached_property
    def directions(self) -> Array:
        """μ_k at length one, one row per class."""
        directions: Array = self.means / self.lengths[:, None]
        return directions

    def near(self, unit: Array) -> Array:
        """Likeness of each row to every class."""
        likeness: Array = unit @ self.means.T
        likeness /= self.lengths
        return likeness

    def near_own_loo(self, near: Array, sample: Array, classes: NDArray[np.intp]) -> Array:
        """Likeness of taught examples to their own class without them (leave-one-out).

        −∞ for the only example of a class.

        Parameters
        ----------
        near : ndarray
            Result of :meth:`near` for the sample; not modified.
        sample : ndarray
            Some of the taught examples at length one.
        classes : ndarray
            The class of each, a row of ``means``.
        """
        counts = self.counts[classes]
        own = np.einsum("ij,ij->i", sample, sample)
        along = near[np.arange(len(sample)), classes] * self.lengths[classes] * counts
        left = counts - 1.0
        squares = self._squares[classes] - 2.0 * along + own
        lengths = _lengths(left, squares - left, self._overall)
        several = np.where(left > 0, left, 1.0)
        without: Array = np.where(left > 0, (along - own) / several / lengths, -np.inf)
        return without


def direction_lengths(counts: Array, squares: Array) -> Array:
    """|μ_k| of every class, from the squared lengths of their means."""
    within = counts**2 * squares - counts
    return _lengths(counts, within, _overall(counts, within))


def _overall(counts: Array, within: Array) -> float:
    """The average of |μ_k|² over classes; ``within`` are the sums over pairs of each class."""
    pairs = counts * (counts - 1.0)
    several = pairs > 0
    return float(within[several].sum() / pairs.sum()) if several.any() else 1.0


def _lengths(counts: Array, within: Array, overall: float) -> Array:
    """|μ_k| of classes, from their number of examples and sums over pairs, shrunk."""
    pairs = counts * (counts - 1.0)
    # Every pair of examples was counted twice, once in each order.
    shrunk = within * (pairs > 0) / 2.0 + PRIOR_PAIRS * overall
    lengths: Array = np.sqrt(np.maximum(shrunk / (pairs / 2.0 + PRIOR_PAIRS), SHORTEST))
    return lengths
