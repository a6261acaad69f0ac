"""Separates names from background by ridge regression on their combined statistics.

With G and b_k the Gram matrix and the sums of the named vectors, as the classifier holds them, and
Ĝ, b₀ and n₀ those of the background (background.py),

    A = G + Ĝ + λ I,    w_k = (N / n_k)^½ A⁻¹ b_k,    N = Σ n_k + n₀

so no further statistics of the names are kept: finding things uses the same sums as naming a
picture. λ is 1, chosen on training pictures of the data set ``scenes``.

The score of a box x for a name k, with p the proposal score of the box, is

    x·w_k / m_k + 0.25 log p,    m_k = μ_k·w_k, the mean score of the taught examples of k

so that both the match with the name and the quality of the box count. The division by m_k is needed
because scores grow with the number of taught pictures; without it, no single weight would suit both
one picture and a hundred. The weight was chosen by cross-validation on training pictures
(``python -m benchmarks regions_weight``).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from everlearn.arrays import Array
from everlearn.errors import NotExplainable
from everlearn.memory.model.background import Sums
from everlearn.memory.model.head import mapped_features

REGULARIZATION = 1.0
RECODING = 0.5
# Weight of the logarithm of the proposal score.
PROPOSER_WEIGHT = 0.25


class FindHead:
    """Scores of names and background for the vectors of boxes.

    Parameters
    ----------
    learner : an everlearn learner
        Fitted, with second moments.
    power : float
        Exponent of its feature map.
    background : Sums
    """

    def __init__(self, learner: Any, power: float, background: Sums) -> None:
        moments = getattr(learner, "moments_", None)
        if moments is None or not hasattr(moments, "gram"):
            raise NotExplainable(
                f"{type(learner).__name__} keeps no second moments, which are needed to separate "
                "things from background; switch to a classifier that does, for instance: everlearn "
                "use ridge, or use(classifier='ridge')"
            )
        self.power = power
        order = learner.registry_.order
        self.classes: NDArray[np.int64] = learner.classes_
        counts = moments.counts[order]
        sums = counts[:, None] * moments.means[order]
        if background.count:
            counts = np.append(counts, background.count)
            sums = np.vstack([sums, background.total])
        self.has_background = background.count > 0
        A = moments.gram() + background.gram
        A.flat[:: len(A) + 1] += REGULARIZATION
        factor = cho_factor(A, lower=False, overwrite_a=True)
        recoded = (counts.sum() / counts) ** RECODING
        # One row per name; the last one is background, if there is any.
        self.weights: Array = recoded[:, None] * cho_solve(factor, sums.T).T
        own = np.einsum("kj,kj->k", self.weights, sums / counts[:, None])
        # Zero only if all vectors of a name are zero; then its scores are zero, too.
        self._mean_own_scores: Array = np.where(own > 0.0, own, 1.0)

    def scores(self, unit_vectors: Array) -> tuple[Array, Array]:
        """Scores of all names, one row per vector, and of background; −∞ if there is none."""
        mapped = np.asarray(mapped_features(self.power, unit_vectors))
        scores = mapped @ self.weights.T
        if self.has_background:
            return scores[:, :-1], scores[:, -1]
        return scores, np.full(len(scores), -np.inf)

    def confidence(self, scores: Array, proposer_scores: Array) -> Array:
        """Confidence that each box is a thing of each name, one row per box."""
        names = scores / self._mean_own_scores[: scores.shape[1]]
        return np.asarray(names + PROPOSER_WEIGHT * np.log(proposer_scores)[:, None])
