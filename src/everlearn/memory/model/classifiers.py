"""Classifiers by name, and their cross-validated accuracy on a folder's teachings.

All of them see the signed square roots of vectors (feature_map.py), which helped on every data set
tried. Which one is best depends on the data and on the number of examples (docs/quality.md), so a
folder can compare them by cross-validation.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import get_tags

from everlearn.arrays import Array
from everlearn.base import StreamingClassifier, parameters_by_label
from everlearn.errors import InvalidParameter, NeverLearned, NotExportable
from everlearn.evaluation.metrics import better_than_chance
from everlearn.learners.auto.classifier import AutoClassifier
from everlearn.learners.lda import StreamingLDA
from everlearn.learners.ncm import NearestClassMean
from everlearn.learners.rlsc import RecursiveRLSC
from everlearn.memory.model.calibration import folds
from everlearn.memory.model.feature_map import power_and_learner
from everlearn.memory.model.head import unit
from everlearn.memory.storage.journal import Journal
from everlearn.memory.storage.log import counting_vectors
from everlearn.pipeline import StreamPipeline
from everlearn.preprocessing.normalization import PowerNormalizer

FOLDS = 5

Hits = NDArray[np.bool_]

WORDS: dict[str, Callable[[], Any]] = {
    # fit_intercept is given because word_of compares with classifiers of folders, which store it.
    "ridge": lambda: RecursiveRLSC(regularization=0.3, recoding=0.5, fit_intercept=False),
    "lda": StreamingLDA,
    "mean": NearestClassMean,
    "auto": AutoClassifier,
}
# Classifiers of folders for which none was chosen, by the word that the journal stores. An entry
# never changes, so that a folder keeps its classifier; a better default is a new entry.
DEFAULTS: dict[str, Callable[[], Any]] = {
    "default-1": lambda: StreamPipeline(
        [
            ("root", PowerNormalizer(power=0.5, unit_length=True)),
            (
                "ridge",
                RecursiveRLSC(
                    regularization=0.3,
                    recoding=0.5,
                    weighting="recode",
                    fit_intercept=False,
                    candidates=None,
                    validation_size=2000,
                    class_scatter=False,
                    half_life=None,
                ),
            ),
        ]
    ),
}
# The default of new folders, chosen by measurement; docs/memory.md has the numbers.
DEFAULT = "default-1"


@dataclass(frozen=True)
class Standing:
    """Cross-validation result of a classifier.

    Attributes
    ----------
    classifier : str
        Its name, or its representation.
    accuracy : float
    asked : int
        Number of teachings held out, each once.
    seconds : float
        Mean time to learn the others and answer the first question.
    better : bool
        Whether it is significantly better than the classifier in use.
    ask_seconds : float
        Mean time of an answer of ``everlearn ask``, without embedding the picture. A linear
        classifier is stored as a serving head when a Memory is closed; any other is trained again.
    """

    classifier: str
    accuracy: float
    asked: int
    seconds: float = 0.0
    better: bool = False
    ask_seconds: float = 0.0


def default_classifier() -> Any:
    """The classifier of a new Memory."""
    return DEFAULTS[DEFAULT]()


def classifier_for(word: Any) -> Any:
    """The classifier for one of ``WORDS``; a classifier is returned unchanged."""
    if not isinstance(word, str):
        return word
    if word not in WORDS:
        raise InvalidParameter(
            f"{word!r} is not one of everlearn's classifiers; use {', '.join(map(repr, WORDS))} "
            "or a learner such as RecursiveRLSC()"
        )
    return StreamPipeline([("root", PowerNormalizer()), (word, WORDS[word]())])


def require_usable(classifier: Any) -> None:
    """Require a classifier that learns any number of labels, named by numbers."""
    if not isinstance(classifier, StreamingClassifier):
        raise InvalidParameter(
            f"a Memory needs one of everlearn's classifiers, for instance RecursiveRLSC(), not "
            f"{classifier!r:.100}"
        )
    # A pipeline's tags are those of its steps, which may be anything.
    classifier._check_parameters()
    if not get_tags(classifier).classifier_tags.multi_class:
        raise InvalidParameter(
            f"{type(classifier).__name__} learns two labels, and a Memory takes new names at any "
            "time; use TransferClassifier, which learns any number of them the same way"
        )
    _require_no_labels(classifier)


def _require_no_labels(classifier: StreamingClassifier) -> None:
    """Require that no parameter names labels, because the labels are numbers of names."""
    for name in parameters_by_label(classifier):
        raise InvalidParameter(
            f"{name} maps labels, but in a Memory the classifier is taught numbers of names; use "
            "recoding= or class_weight='balanced' of RecursiveRLSC, which name no labels"
        )


def word_of(classifier: Any) -> str | None:
    """The name of a classifier, or ``None``."""
    parameters = repr(clone(classifier))
    return next((word for word in WORDS if repr(classifier_for(word)) == parameters), None)


def standings(
    journal: Journal, candidates: Iterable[Any], progress: Callable[[], None], *, in_use: Any = None
) -> list[Standing]:
    """Classifiers by cross-validated accuracy, best first; ``progress`` is called for every fold.

    Each is compared with the one ``in_use`` on the same teachings.
    """
    _, names, _, vectors = counting_vectors(journal)
    parts = [part for part in folds(names, FOLDS) if part.any()]
    if not parts:
        raise NeverLearned("no name has two teachings yet; cross-validation needs at least two")
    X = unit(vectors)
    asked_for = list(candidates)
    current = None if in_use is None else word_of(in_use)
    baseline = [] if current is None or current in asked_for else [current]
    found = {
        _as_word(one): _cross_validated(classifier_for(one), X, names, parts, progress)
        for one in [*asked_for, *baseline]
    }
    current_hits = found[current].hits if current in found else None
    table = [
        Standing(
            word,
            float(tested.hits.mean()),
            len(tested.hits),
            tested.seconds,
            current_hits is not None
            and better_than_chance(current_hits, tested.hits, deviations=2.0),
            tested.ask_seconds,
        )
        for word, tested in found.items()
        if word not in baseline
    ]
    return sorted(table, key=lambda standing: -standing.accuracy)


class _Tested(NamedTuple):
    """Which teachings were recognised when held out, and the mean seconds as in a Standing."""

    hits: Hits
    seconds: float
    ask_seconds: float


def _cross_validated(
    classifier: Any,
    X: Array,
    names: NDArray[np.int64],
    parts: list[NDArray[np.bool_]],
    progress: Callable[[], None],
) -> _Tested:
    """Train a classifier without each part, and test it on that part."""
    require_usable(classifier)
    hits, seconds, ask_seconds = [], 0.0, 0.0
    for part in parts:
        start = time.perf_counter()
        learner = clone(classifier).fit(X[~part], names[~part])
        learner.predict(X[part][:1])
        first = time.perf_counter() - start
        learner.predict(X[part][:1])
        again = time.perf_counter() - start - first
        seconds += first
        ask_seconds += again if _is_linear(learner) else again + first
        hits.append(learner.predict(X[part]) == names[part])
        progress()
    return _Tested(np.concatenate(hits), seconds / len(parts), ask_seconds / len(parts))


def _as_word(candidate: Any) -> str:
    """A word unchanged; the representation of a classifier, in one line."""
    return candidate if isinstance(candidate, str) else " ".join(repr(candidate).split())


def _is_linear(classifier: Any) -> bool:
    """Whether a fitted classifier's scores are one product with a matrix."""
    try:
        power_and_learner(classifier)[1].linear_head()
    except NotExportable:
        return False
    return True
