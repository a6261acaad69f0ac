"""What all two-label learners share.

The papers speak of y ∈ {−1, +1}; users speak of two labels of any kind. Here labels become signs:
``positive`` is +1, and by default it is the label that sorts last, as scikit-learn has it. What was
learned lives in one object, the core, which answers with margins f(x), positive for the positive
label: ``SolvedFromExamples`` keeps all examples, ``LearnedOnline`` sees each of them once.
"""

import copy
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from everlearn.arrays import AnyArray, Array, Slots, State
from everlearn.base import StreamingClassifier
from everlearn.errors import InvalidLabel, TooManyLabels
from everlearn.statistics.labels import Label, Labels
from everlearn.transfer.kernel import OF_HISTOGRAMS, Kernel, KernelFunction
from everlearn.transfer.online import LearnedOnline
from everlearn.transfer.solved_from_examples import SolvedFromExamples

# Fitted models among the parameters: a clone forgets what it learned, not what these know.
UNCLONED = ("prior_models", "start")


class BinaryClassifier(StreamingClassifier):
    """A classifier of two labels that reads its answers off one margin."""

    positive: Label | None
    kernel: str | KernelFunction
    signs_: Array
    # Any, because each final class knows which core it has made.
    _core: Any

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:  # type: ignore[override]
        """Forget everything, then learn from these examples, once each, in this order."""
        return super().fit(X, y)

    def margin(self, X: ArrayLike) -> Array:
        """f(x) of each row: above zero for the positive label.

        As ``decision_function``, which follows the sorted classes, if the positive label is the one
        that sorts last.
        """
        with self._lock:
            self._require_fitted()
            rows = self._rows(X)
            Kernel(self._kernel_name()).require(rows)
            margins: Array = self._core.margins(rows)
            return margins

    @property
    def positive_(self) -> Label | None:
        """The label with the sign +1; None while the other label has not been seen."""
        if self.positive is not None:
            return self.positive
        known = self.classes_.tolist()
        return known[1] if len(known) == 2 else None

    @property
    def mistakes_(self) -> int:
        """Examples whose label was not predicted when they came; counted by online learners."""
        return int(self._core.mistakes)

    @property
    def waiting_for_(self) -> str | None:
        """What an online learner's opening still needs, in words; None when it is complete."""
        self._require_fitted()
        missing = self._core.missing
        if missing == 0:
            return f"an example of another label than {self.classes_.tolist()[0]!r}"
        return missing and f"{missing} more example{'s' * (missing > 1)}"

    @property
    def n_examples_(self) -> int:
        """Examples learned so far."""
        return int(self._core.n_examples)

    @property
    def gamma_(self) -> float | None:
        """γ of the rbf or χ² kernel: as given, or as the examples have it; None for others."""
        self._require_fitted()
        gamma: float | None = self._core.kernel.gamma
        return gamma

    # Hooks.

    def _new_core(self, n_features: int) -> SolvedFromExamples[Any] | LearnedOnline:
        """A core that has learned nothing."""
        raise NotImplementedError

    def _kernel_name(self) -> str | KernelFunction:
        return self.kernel

    def _begin(self, n_features: int) -> None:
        self._core = self._new_core(n_features)

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

    def _learn(self, X: Array, slots: Slots, weights: Array | None) -> None:
        kernel = Kernel(self._kernel_name())
        kernel.require(X)
        if callable(kernel.name):
            kernel.own(X)  # a function that fails on an example does so before it is learned
            self._core = copy.deepcopy(self._core)  # or on the way
        self._core.learn(X, slots, self.signs_, np.ones(len(X)) if weights is None else weights)

    def _learn_one(self, x: Array, slot: int) -> None:
        kernel = Kernel(self._kernel_name())
        kernel.require(x)
        if callable(kernel.name):
            kernel.own(x[None])
        self._core.learn_one(x, slot, self.signs_)

    def _scores(self, X: Array) -> Array:
        Kernel(self._kernel_name()).require(X)
        scores: Array = 0.5 * self._core.margins(X)[:, None] * self.signs_
        return scores

    def _own_state(self) -> State:
        state: State = self._core.state()
        return state

    def _own_restore(self, arrays: dict[str, AnyArray], notes: dict[str, Any]) -> None:
        self.signs_ = self._signs(self.registry_)
        self._core.restore(arrays, notes, self.signs_)

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

    def __sklearn_clone__(self) -> Self:
        parameters = {
            name: value if name in UNCLONED else clone(value, safe=False)
            for name, value in self.get_params(deep=False).items()
        }
        return type(self)(**parameters)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.pairwise = self._kernel_name() == "precomputed"
        tags.input_tags.positive_only = self._kernel_name() in OF_HISTOGRAMS
        return tags
