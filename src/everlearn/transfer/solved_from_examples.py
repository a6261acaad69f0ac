"""Learners whose whole state is the examples they keep.

A least squares SVM is a function of all its examples. Learning only stores examples, and the
system is solved at the next question; so a batch equals its rows one by one in any order, and
forgetting and merging are exact. Memory grows with the examples, at most ``max_examples``.
"""

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from everlearn.arrays import AnyArray, Array, Slots, State
from everlearn.errors import (
    LostDefiniteness,
    NotForgettable,
    NotMergeable,
    TooManyExamples,
)
from everlearn.statistics.kept_examples import KeptExamples
from everlearn.transfer.kernel import Kernel


def require_column(kernel: Kernel, n_columns: int, n_taught: int, n_new: int) -> None:
    """Require a column of a precomputed kernel for each example."""
    if kernel.name == "precomputed" and n_taught + n_new > n_columns:
        raise TooManyExamples(
            f"a precomputed kernel with {n_columns} columns has room for {n_columns} examples; "
            f"{n_taught} were taught, {n_new} more do not fit"
        )


class MarginFunction(Protocol):
    """A function determined by the stored examples."""

    def margins(self, X: Array) -> Array: ...


S = TypeVar("S", bound=MarginFunction)
Solve = Callable[[Kernel, KeptExamples, Array], S]


class SolvedFromExamples(Generic[S]):
    """The core of a learner that is a function of its stored examples.

    ``solve`` computes the solution from the kernel, the examples and their signs; ``check`` is
    called with new rows before they are stored, and raises to refuse them.
    """

    def __init__(
        self,
        n_features: int,
        kernel: Kernel,
        solve: Solve[S],
        *,
        C: float,
        max_examples: int,
        check: Callable[[Array], object] = len,
    ) -> None:
        self.examples = KeptExamples.none(n_features)
        self._signs = np.empty(0)
        self._kernel = kernel
        self._solve = solve
        self._C = C
        self._max_examples = max_examples
        self._check = check
        self._solved: tuple[Kernel, S] | None = None

    @property
    def n_examples(self) -> int:
        return len(self.examples)

    @property
    def kernel(self) -> Kernel:
        return self._kernel_and_solution()[0]

    @property
    def solution(self) -> S:
        return self._kernel_and_solution()[1]

    def margins(self, X: Array) -> Array:
        return self.solution.margins(X)

    def learn(self, X: Array, slots: Slots, signs: Array, weights: Array) -> None:
        require_column(self._kernel, self.examples.X.shape[1], len(self.examples), len(X))
        if len(self.examples) + len(X) > self._max_examples:
            raise TooManyExamples(
                f"this learner keeps its examples, {len(self.examples)} so far; {len(X)} more "
                f"exceed max_examples={self._max_examples}; increase it, or use TROL or "
                "PassiveAggressive, which store none"
            )
        self._check(X)
        examples = self.examples.followed_by(X, slots, weights)
        if self._kernel.name == "precomputed":
            _require_definite(self._kernel.between(examples.X, examples.X), self._C)
        self._replace(examples, signs)

    def learn_one(self, x: Array, slot: int, signs: Array) -> None:
        self.learn(x[None], np.array([slot], dtype=np.intp), signs, np.ones(1))

    def forget(self, X: Array, slots: Slots, weights: Array | None) -> list[int]:
        """Remove examples; returns the slots without examples left."""
        self._require_computed_kernel()
        weights = np.ones(len(X)) if weights is None else weights
        self._replace(self.examples.without(X, slots, weights), self._signs)
        return sorted(set(slots.tolist()) - set(self.examples.slots.tolist()))

    def forget_class(self, slot: int) -> None:
        self._require_computed_kernel()
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

    def _kernel_and_solution(self) -> tuple[Kernel, S]:
        if self._solved is None:
            kept = self.examples
            kernel = self._kernel.for_examples(kept.X, kept.weights)
            self._solved = kernel, self._solve(kernel, kept, self._signs[kept.slots])
        return self._solved

    def _require_computed_kernel(self) -> None:
        if self._kernel.name == "precomputed":
            raise NotForgettable(
                "columns of a precomputed kernel are numbered by arrival and cannot be removed; "
                "fit again without the examples"
            )


def _require_definite(K: Array, C: float) -> None:
    lowest = float(np.linalg.eigvalsh(K).min())
    if lowest <= -1.0 / C:
        raise LostDefiniteness(
            f"the precomputed kernel has the eigenvalue {lowest:.3g}, but a kernel has none below "
            "zero; check that rows and columns are in the same order"
        )
