"""Classifiers by a word, and how well each would know the names of a folder.

All of them see the signed roots of vectors (feature_map.py), which helped on every pack it was
tried on. Which one is best depends on the data and on how much was taught (docs/quality.md), so a
folder can be asked: teachings are held out in turn, and the others taught to each.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from everlearn.errors import InvalidParameter, NeverLearned
from everlearn.learners.auto.classifier import AutoClassifier
from everlearn.learners.lda import StreamingLDA
from everlearn.learners.ncm import NearestClassMean
from everlearn.learners.rlsc import RecursiveRLSC
from everlearn.memory.model.calibration import folds
from everlearn.memory.model.follower import require_usable
from everlearn.memory.model.head import unit
from everlearn.memory.storage.journal import Journal
from everlearn.pipeline import StreamPipeline
from everlearn.preprocessing.normalization import PowerNormalizer

FOLDS = 5

WORDS: dict[str, Callable[[], Any]] = {
    "ridge": lambda: RecursiveRLSC(regularization=0.3, recoding=0.5),
    "lda": StreamingLDA,
    "mean": NearestClassMean,
    "auto": AutoClassifier,
}
# Chosen by measurement; docs/memory.md has the numbers.
DEFAULT = "ridge"


@dataclass(frozen=True)
class Standing:
    """How well a classifier knows teachings that it was not taught.

    Attributes
    ----------
    classifier : str
        Its word, or how it is written.
    accuracy : float
    asked : int
        How many teachings were held out, each once.
    """

    classifier: str
    accuracy: float
    asked: int


def default_classifier() -> Any:
    """The classifier of a new Memory."""
    return classifier_for(DEFAULT)


def classifier_for(meant: Any) -> Any:
    """What a word stands for; a classifier stands for itself."""
    if not isinstance(meant, str):
        return meant
    if meant not in WORDS:
        raise InvalidParameter(
            f"{meant!r} is none of everlearn's classifiers; give {', '.join(map(repr, WORDS))}, or "
            "a learner such as RecursiveRLSC()"
        )
    return StreamPipeline([("root", PowerNormalizer()), (meant, WORDS[meant]())])


def word_of(classifier: Any) -> str | None:
    """The word that stands for a classifier, if one does."""
    parameters = repr(clone(classifier))
    return next((word for word in WORDS if repr(classifier_for(word)) == parameters), None)


def standings(
    journal: Journal, meant: Iterable[Any], progress: Callable[[], None]
) -> list[Standing]:
    """The classifiers, the best first; ``progress`` is called for every part that was held out."""
    _, names, _, vectors = journal.everything()
    parts = [part for part in folds(names, FOLDS) if part.any()]
    if not parts:
        raise NeverLearned("no name was taught twice yet, so nothing can be held out and asked")
    X, found = unit(vectors), []
    for one in meant:
        classifier = classifier_for(one)
        require_usable(classifier)
        right = 0
        for part in parts:
            learner = clone(classifier).fit(X[~part], names[~part])
            right += int(np.sum(learner.predict(X[part]) == names[part]))
            progress()
        asked = int(np.sum(parts))
        word = one if isinstance(one, str) else " ".join(repr(one).split())
        found.append(Standing(word, right / asked, asked))
    return sorted(found, key=lambda standing: -standing.accuracy)
