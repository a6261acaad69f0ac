"""Scores of many names, updated incrementally with every teaching.

With few names, a question uses one matrix of weights (head.py), which takes O(K d²) to rebuild
after a change. With many names this would stall every teaching, and it is not necessary: ridge
regression and nearest class mean score class k by a product with its mean,

    score_k = a_k (μ_k·z + c) + b_k

where z, a, b and c follow from the statistics in O(d² + K). Of the scores only the highest and
their probabilities are needed, of the likenesses only the highest and, for some calibrations, the
mean. Copies of the means with one byte per number (:mod:`everlearn.statistics.screening`) select a
few candidates, and bound what the others add to the probabilities; after a teaching only the
changed rows are copied again. The candidates are those of a computation over all names, and their
probabilities are right to half of ``TOLERANCE``.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from everlearn.arrays import Array, Slots, padded
from everlearn.errors import DamagedModel
from everlearn.learners.closed_form.screened import ScreenedMeans, ScreenedQuestion
from everlearn.learners.ncm import NearestClassMean
from everlearn.learners.rlsc import RecursiveRLSC
from everlearn.memory.model.feature_map import power_and_learner
from everlearn.memory.model.head import Likeness, Probabilities, likeness_of, mapped_features
from everlearn.memory.model.model import Model
from everlearn.memory.model.unknown import direction_lengths
from everlearn.statistics.class_means import ClassMeans
from everlearn.statistics.moments import BLOCK_ROWS
from everlearn.statistics.products import products_one
from everlearn.statistics.screening import Products

# Below this number of names, one matrix of weights is used.
MANY_NAMES = 1024
# Largest difference between a factor that was updated and one computed anew, as a share.
ACCURATE = 1e-7
# Largest share of the sum over all names that may be uncertain.
TOLERANCE = 0.01


class SquaredLengths:
    """Squared lengths of class means, kept in step with the moments."""

    def __init__(self, moments: ClassMeans) -> None:
        self._moments = moments
        # With spare places, so that a new name does not copy the others.
        self._squares: Array = np.zeros(moments.n_slots * 5 // 4)
        for start in range(0, moments.n_slots, BLOCK_ROWS):
            part = slice(start, min(start + BLOCK_ROWS, moments.n_slots))
            means = moments.means[part]
            self._squares[part] = np.einsum("ij,ij->i", means, means)
        self._mark = moments.changes.mark()

    def is_of(self, moments: ClassMeans) -> bool:
        """Whether these can follow these moments."""
        return self._moments is moments and moments.changes.since(self._mark) is not None

    @property
    def squares(self) -> Array:
        return self._squares[: self._moments.n_slots]

    def follow(self) -> bool:
        """Compute those that changed; returns whether any did."""
        moments = self._moments
        changed = sorted(moments.changes.since(self._mark) or ())
        self._mark = moments.changes.mark()
        if moments.n_slots > len(self._squares):
            self._squares = padded(self._squares, max(moments.n_slots, len(self._squares) * 5 // 4))
        for slot in changed:
            mean = moments.means[slot]
            self._squares[slot] = mean @ mean
        return bool(changed)


class LiveProducts:
    """Probabilities of all classes, and likeness to all names, of a model that is being taught.

    Parameters
    ----------
    model : Model
        With many names; see :func:`has_live_products`.
    """

    def __init__(self, model: Model) -> None:
        self.power, self._learner = power_and_learner(model.classifier)
        self._means = model.means
        self._classes = SquaredLengths(self._learner.moments_)
        self._names = SquaredLengths(model.means.moments_)
        self._lengths = self._direction_lengths()
        self._average: Array | None = None
        self._screened_classes = ScreenedMeans()
        self._screened_names = ScreenedMeans()
        self._screened_classes.build(self._learner.moments_, fine=True)
        self._screened_names.build(model.means.moments_)
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
        """Update the lengths from the model; the screens follow when they are used."""
        self._was_taught = True
        self._make_room()
        self._classes.follow()
        if self._names.follow():
            self._lengths = self._direction_lengths()
            self._average = None

    def probabilities(
        self, unit_vector: Array, temperature: float, top: int | None
    ) -> Probabilities:
        """Probabilities of at least the ``top`` best classes; ``None`` for all."""
        if self._was_taught:
            self._make_room()
        asked, exact = self._question(mapped_features(self.power, unit_vector))
        moments, registry = self._learner.moments_, self._learner.registry_
        found = top and self._screened_classes.shares(
            moments,
            ScreenedQuestion(lambda _: asked, exact),
            best=top,
            temperature=temperature,
            tolerance=TOLERANCE,
        )
        if not found:
            return Probabilities.of(exact(slice(None))[registry.order], temperature)
        places = registry.rank[found.rows]
        order = np.argsort(places)
        return Probabilities(found.shares[order], float(found.scores.max()), places[order])

    def likeness(self, unit_vector: Array, needs_average: bool) -> Likeness:
        """Likeness to the names; without ``needs_average``, the mean over names may be 0."""
        moments, registry = self._means.moments_, self._means.registry_
        asked = Products(unit_vector, scale=1.0 / self._lengths)
        few = self._screened_names.candidates(moments, lambda _: asked)
        if few is None:
            near = products_one(moments.means, unit_vector) / self._lengths
            return likeness_of(near[registry.order])
        places = np.sort(registry.rank[few])
        slots = registry.order[places]
        near = products_one(moments.means[slots], unit_vector) / self._lengths[slots]
        best = int(near.argmax())
        average = float(self._average_direction() @ unit_vector) if needs_average else 0.0
        return Likeness(int(places[best]), float(near[best]), average)

    def _question(self, x: Array) -> tuple[Products, Callable[[Slots | slice], Array]]:
        """The question to a screen, and the scores of some slots."""
        means = self._learner.moments_.means
        if isinstance(self._learner, NearestClassMean):
            bias = -0.5 * self._classes.squares

            def with_bias(slots: Slots | slice) -> Array:
                return products_one(means[slots], x) + bias[slots]

            return Products(x, bias=bias), with_bias
        z, offset, scale = self._learner.linear_question(x)

        def with_scale(slots: Slots | slice) -> Array:
            return (products_one(means[slots], z) + offset) * scale[slots]

        return Products(z, scale, offset), with_scale

    def _average_direction(self) -> Array:
        """The mean of the directions of all names; computed once per state."""
        if self._average is None:
            order = self._means.registry_.order
            weights = np.zeros(len(self._lengths))
            weights[order] = 1.0 / (len(order) * self._lengths[order])
            self._average = weights @ self._means.moments_.means
        return self._average

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


def computed_factor(model: Model) -> Array | None:
    """The factor that questions of a model with many names need, computed from its statistics.

    ``None`` for other models.
    """
    learner = _learner_with_factor(model)
    return None if learner is None else learner.computed_factor()


def take_factor(model: Model, R: Array | None) -> None:
    """Use the factor of a snapshot, unless it does not belong to the model."""
    if R is None:
        return
    learner = _learner_with_factor(model)
    if learner is None:
        raise DamagedModel("a snapshot has a factor, but its classifier needs none")
    d = learner.moments_.n_features
    if R.shape != (d, d) or not np.isfinite(R).all() or not (R.diagonal() > 0.0).all():
        raise DamagedModel("the factor in a snapshot does not belong to its classifier")
    learner.take_factor(R)


def has_accurate_factor(model: Model) -> bool:
    """Whether the factor that questions use is that of the statistics, in every direction."""
    learner = _learner_with_factor(model)
    if learner is None:
        return True
    R, expected = learner.frozen_solution(learner.moments_).factor(), learner.computed_factor()
    return bool(np.abs(R - expected).max() <= ACCURATE * np.abs(expected).max())


def _learner_with_factor(model: Model) -> RecursiveRLSC | None:
    """The learner of a model with many names, if its questions need a factor."""
    learner: Any = power_and_learner(model.classifier)[1]
    is_ridge = model.taught and type(learner) is RecursiveRLSC
    return learner if is_ridge and has_live_products(model) else None
