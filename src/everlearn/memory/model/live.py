"""Scores of many names, updated incrementally with every teaching.

With few names, a question uses one matrix of weights (head.py), which takes O(K d²) to rebuild
after a change. With many names this would stall every teaching, and it is not necessary: ridge
regression and nearest class mean score class k by a product with its mean,

    score_k = a_k (μ_k·z + c) + b_k

where z, a, b and c follow from the statistics in O(d² + K). This file keeps float32 copies of the
class means and of the means used for likeness; after a teaching only the changed rows are copied
again. Of the likenesses only the highest is needed. Screening with one byte per number
(:mod:`everlearn.statistics.screening`) selects a few candidates, with bounds that include float32
rounding, so the result equals that over all names.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from everlearn.arrays import Array, padded
from everlearn.learners.closed_form.screened import ScreenedMeans
from everlearn.learners.ncm import NearestClassMean
from everlearn.learners.rlsc import RecursiveRLSC
from everlearn.memory.model.feature_map import power_and_learner
from everlearn.memory.model.head import Likeness, likeness_of, mapped_features
from everlearn.memory.model.model import Model
from everlearn.memory.model.unknown import direction_lengths
from everlearn.statistics.class_means import ClassMeans
from everlearn.statistics.moments import BLOCK_ROWS
from everlearn.statistics.screening import Products

# Below this number of names, one matrix of weights is used.
MANY_NAMES = 1024
# Bound on the rounding error of a float32 product, in units of float64 rounding.
ROUNDED = 2.0**30


class MeansCopy:
    """Float32 copy of class means and their squared lengths, kept in step with the moments."""

    def __init__(self, moments: ClassMeans) -> None:
        self._moments = moments
        # With spare rows, so that a new name does not copy the others.
        capacity = moments.n_slots * 5 // 4
        self._rows: NDArray[np.float32] = np.zeros((capacity, moments.n_features), np.float32)
        self._squares: Array = np.zeros(capacity)
        for start in range(0, moments.n_slots, BLOCK_ROWS):  # so that each mean is read once
            part = slice(start, min(start + BLOCK_ROWS, moments.n_slots))
            means = moments.means[part]
            self._rows[part] = means
            self._squares[part] = np.einsum("ij,ij->i", means, means)
        self._mark = moments.changes.mark()

    def is_of(self, moments: ClassMeans) -> bool:
        """Whether this copy can follow these moments."""
        return self._moments is moments and moments.changes.since(self._mark) is not None

    @property
    def rows(self) -> NDArray[np.float32]:
        return self._rows[: self._moments.n_slots]

    @property
    def squares(self) -> Array:
        return self._squares[: self._moments.n_slots]

    def follow(self) -> bool:
        """Copy the rows that changed; returns whether any did."""
        moments = self._moments
        changed = sorted(moments.changes.since(self._mark) or ())
        self._mark = moments.changes.mark()
        if moments.n_slots > len(self._rows):
            capacity = max(moments.n_slots, len(self._rows) * 5 // 4)
            self._rows = padded(self._rows, capacity)
            self._squares = padded(self._squares, capacity)
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
        With many names; see :func:`has_live_products`.
    """

    def __init__(self, model: Model) -> None:
        self.power, self._learner = power_and_learner(model.classifier)
        self._means = model.means
        self._classes = MeansCopy(self._learner.moments_)
        self._names = MeansCopy(model.means.moments_)
        self._lengths = self._direction_lengths()
        self._screened = ScreenedMeans()
        self._was_taught = False

    def is_of(self, model: Model) -> bool:
        """Whether these products can follow this model."""
        learner = power_and_learner(model.classifier)[1]
        same = learner is self._learner and model.means is self._means
        return (
            same
            and self._classes.is_of(learner.moments_)
            and self._names.is_of(model.means.moments_)
        )

    def follow(self) -> None:
        """Update the copies from the model."""
        self._was_taught = True
        self._make_room()
        self._classes.follow()
        if self._names.follow():
            self._lengths = self._direction_lengths()

    def products(self, unit_vector: Array, needs_average: bool) -> tuple[Array, Likeness]:
        """Scores of the classes, in the order of ``classes_``, and likeness to the names.

        Without ``needs_average`` the mean over names may be 0.
        """
        if self._was_taught:
            self._make_room()
        scores = self._scores(mapped_features(self.power, unit_vector))
        return scores[self._learner.registry_.order], self._likeness(unit_vector, needs_average)

    def _likeness(self, unit_vector: Array, needs_average: bool) -> Likeness:
        vector, registry = unit_vector.astype(np.float32), self._means.registry_
        asked = Products(unit_vector, scale=1.0 / self._lengths, slack=ROUNDED)
        few = None
        if not needs_average:
            few = self._screened.candidates(self._means.moments_, lambda _: asked)
        if few is None:
            near = np.vecdot(self._names.rows, vector) / self._lengths
            return likeness_of(near[registry.order])
        places = np.sort(registry.rank[few])
        slots = registry.order[places]
        near = np.vecdot(self._names.rows[slots], vector) / self._lengths[slots]
        best = int(near.argmax())
        return Likeness(int(places[best]), float(near[best]), 0.0)

    def _scores(self, x: Array) -> Array:
        rows = self._classes.rows
        if isinstance(self._learner, NearestClassMean):
            return np.vecdot(rows, x.astype(np.float32)) - 0.5 * self._classes.squares
        z, offset, scale = self._learner.linear_question(x)
        found: Array = (np.vecdot(rows, z.astype(np.float32)) + offset) * scale
        return found

    def _make_room(self) -> None:
        """Copy a slice of the class means to arrays with spare rows, if they have none.

        Class means that were mapped from a snapshot have no spare rows; copying all of them for one
        new name would stall it. Called with every teaching, and every question after the first.
        """
        self._learner.moments_.make_room()
        self._means.moments_.make_room()

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
