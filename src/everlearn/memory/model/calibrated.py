"""A calibrated model: turns a vector into scores, probabilities and familiarity.

The *calibration* consists of a temperature, a blend of familiarity scores (familiar.py) and the
leave-one-out scores of taught examples. It is learned from a sample of the journal, stored in
snapshots, and replaced when something was forgotten or much more was taught.

With many names that takes a thousand times as long as a question. Questions then use the
calibration that their process used last, and each computes a slice of the next (recalibration.py).
A question recalibrates at once if more than the share ``FORGOTTEN`` of the examples was forgotten
or their number has grown by more than ``LATEST``. So do, if anything was forgotten or the number
has grown by more than ``GROWTH``, the first question of a process, reports and exports.
"""

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everlearn.arrays import Array
from everlearn.errors import NotExportable
from everlearn.learners.ncm import NearestClassMean
from everlearn.memory.model.blend import Blend
from everlearn.memory.model.calibration import scores_by_class
from everlearn.memory.model.feature_map import power_and_learner
from everlearn.memory.model.head import (
    Judgement,
    Probabilities,
    ServingHead,
    Verdict,
    likeness_of,
)
from everlearn.memory.model.live import MANY_NAMES, LiveProducts, has_live_products
from everlearn.memory.model.model import Model
from everlearn.memory.model.recalibration import Recalibration, begun, calibrated
from everlearn.memory.model.unknown import Familiarity
from everlearn.memory.storage.journal import Journal
from everlearn.memory.storage.log import (
    has_negative_entry_after,
    n_negative_entries_after,
)

# Recalibrate when the number of examples has grown by this factor since the last calibration.
GROWTH = 1.25
# With many names, at once only when it has grown by this factor, or more than this share of the
# examples was forgotten. The guarantee of 95 % is then lower by at most 0.05 points on average.
LATEST = 1.5
FORGOTTEN = 0.01


class CalibratedModel:
    """A model at one position, ready to answer.

    Parameters
    ----------
    model : Model
    journal : Journal
    before : CalibratedModel, optional
        An earlier calibration of the same model; parts that have not changed are reused.
    exact : bool
        Recalibrate at once whenever something was forgotten or much more was taught.
    """

    def __init__(
        self,
        model: Model,
        journal: Journal,
        before: "CalibratedModel | None" = None,
        *,
        exact: bool = False,
    ) -> None:
        self.position = model.position
        self.classifier = model.classifier
        self.classes: NDArray[np.int64] = model.classifier.classes_
        self.familiar_names: NDArray[np.int64] = model.means.classes_
        self._means = model.means
        self._live = _live_products(model, before)
        self._next: Recalibration | None = None
        if not still_calibrated(model, journal):
            in_use = before is not None and before._calibration is model.calibration
            stays = in_use and self._live is not None and not exact and _may_stay(model, journal)
            if before is not None and stays:
                self._next = before._next or begun(model, journal)
            if not stays or (self._next is None and _has_grown(model, GROWTH)):
                model.calibration = calibrated(model, journal, self.familiarity)
        self._calibration: dict[str, Any] = model.calibration
        self.temperature = float(model.calibration["temperature"])
        blend = blend_of(model)
        self.judgement: Judgement
        if before is not None and before._calibration is model.calibration:
            self.judgement = before.judgement.with_names(self.familiar_names, blend)
        else:
            ranks = self._ranks()
            self.judgement = Judgement(self.temperature, self.familiar_names, *ranks, blend)

    def answer(self, unit_vector: Array, top: int | None = 1) -> Verdict:
        """Probability of at least the ``top`` best classes, ``None`` for all, and familiarity."""
        vector, T = unit_vector.astype(np.float32), self.temperature
        if self._live is not None:
            needs_average = bool(self.judgement.blend.coefficients[1])
            likeness = self._live.likeness(unit_vector, needs_average)
            probabilities = self._live.probabilities(unit_vector, T, top)
            return self.judgement.verdict(probabilities, likeness, vector)
        if self.head is None:
            scores = scores_by_class(self.classifier, unit_vector[None])[0]
            likeness = likeness_of(np.vecdot(self.familiarity.directions, unit_vector))
        else:
            scores, likeness = self.head.products(vector)
        return self.judgement.verdict(Probabilities.of(scores, T), likeness, vector)

    @property
    def is_recalibrating(self) -> bool:
        """Whether questions compute the next calibration."""
        return self._next is not None

    def recalibrate(self, model: Model, journal: Journal) -> bool:
        """One slice of the next calibration; returns whether the model now has it."""
        if self._next is None:
            return False
        if not self._next.can_follow(model, journal):
            self._next = Recalibration(model, journal)
        calibration = self._next.advance(model)
        if calibration is None:
            return False
        model.calibration, self._next = calibration, None
        return True

    @cached_property
    def familiarity(self) -> Familiarity:
        """The class directions."""
        return familiarity_of_means(self._means)

    @cached_property
    def head(self) -> ServingHead | None:
        """The serving head, if the classifier is linear."""
        return self._head(self.familiar_names, *self._ranks(), self.judgement.blend)

    def _ranks(self) -> tuple[Array, NDArray[np.int64]]:
        """Leave-one-out scores of taught examples, and the name nearest to each."""
        scores = np.asarray(self._calibration["scores"], dtype=np.float64)
        return scores, np.asarray(self._calibration["nearest"], dtype=np.int64)

    def noticed(self, accept: float) -> float | None:
        """Share of unknowns called unknown, estimated by treating each name as unknown.

        ``None`` if too little was taught for an estimate.
        """
        scores = np.asarray(self._calibration["strangers"], dtype=np.float64)
        nearest = np.asarray(self._calibration["strangers_nearest"], dtype=np.int64)
        return self.judgement.acceptance.refused(scores, nearest, accept) if len(scores) else None

    def linear_head(self) -> tuple[float, Array, Array]:
        """Exponent of the feature map, weights and biases of the classifier."""
        power, learner = power_and_learner(self.classifier)
        weights, bias = learner.linear_head()
        return power, weights, bias

    def is_of(self, model: Model) -> bool:
        """Whether this was made of the model as it is now."""
        return self.classifier is model.classifier and self.position == model.position

    def _head(
        self, familiar_names: Any, scores: Array, nearest: Any, blend: Blend
    ) -> ServingHead | None:
        """The serving head, if the classifier is linear."""
        try:
            power, weights, bias = self.linear_head()
        except NotExportable:
            return None
        rows = np.concatenate([weights, self.familiarity.directions]).astype(np.float32)
        bias, T = np.asarray(bias, dtype=np.float64), np.array([self.temperature])
        names, P = np.asarray(familiar_names, dtype=np.int64), np.array([power])
        blended = blend.coefficients
        at = np.array([self._calibration["position"]], dtype=np.int64)
        return ServingHead(
            np.asarray(self.classes), rows, bias, names, scores, nearest, T, P, blended, at
        )


