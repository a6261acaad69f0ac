"""Examples kept as they came, and learners whose whole state they are.

A least squares SVM is a formula over all its examples. It can be taught at any time, and what it
believes is worked out afresh when it is next asked; so a batch equals its rows one by one in any
order, and forgetting and merging are exact. Its memory grows with its examples, therefore
``max_examples`` bounds it; online learners have no such bound.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from everlearn.arrays import AnyArray, Array, Slots, State
from everlearn.errors import (
    LostDefiniteness,
    NeverLearned,
    NotForgettable,
    NotMergeable,
    TooManyExamples,
)
from everlearn.statistics.stored import stored
from everlearn.transfer.kernel import Kernel


@dataclass(frozen=True)
class KeptExamples:
    """Rows with slots and weights, in order of arrival; a change makes new ones."""

    X: Array
    slots: Slots
    weights: Array

    @classmethod
    def none(cls, n_features: int) -> "KeptExamples":
        return cls(np.empty((0, n_features)), np.empty(0, dtype=np.intp), np.empty(0))

    def __len__(self) -> int:
        return len(self.X)

    def followed_by(self, X: Array, slots: Slots, weights: Array) -> "KeptExamples":
        return KeptExamples(
            np.concatenate([self.X, X]),
            np.concatenate([self.slots, slots]),
            np.concatenate([self.weights, weights]),
        )

    def only(self, kept: Any) -> "KeptExamples":
        """Those at these positions."""
        return KeptExamples(self.X[kept], self.slots[kept], self.weights[kept])

    def without(self, X: Array, slots: Slots, weights: Array) -> "KeptExamples":
        """Take examples back, the latest of equal ones first; all of them or none."""
        left = self.weights.copy()
        for index, (x, slot, to_remove) in enumerate(zip(X, slots, weights, strict=True)):
            for place in np.flatnonzero((self.slots == slot) & (x == self.X).all(axis=1))[::-1]:
                taken = min(left[place], to_remove)
                left[place] -= taken
                to_remove -= taken
            if to_remove > 0:
                raise NeverLearned(
                    f"row {index} of the examples to be forgotten was not learned under this label"
                )
        return KeptExamples(self.X, self.slots, left).only(left > 0)

    def state(self) -> dict[str, AnyArray]:
        return {
            "examples": self.X,
            "example_slots": self.slots,
            "example_weights": self.weights,
        }

    @classmethod
    def from_state(
        cls, arrays: dict[str, AnyArray], n_features: int, n_slots: int
    ) -> "KeptExamples":
        X = stored(arrays, "examples", None, n_features)
        slots = stored(arrays, "example_slots", len(X), dtype=np.intp)
        if np.any((slots < 0) | (slots >= n_slots)):
            raise ValueError("an example has the slot of no label")
        return cls(X, slots, stored(arrays, "example_weights", len(X)))


def require_column(kernel: Kernel, n_columns: int, n_taught: int, n_new: int) -> None:
    """A precomputed kernel has a column for each example that can be taught, and no more."""
    if kernel.name == "precomputed" and n_taught + n_new > n_columns:
        raise TooManyExamples(
            f"a precomputed kernel with {n_columns} columns has room for {n_columns} examples; "
            f"{n_taught} were taught, {n_new} more do not fit"
        )


class MarginFunction(Protocol):
    """What follows from the examples kept."""

    def margins(self, X: Array) -> Array: ...


S = TypeVar("S", bound=MarginFunction)
Solve = Callable[[Kernel, KeptExamples, Array], S]


class SolvedFromExamples(Generic[S]):
    """The core of a learner that is a function of the examples it keeps.

    ``solve`` makes the solution of the kernel, the examples and their signs; ``ask`` is asked about
    new rows before they are kept, and raises to refuse them.
    """

    def __init__(
        self,
        n_features: int,
        kernel: Kernel,
        solve: Solve[S],
        *,
        C: float,
        max_examples: int,
        ask: Callable[[Array], object] = len,
    ) -> None:
        self.examples = KeptExamples.none(n_features)
        self._signs = np.empty(0)
        self._kernel = kernel
        self._solve = solve
        self._C = C
        self._max_examples = max_examples
        self._ask = ask
        self._solved: tuple[Kernel, S] | None = None

    @property
    def n_examples(self) -> int:
        return len(self.examples)

    @property
    def kernel(self) -> Kernel:
        return self._worked_out()[0]

    @property
    def solution(self) -> S:
        return self._worked_out()[1]

    def margins(self, X: Array) -> Array:
        return self.solution.margins(X)

    def learn(self, X: Array, slots: Slots, signs: Array, weights: Array) -> None:
        require_column(self._kernel, self.examples.X.shape[1], len(self.examples), len(X))
        if len(self.examples) + len(X) > self._max_examples:
            raise TooManyExamples(
                f"this learner keeps its examples, {len(self.examples)} so far; {len(X)} more are "
                f"above max_examples={self._max_examples}; raise it, or use TROL or "
                "PassiveAggressive, which need no room"
            )
        self._ask(X)
        examples = self.examples.followed_by(X, slots, weights)
        if self._kernel.name == "precomputed":
            _require_definite(self._kernel.between(examples.X, examples.X), self._C)
        self._replace(examples, signs)

    def learn_one(self, x: Array, slot: int, signs: Array) -> None:
        self.learn(x[None], np.array([slot], dtype=np.intp), signs, np.ones(1))

    def forget(self, X: Array, slots: Slots, weights: Array | None) -> list[int]:
        """Take examples back; returns the slots of which none is left."""
        self._require_own_kernel()
        weights = np.ones(len(X)) if weights is None else weights
        self._replace(self.examples.without(X, slots, weights), self._signs)
        return sorted(set(slots.tolist()) - set(self.examples.slots.tolist()))

    def forget_class(self, slot: int) -> None:
        self._require_own_kernel()
        self._replace(self.examples.only(self.examples.slots != slot), self._signs)

    def merge(self, other: "SolvedFromExamples[S]", slots: Slots, signs: Array) -> None:
        if self._kernel.name == "precomputed":
            raise NotMergeable("the columns of two precomputed kernels are different examples")
        theirs = other.examples
        self.learn(theirs.X, slots[theirs.slots], signs, theirs.weights)

    def state(self) -> State:
        return self.examples.state(), {}

    def restore(self, arrays: dict[str, AnyArray], notes: Any, signs: Array) -> None:
        n_features = self.examples.X.shape[1]
        self._replace(KeptExamples.from_state(arrays, n_features, len(signs)), signs)

    def _replace(self, examples: KeptExamples, signs: Array) -> None:
        self.examples, self._signs, self._solved = examples, signs, None

    def _worked_out(self) -> tuple[Kernel, S]:
        if self._solved is None:
            kept = self.examples
            kernel = self._kernel.for_examples(kept.X, kept.weights)
            self._solved = kernel, self._solve(kernel, kept, self._signs[kept.slots])
        return self._solved

    def _require_own_kernel(self) -> None:
        if self._kernel.name == "precomputed":
            raise NotForgettable(
                "columns of a precomputed kernel are counted by arrival and cannot be taken out; "
                "fit again without the examples"
            )


def _require_definite(K: Array, C: float) -> None:
    lowest = float(np.linalg.eigvalsh(K).min())
    if lowest <= -1.0 / C:
        raise LostDefiniteness(
            f"the precomputed kernel has the eigenvalue {lowest:.3g}; a kernel has none below "
            "zero, so check that rows and columns are in the same order"
        )
