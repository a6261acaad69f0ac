"""All teachings that count as one matrix, for explanations and reports."""

from dataclasses import dataclass

import numpy as np

from everlearn.arrays import AnyArray
from everlearn.errors import NeverLearned
from everlearn.memory.insight.influence import Influence
from everlearn.memory.model.feature_map import power_and_learner
from everlearn.memory.model.head import mapped_features, unit
from everlearn.memory.model.model import Model
from everlearn.memory.storage.journal import Journal
from everlearn.memory.storage.log import counting_vectors


@dataclass(frozen=True)
class TaughtMatrix:
    """All teachings that count, as rows of a matrix.

    Attributes
    ----------
    influence : Influence
        Their vectors, their classes, and the effect of each on an answer.
    names : list of str
        Of the classes, in the classifier's order.
    ids : list of int
    sources : list of str
        Of every row of ``influence.X``.
    power : float
        Exponent of the classifier's feature map.
    """

    influence: Influence
    names: list[str]
    ids: list[int]
    sources: list[str]
    power: float

    def mapped(self, vector: AnyArray) -> AnyArray:
        """A vector at length one and after the feature map, like the rows of ``influence.X``."""
        return mapped_features(self.power, unit(vector))


def taught_matrix(model: Model, journal: Journal) -> TaughtMatrix:
    """All teachings that count, in order; call inside a read transaction."""
    if not model.taught:
        raise NeverLearned("nothing was taught yet, so there is nothing to ask about")
    ids, named, sources, vectors = counting_vectors(journal)
    classes = model.classifier.classes_
    words = journal.names_by_id()
    power, learner = power_and_learner(model.classifier)
    X = mapped_features(power, unit(vectors))
    influence = Influence(learner, X, np.searchsorted(classes, named))
    return TaughtMatrix(influence, [words[int(number)] for number in classes], ids, sources, power)