def familiarity_of(model: Model) -> Familiarity:
    """The class directions of a model."""
    return familiarity_of_means(model.means)


def familiarity_of_means(means: NearestClassMean) -> Familiarity:
    moments, order = means.moments_, means.registry_.order
    # With many names, the means are not copied if they are in order, as long as none was forgotten.
    if len(order) >= MANY_NAMES and np.array_equal(order, np.arange(moments.n_slots)):
        return Familiarity(moments.counts.copy(), moments.means)
    return Familiarity(moments.counts[order], moments.means[order])


def _live_products(model: Model, before: CalibratedModel | None) -> LiveProducts | None:
    """The previous products updated, or new ones; ``None`` if the model has none."""
    if not has_live_products(model):
        return None
    known = None if before is None else before._live
    if known is None or not known.is_of(model):
        return LiveProducts(model)
    known.follow()
    return known


def blend_of(model: Model) -> Blend:
    """The blend of a calibrated model, for the current scale of the classifier's scores."""
    coefficients = np.array(model.calibration["blend"], dtype=np.float64)
    _, learner = power_and_learner(model.classifier)
    if coefficients[2]:
        # Ridge regression multiplies all scores by N^α, which grows with the number of examples.
        coefficients[2] /= float(model.means.moments_.total) ** float(learner.recoding)
    return Blend(coefficients)


def still_calibrated(model: Model, journal: Journal) -> bool:
    """Whether the calibration is valid, with little taught and nothing forgotten since."""
    known = model.calibration
    try:
        return (
            0.0 < float(known["temperature"]) < np.inf
            and _are_scores(known["scores"], known["nearest"])
            and _are_scores(known["strangers"], known["strangers_nearest"])
            and 0 < int(known["position"]) <= model.position
            and float(known["total"]) >= 0.0
            and np.asarray(known["blend"], dtype=np.float64).shape == (4,)
            and bool(np.isfinite(known["blend"]).all())
            and not _has_grown(model, GROWTH)
            and _nothing_forgotten(model, journal, int(known["position"]))
        )
    except (KeyError, TypeError, ValueError, OverflowError):
        return False


def _has_grown(model: Model, factor: float) -> bool:
    """Whether much more was taught than when the model was calibrated."""
    return bool(model.means.moments_.total > factor * float(model.calibration["total"]))


def _are_scores(scores: Any, nearest: Any) -> bool:
    """Whether these are finite scores, each with a class."""
    numbers, classes = np.asarray(scores, dtype=np.float64), np.asarray(nearest, dtype=np.int64)
    same = numbers.ndim == 1 and numbers.shape == classes.shape
    return same and bool(np.isfinite(numbers).all())


def _may_stay(model: Model, journal: Journal) -> bool:
    """Whether a calibration in use may stay while the next is computed."""
    position = int(model.calibration["position"])
    most = int(FORGOTTEN * float(model.calibration["total"]))
    few_forgotten = n_negative_entries_after(journal, position, most + 1) <= most
    return few_forgotten and not _has_grown(model, LATEST)


def _nothing_forgotten(model: Model, journal: Journal, position: int) -> bool:
    """Whether nothing was forgotten after a position; reads no log entry twice."""
    start = max(position, model.nothing_forgotten_until)
    if has_negative_entry_after(journal, start):
        return False
    model.nothing_forgotten_until = model.position
    return True


def calibrate(model: Model, journal: Journal) -> bool:
    """Calibrate a model if necessary; returns whether it was."""
    if not model.taught or still_calibrated(model, journal):
        return False
    model.calibration = calibrated(model, journal, familiarity_of(model))
    return True
