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

The threshold comes from the taught examples alone: each is scored against its own class without
itself (Σ u_i − u, over n_k − 1 examples), and the threshold is the quantile that accepts the share
``accept`` of them. Before any class has two examples there is nothing to learn it from, and nothing
is called unknown.
"""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

PRIOR_PAIRS = 10.0
# Directions shorter than this are noise: the examples of the class have nothing in common.
SHORTEST = 1e-6


class Familiarity:
    """Directions of the classes, and the threshold below which nothing is known.

    Parameters
    ----------
    counts : ndarray of shape (n_classes,)
        Examples per class.
    means : ndarray of shape (n_classes, n_features)
        Mean of the examples at length one.
    sample, classes : ndarray
        Some of the taught examples at length one, and the class (row of ``means``) of each.
    accept : float
        The share of the sample that should count as known.
    """

    def __init__(
        self, counts: Array, means: Array, sample: Array, classes: NDArray[np.intp], accept: float
    ) -> None:
        lengths = _direction_lengths(counts, means)
        self.directions: Array = means / lengths[:, None]
        several = counts[classes] > 1
        sample, classes = sample[several], classes[several]
        self.threshold = -np.inf
        if len(sample):
            others = counts[classes] - 1.0
            dots = np.einsum("ij,ij->i", sample, means[classes]) * counts[classes]
            own = np.einsum("ij,ij->i", sample, sample)
            scores = (dots - own) / others / lengths[classes]
            self.threshold = float(np.quantile(scores, 1.0 - accept))

    def of(self, unit: Array) -> Array:
        """Familiarity with the nearest class, for each row."""
        nearest: Array = (unit @ self.directions.T).max(axis=1)
        return nearest


def _direction_lengths(counts: Array, means: Array) -> Array:
    """|μ_k| of every class."""
    pairs = counts * (counts - 1.0)
    squares = counts**2 * np.einsum("ij,ij->i", means, means) - counts
    overall = squares[pairs > 0].sum() / pairs.sum() if np.any(pairs > 0) else 1.0
    # Every pair of examples was counted twice, in both orders.
    shrunk = (squares * (pairs > 0) / 2.0 + PRIOR_PAIRS * overall) / (pairs / 2.0 + PRIOR_PAIRS)
    lengths: Array = np.sqrt(np.maximum(shrunk, SHORTEST))
    return lengths
