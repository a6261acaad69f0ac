"""How a setting is chosen: on training examples held out, of the first 50 classes as in the paper.

The test set has no say.
"""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from everlearn.forest.svm_forest import SVMForest
from everlearn.streams.examples import Examples
from everlearn_papers.forests.protocol import ClassStream, average_accuracy

# Every this-many-th training example of at most so many classes is held out.
HOLD_OUT_EVERY, CHOOSING_CLASSES = 4, 50
# λ of an SVM forest, to choose from; with so few trees, as it concerns every node alike.
REGULARIZATIONS = (1e-3, 1e-2, 1e-1)
CHOOSING_TREES = 5
# Five passes over every node, however many examples it has.
EVERY_STEP = 10_000_000


def best_setting(
    make: Callable[[Any], Any], settings: Sequence[Any], stream: ClassStream, n_classes: int
) -> Any:
    """The setting that does best on training examples held out; the first among equals."""
    if len(settings) == 1:
        return settings[0]
    found = held_out_accuracies(make, settings, stream, n_classes)
    return max(settings, key=lambda setting: found[setting][0])


def held_out_accuracies(
    make: Callable[[Any], Any], settings: Sequence[Any], stream: ClassStream, n_classes: int
) -> dict[Any, tuple[float, bool]]:
    """By setting: average accuracy on training examples held out, and whether it converged."""
    known = stream.between(0, min(n_classes, CHOOSING_CLASSES))
    order = np.argsort(known.y, kind="stable")  # so that some of every class are held out
    held = known.take(order[::HOLD_OUT_EVERY])
    learned = known.take(np.delete(order, np.s_[::HOLD_OUT_EVERY]))

    found: dict[Any, tuple[float, bool]] = {}
    for setting in settings:
        made = make(setting)
        converged = fit(made, learned)
        found[setting] = average_accuracy(held.y, made.predict(held.X)), converged
    return found


def best_svm(stream: ClassStream, n_classes: int, seed: int) -> dict[str, Any]:
    """Settings of an SVM forest for this data: all passes, and the λ that does best."""

    def make(regularization: float) -> SVMForest:
        return SVMForest(
            n_estimators=CHOOSING_TREES,
            regularization=regularization,
            max_steps=EVERY_STEP,
            whiten=False,
            random_state=seed,
        )

    chosen = best_setting(make, REGULARIZATIONS, stream, n_classes)
    return {"regularization": chosen, "max_steps": EVERY_STEP}


def fit(estimator: Any, examples: Examples) -> bool:
    """Train it; whether it came to an end before its passes did."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        estimator.fit(examples.X, examples.y)
    return not any(issubclass(warning.category, ConvergenceWarning) for warning in caught)
