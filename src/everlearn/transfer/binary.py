"""Base class of the two-label learners.

The papers use y ∈ {−1, +1}; users have two labels of any kind. Labels are mapped to signs here:
``positive`` is +1 and defaults to the label that sorts last, as in scikit-learn. The learned state
is one object, the core, which computes margins f(x), above zero for the positive label:
``SolvedFromExamples`` keeps all examples, ``LearnedOnline`` learns each of them once.
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
from everlearn.transfer.kernel import HISTOGRAM_KERNELS, Kernel, KernelFunction, KernelWord
from everlearn.transfer.online import LearnedOnline
from everlearn.transfer.solved_from_examples import SolvedFromExamples
from everlearn.validation import warn_of_offset

# Parameters that hold fitted models, which a clone keeps.
UNCLONED = ("prior_models", "start")


class BinaryClassifier(StreamingClassifier):
    """A two-label classifier based on one margin."""

    positive: Label | None
    kernel: KernelWord | KernelFunction
    signs_: Array
    # The type of the core depends on the final class.
    _core: Any

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:  # type: ignore[override]
        """Forget everything, then learn from these examples, once each, in this order."""
        return super().fit(X, y)

    def margin(self, X: ArrayLike) -> Array:
        """f(x) of each row: above zero for the positive label.

        Equals ``decision_function``, which follows the sorted classes, if the positive label sorts
        last.
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
        """Number of examples predicted wrongly before they were learned; online learners only."""
        return int(self._core.mistakes)

    @property
    def waiting_for_(self) -> str | None:
        """What the warm-up of an online learner still needs, as text; None when it is complete."""
        self._require_fitted()
        missing = self._core.missing
        if missing == 0:
            return f"an example of another label than {self.classes_.tolist()[0]!r}"
        return missing and f"{missing} more example{'s' * (missing > 1)}"

    @property
    def n_examples_(self) -> int:
        """Number of examples learned."""
        return int(self._core.n_examples)

    @property
    def gamma_(self) -> float | None:
        """γ of the rbf or χ² kernel: as given, or estimated; None for other kernels."""
        self._require_fitted()
        gamma: float | None = self._core.kernel.gamma
        return gamma

    # Hooks.

    def _new_core(self, n_features: int) -> SolvedFromExamples[Any] | LearnedOnline:
        """A core that has learned nothing."""
        raise NotImplementedError

    def _kernel_name(self) -> KernelWord | KernelFunction:
        return self.kernel

    def _begin(self, n_features: int) -> None:
        self._core = self._new_core(n_features)

    def _welcome(self, known: Labels, new: list[Label]) -> None:
        after = Labels(known.by_slot)
        after.extend(new)
        if len(after) > 2:
            raise TooManyLabels(
                f"Only binary classification is supported. {type(self).__name__} learns two "
                f"labels, but these are {len(after)}: "
                f"{', '.join(map(repr, after.classes.tolist()))}; use TransferClassifier for any "
                "number"
            )
        self.signs_ = self._signs(after)

    def _learn(self, X: Array, slots: Slots, weights: Array | None) -> None:
        kernel = Kernel(self._kernel_name())
        kernel.require(X)
        if callable(kernel.name):
            # A user's function may fail: it is tried first, and then called on a copy of the core.
            kernel.diagonal(X)
            self._core = copy.deepcopy(self._core)
        if kernel.name == "linear" and isinstance(self._core, LearnedOnline):
            warn_of_offset(X, "linear Passive-Aggressive steps")
        self._core.learn(X, slots, self.signs_, np.ones(len(X)) if weights is None else weights)

    def _learn_one(self, x: Array, slot: int) -> None:
        kernel = Kernel(self._kernel_name())
        kernel.require(x)
        if callable(kernel.name):
            kernel.diagonal(x[None])
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
        """The sign of each slot; a single label is +1 until the other one is seen."""
        positive = self.positive
        if positive is None and len(labels):
            positive = labels.classes.tolist()[-1]
        elif positive is not None:
            positive = Labels(labels.by_slot).read(positive)
            if len(labels) == 2 and positive not in labels:
                raise InvalidLabel(
                    f"positive is {positive!r}, but the labels taught are "
                    f"{' and '.join(map(repr, labels.classes.tolist()))}; it must be one of the two"
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
        tags.input_tags.positive_only = self._kernel_name() in HISTOGRAM_KERNELS
        return tags
