"""What every learner of two labels does the same way.

The papers speak of y ∈ {−1, +1}; users speak of two labels of any kind. Here labels become signs:
``positive`` is +1, and by default it is the label that sorts last, as scikit-learn has it. The
learner itself supplies one function, the margin f(x), positive for the positive label.
"""

from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from everlearn.base import Array, StreamingClassifier
from everlearn.errors import InvalidLabel, InvalidParameter, TooManyLabels
from everlearn.statistics.labels import Label, Labels
from everlearn.transfer.examples import Examples

UNCLONED = ("priors", "start")


class BinaryLearner(StreamingClassifier):
    """A classifier of two labels that reads its answers off one margin."""

    positive: Label | None
    signs_: Array

    def margin(self, X: ArrayLike) -> Array:
        """f(x) of each row: above zero for the positive label.

        As ``decision_function``, which follows the sorted classes, if the positive label is the one
        that sorts last.
        """
        return self._margin(self._rows(X))

    def learn_one(self, x: ArrayLike, y: Label) -> Self:
        """Learn one example; the fast path, without scikit-learn's validation."""
        vector = self._vector(x, "learn_one")
        slot = self.labels_.find(y) if hasattr(self, "labels_") else None
        if slot is None:
            return self.partial_fit(vector[None], [y])
        self._learn_one(vector, slot)
        return self

    @property
    def positive_(self) -> Label | None:
        """The label with the sign +1; None while the other label has not been seen."""
        if self.positive is not None:
            return self.positive
        known = self.classes_.tolist()
        return known[1] if len(known) == 2 else None

    # Hooks.

    def _margin(self, X: Array) -> Array:
        raise NotImplementedError

    def _scores(self, X: Array) -> Array:
        scores: Array = 0.5 * self._margin(X)[:, None] * self.signs_
        return scores

    def _welcome(self, known: Labels, new: list[Label]) -> None:
        after = Labels(known.by_slot)
        after.extend(new)
        if len(after) > 2:
            raise TooManyLabels(
                f"Only binary classification is supported. {type(self).__name__} tells two labels "
                f"apart, these are {len(after)}: {', '.join(map(repr, after.classes.tolist()))}; "
                "TransferClassifier learns any number"
            )
        self.signs_ = self._signs(after)

    def _restore(self, arrays: dict[str, NDArray[Any]], notes: dict[str, Any]) -> None:
        if notes["taught"]:
            self.signs_ = self._signs(Labels(notes["labels"]))
        super()._restore(arrays, notes)

    def _signs(self, labels: Labels) -> Array:
        """The sign of each slot; a label on its own is +1 until the other one shows which it is."""
        positive = self.positive
        if positive is None and len(labels):
            positive = labels.classes.tolist()[-1]
        elif positive is not None:
            positive = Labels(labels.by_slot).read(positive)
            if len(labels) == 2 and positive not in labels:
                raise InvalidLabel(
                    f"positive is {positive!r}, but the labels taught are "
                    f"{' and '.join(map(repr, labels.classes.tolist()))}; one of two must be it"
                )
        return np.array([1.0 if label == positive else -1.0 for label in labels.by_slot])

    def _require_known(self, examples: Examples) -> None:
        """Examples out of a file must have slots of labels that are in it too."""
        if np.any((examples.slots < 0) | (examples.slots >= len(self.signs_))):
            raise ValueError("an example has the slot of no label")

    def __sklearn_clone__(self) -> Self:
        """A clone forgets what it learned, not what its priors know."""
        parameters = {
            name: value if name in UNCLONED else clone(value, safe=False)
            for name, value in self.get_params(deep=False).items()
        }
        return type(self)(**parameters)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.pairwise = getattr(self, "kernel", None) == "precomputed"
        return tags


def check_positive_number(name: str, value: float) -> None:
    if not (np.isreal(value) and np.isfinite(value) and value > 0):
        raise InvalidParameter(f"{name} is a number above zero, not {value!r}")


def check_choice(name: str, value: object, choices: Iterable[str]) -> None:
    if value not in tuple(choices):
        raise InvalidParameter(f"{name} is one of {', '.join(choices)}, not {value!r}")
