"""Scores of many names off statistics that change a little with every teaching.

With few names a question goes through one matrix of weights (head.py), made anew after a change:
O(K d²). With many that would be a stall after every teaching, and no weights are needed: ridge
regression and nearest means score class k by a product with its mean,

    score_k = a_k (μ_k·z + c) + b_k

where z, a, b and c follow from the statistics in O(d² + K). Here a copy of the class means in
float32 is kept, and of the means that likeness is measured with, and after a teaching only the rows
that changed are copied again.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from everlearn.arrays import Array
from everlearn.learners.ncm import NearestClassMean
from everlearn.learners.rlsc import RecursiveRLSC
from everlearn.memory.model.feature_map import power_and_learner
from everlearn.memory.model.head import mapped_features
from everlearn.memory.model.model import Model
from everlearn.memory.model.unknown import direction_lengths
from everlearn.statistics.class_means import ClassMeans

# Fewer names than this are asked through one matrix of weights.
MANY_NAMES = 1024


class MeansCopy:
    """Class means in float32, and their squared lengths, that follow their moments."""

    def __init__(self, moments: ClassMeans) -> None:
        self._moments = moments
        self._rows: NDArray[np.float32] = moments.means.astype(np.float32)
        self._squares: Array = np.einsum("ij,ij->i", moments.means, moments.means)
        self._mark = moments.changes.mark()

    def is_of(self, moments: ClassMeans) -> bool:
        return self._moments is moments and moments.changes.since(self._mark) is not None

    @property
    def rows(self) -> NDArray[np.float32]:
        return self._rows[: self._moments.n_slots]

    @property
    def squares(self) -> Array:
        return self._squares[: self._moments.n_slots]

    def follow(self) -> bool:
        """Copy the rows that changed; whether any did."""
        moments = self._moments
        changed = sorted(moments.changes.since(self._mark) or ())
        self._mark = moments.changes.mark()
        if moments.n_slots > len(self._rows):
            more = max(moments.n_slots, len(self._rows) * 5 // 4) - len(self._rows)
            self._rows = np.concatenate([self._rows, np.zeros((more, self._rows.shape[1]), "f4")])
            self._squares = np.concatenate([self._squares, np.zeros(more)])
        for slot in changed:
            mean = moments.means[slot]
            self._rows[slot] = mean
            self._squares[slot] = mean @ mean
        return bool(changed)


class LiveProducts:
    """Scores of all classes, and likeness to all names, of a model that is being taught.

    Parameters
    ----------
    model : Model
        Of many names; :func:`has_live_products` says whether it has any.
    """

    def __init__(self, model: Model) -> None:
        self.power, self._learner = power_and_learner(model.classifier)
        self._means = model.means
        self._classes = MeansCopy(self._learner.moments_)
        self._names = MeansCopy(model.means.moments_)
        self._lengths = self._direction_lengths()

    def is_of(self, model: Model) -> bool:
        learner = power_and_learner(model.classifier)[1]
        same = learner is self._learner and model.means is self._means
        return (
            same
            and self._classes.is_of(learner.moments_)
            and self._names.is_of(model.means.moments_)
        )

    def follow(self) -> None:
        """Bring the copies up to date with the model."""
        self._classes.follow()
        if self._names.follow():
            self._lengths = self._direction_lengths()

    def products(self, unit_vector: Array) -> tuple[Array, Array]:
        """Scores by class, and likeness by name, both in the order of ``classes_``."""
        scores = self._scores(mapped_features(self.power, unit_vector))
        near = np.vecdot(self._names.rows, unit_vector.astype(np.float32)) / self._lengths
        return scores[self._learner.registry_.order], near[self._means.registry_.order]

    def _scores(self, x: Array) -> Array:
        rows = self._classes.rows
        if isinstance(self._learner, NearestClassMean):
            return np.vecdot(rows, x.astype(np.float32)) - 0.5 * self._classes.squares
        z, offset, scale = self._learner.linear_question(x)
        found: Array = (np.vecdot(rows, z.astype(np.float32)) + offset) * scale
        return found

    def _direction_lengths(self) -> Array:
        return direction_lengths(self._means.moments_.counts, self._names.squares)


def has_live_products(model: Model) -> bool:
    """Whether a model has many names, and a classifier that scores by products with means."""
    learner: Any = power_and_learner(model.classifier)[1]
    if len(model.means.registry_) < MANY_NAMES or not learner.exact_in_order:
        return False
    if type(learner) is NearestClassMean:
        return learner.metric == "euclidean"
    return type(learner) is RecursiveRLSC
