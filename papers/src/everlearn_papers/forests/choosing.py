"""Model selection on held-out training examples of the first 50 classes, as in the paper.

The test set is never used.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from everlearn.forest.svm_forest import SVMForest
from everlearn.streams.examples import Examples
from everlearn_papers.forests.protocol import ClassStream, average_accuracy
from everlearn_papers.grid import search
from everlearn_papers.repeat import Result

# Interval of the held-out training examples, and the largest number of classes used.
HOLD_OUT_EVERY, CHOOSING_CLASSES = 4, 50
# Candidates for λ of an SVM forest; few trees suffice, since λ acts on every node alike.
REGULARIZATIONS = (1e-3, 1e-2, 1e-1)
CHOOSING_TREES = 5
# High enough for five passes over every node, however many examples it has.
EVERY_STEP = 10_000_000


@dataclass(frozen=True)
class Choice:
    """Chosen setting; held-out accuracy of each candidate, and those that did not converge."""

    setting: Any
    accuracies: dict[float, float]
    late: frozenset[float]
    at_end: bool  # better settings may lie beyond the grid

    def as_result(self) -> Result:
        """JSON values: chosen setting, and held-out accuracy by setting, ascending."""
        tried = {f"{value:g}": self.accuracies[value] for value in sorted(self.accuracies)}
        late = [f"{value:g}" for value in sorted(self.late)]
        return {"taken": self.setting, "tried": tried, "late": late, "at end": self.at_end}


def choice(
    make: Callable[[Any], Any],
    settings: Sequence[Any],
    stream: ClassStream,
    n_classes: int,
    *,
    most: float = inf,
) -> Choice:
    """Setting with the best accuracy on held-out training examples (:mod:`everlearn_papers.grid`).

    ``settings`` are ascending; a single one, of any type, is returned without a search.
    """
    if len(settings) == 1:
        return Choice(settings[0], {}, frozenset(), at_end=False)
    known = stream.between(0, min(n_classes, CHOOSING_CLASSES))
    order = np.argsort(known.y, kind="stable")  # holds out examples of every class
    held = known.take(order[::HOLD_OUT_EVERY])
    learned = known.take(np.delete(order, np.s_[::HOLD_OUT_EVERY]))
    late: set[float] = set()

    def score(setting: float) -> float:
        made = make(setting)
        if not fit(made, learned):
            late.add(setting)
        return average_accuracy(held.y, made.predict(held.X))

    found = search(settings, score, most=most)
    return Choice(found.best, found.tried, frozenset(late), found.at_end)


def in_words(searched: Result) -> str:
    """Chosen setting and searched range, in words; a setting without a search alone."""
    if not searched["tried"]:
        return f"{searched['taken']:g}"
    least, *_, most = searched["tried"]
    return (
        f"{searched['taken']:g} of {least} to {most}{', at an end' if searched['at end'] else ''}"
    )


def best_svm(stream: ClassStream, n_classes: int, seed: int) -> Choice:
    """λ with the best held-out accuracy for an SVM forest with all its passes."""

    def make(regularization: float) -> SVMForest:
        return SVMForest(
            n_estimators=CHOOSING_TREES,
            regularization=regularization,
            max_steps=EVERY_STEP,
            whiten=False,
            random_state=seed,
        )

    return choice(make, REGULARIZATIONS, stream, n_classes)


def fit(estimator: Any, examples: Examples) -> bool:
    """Fit an estimator; return whether it converged."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        estimator.fit(examples.X, examples.y)
    return not any(issubclass(warning.category, ConvergenceWarning) for warning in caught)
