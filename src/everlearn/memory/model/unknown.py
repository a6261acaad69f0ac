"""Does this look like anything that was taught?

With u the example at length one and M_k the mean of the class's examples at length one, each, the
familiarity of u with class k is

    f_k(u) = u · M_k / |μ_k|

the cosine between u and the class's direction μ_k. M_k is μ_k plus the noise of n_k examples, so
its own length would overstate |μ_k| for a class of few examples and understate the cosine; |μ_k|²
is therefore estimated without bias, from pairs of different examples,

    |μ_k|² ≈ (|Σ u_i|² − n_k) / (n_k (n_k − 1))

and drawn towards the average over classes with the weight of ``PRIOR_PAIRS`` pairs. A class of one
example takes that average.

What a taught example would score had it not been taught is its familiarity with its own class
without itself (Σ u_i − u, over n_k − 1 examples) or with another class, whichever is higher. From
these scores follows which new ones are too low (conformal.py).
"""

import numpy as np
from numpy.typing import NDArray

from everlearn.arrays import Array

PRIOR_PAIRS = 10.0
# Directions shorter than this are noise: the examples of the class have nothing in common.
SHORTEST = 1e-6


class Familiarity:
    """How much something resembles what was taught.

    Parameters
    ----------
    counts : ndarray of shape (n_classes,)
        Examples per class.
    means : ndarray of shape (n_classes, n_features)
        Mean of the examples at length one.
    """

    def __init__(self, counts: Array, means: Array) -> None:
        self.counts = counts
        self.means = means
        self.lengths = direction_lengths(counts, np.einsum("ij,ij->i", means, means))
        self.directions: Array = means / self.lengths[:, None]

    def leave_one_out(
        self, sample: Array, classes: NDArray[np.intp]
    ) -> tuple[Array, NDArray[np.intp]]:
        """Familiarity of taught examples had they not been taught, and the class it is with.

        Examples that are the only one of their class are left away.

        Parameters
        ----------
        sample : ndarray
            Some of the taught examples at length one.
        classes : ndarray
            The class of each, a row of ``means``.
        """
        several = self.counts[classes] > 1
        sample, classes = sample[several], classes[several]
        scores = sample @ self.directions.T
        rows = np.arange(len(sample))
        own = np.einsum("ij,ij->i", sample, sample)
        sums = scores[rows, classes] * self.lengths[classes] * self.counts[classes]
        scores[rows, classes] = (sums - own) / (self.counts[classes] - 1.0) / self.lengths[classes]
        nearest = scores.argmax(axis=1)
        return scores[rows, nearest], nearest

    def of(self, unit: Array) -> Array:
        """Familiarity with the nearest class, for each row."""
        nearest: Array = (unit @ self.directions.T).max(axis=1)
        return nearest


def direction_lengths(counts: Array, squares: Array) -> Array:
    """|μ_k| of every class, from the squared lengths of their means."""
    pairs = counts * (counts - 1.0)
    squares = counts**2 * squares - counts
    overall = squares[pairs > 0].sum() / pairs.sum() if np.any(pairs > 0) else 1.0
    # Every pair of examples was counted twice, in both orders.
    shrunk = (squares * (pairs > 0) / 2.0 + PRIOR_PAIRS * overall) / (pairs / 2.0 + PRIOR_PAIRS)
    lengths: Array = np.sqrt(np.maximum(shrunk, SHORTEST))
    return lengths
