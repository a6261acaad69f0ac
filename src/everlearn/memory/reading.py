"""What is read off a model when it is asked: scores, probabilities, familiarity.

Everything here is computed from the model and a sample of the journal, and thrown away when either
changes. Linear classifiers are asked through one matrix in float32 that holds their weights and the
class directions side by side, so that a question costs one pass over K d numbers each.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from everlearn.errors import NotExportable
from everlearn.learners.ncm import NearestClassMean
from everlearn.memory.calibration import probabilities, scores_by_class, temperature
from everlearn.memory.journal import Journal
from everlearn.memory.model import Model, unit
from everlearn.memory.unknown import Familiarity

Array = NDArray[np.float64]

# How many teachings the temperature and the threshold are learned from, at most.
SAMPLE = 512
# The temperature is learned anew when this many times as much has been taught as when it was.
GROWTH = 1.25


class Reading:
    """A model at one position, ready to be asked.

    Parameters
    ----------
    model : Model
    journal : Journal
    accept : float
        The share of familiar things that should not be called unknown.
    before : Reading, optional
        The one before; its temperature is kept while little has changed.
    """

    def __init__(
        self, model: Model, journal: Journal, accept: float, before: "Reading | None"
    ) -> None:
        self.position = model.position
        self.classifier = model.classifier
        self.classes: NDArray[np.int64] = model.classifier.classes_
        vectors, names = journal.sample(SAMPLE)
        sample = unit(vectors)
        self.temperature: float
        self._calibrated_at: tuple[int, float]
        if before is not None and before._still_calibrated(model, journal):
            self.temperature, self._calibrated_at = before.temperature, before._calibrated_at
        else:
            self.temperature = temperature(model.classifier, sample, names)
            self._calibrated_at = model.position, model.means.moments_.total
        moments, labels = model.means.moments_, model.means.labels_
        self.familiarity = Familiarity(
            moments.counts[labels.order],
            moments.means[labels.order],
            sample,
            np.searchsorted(labels.classes, names),
            accept,
        )
        self._stacked, self._bias = self._side_by_side()

    def answer(self, unit_vector: Array) -> tuple[Array, float]:
        """Probability of every class, in the order of ``classes``, and familiarity."""
        if self._stacked is None:
            scores = scores_by_class(self.classifier, unit_vector[None])[0]
            near = float(self.familiarity.of(unit_vector[None])[0])
        else:
            both = self._stacked @ unit_vector.astype(np.float32)
            scores = both[: len(self.classes)] + self._bias
            near = float(both[len(self.classes) :].max())
        return probabilities(scores, self.temperature), near

    def is_of(self, model: Model) -> bool:
        return self.classifier is model.classifier and self.position == model.position

    def knows(self, familiarity: float) -> bool:
        return familiarity >= self.familiarity.threshold

    def _still_calibrated(self, model: Model, journal: Journal) -> bool:
        position, total = self._calibrated_at
        return (
            self.classifier is model.classifier
            and model.means.moments_.total < GROWTH * total
            and not journal.taken_back_after(position)
        )

    def _side_by_side(self) -> tuple[NDArray[np.float32] | None, Array]:
        try:
            weights, bias = linear_head(self.classifier)
        except NotExportable:
            return None, np.zeros(0)
        stacked = np.concatenate([weights, self.familiarity.directions]).astype(np.float32)
        return stacked, bias


def linear_head(classifier: Any) -> tuple[Array, Array]:
    """Weights and biases whose scores differ from the classifier's by a term all classes share."""
    if isinstance(classifier, NearestClassMean) and classifier.metric == "euclidean":
        centroids = classifier.centroids_
        return centroids, -0.5 * np.einsum("ij,ij->i", centroids, centroids)
    if hasattr(classifier, "coef_") and hasattr(classifier, "intercept_"):
        weights = np.asarray(classifier.coef_, dtype=np.float64)
        bias = np.asarray(classifier.intercept_, dtype=np.float64)
        if weights.shape[0] == len(classifier.classes_):
            return weights, np.broadcast_to(bias, (len(weights),)).astype(np.float64)
    raise NotExportable(
        f"{type(classifier).__name__} is not a linear function of its input; switch to one that is "
        "first, for instance with use(learner=RecursiveRLSC())"
    )
