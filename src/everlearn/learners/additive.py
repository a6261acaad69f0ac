"""What the closed-form learners share: their whole state is a set of class moments.

Nearest class mean, streaming LDA and recursive least squares are different readings of the same
additive statistics. Teaching adds to them, forgetting subtracts, merging sums, and saving writes
them down; each learner only says how it reads scores off them, and which of its caches follow.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everlearn.base import EXACT, Array, Promise, Slots, State, StreamingClassifier
from everlearn.statistics.moments import BLOCK_ROWS, ClassMeans


class AdditiveClassifier(StreamingClassifier):
    """A classifier that reads its answers off class moments."""

    moments_: ClassMeans

    @property
    def promises(self) -> frozenset[Promise]:
        return EXACT

    def _empty_moments(self, n_features: int) -> ClassMeans:
        raise NotImplementedError

    # Hooks for caches that follow the moments; each comes after the moments have changed.

    def _after_adding(self, X: Array, weights: Array | None, rows: Array) -> None:
        """The scatter grew by rowsᵀ rows when X was learned."""

    def _after_removing(self, X: Array, weights: Array | None, rows: Array) -> None:
        """The scatter shrank by rowsᵀ rows when X was forgotten."""

    def _after_other_change(self) -> None:
        """The moments changed in a way that rows do not describe."""

    def _begin(self, n_features: int) -> None:
        self.moments_ = self._empty_moments(n_features)

    def _learn(self, X: Array, slots: Slots, weights: Array | None) -> None:
        for start in range(0, len(X), BLOCK_ROWS):
            part = slice(start, start + BLOCK_ROWS)
            part_weights = None if weights is None else weights[part]
            rows = self.moments_.add(X[part], slots[part], part_weights)
            self._after_adding(X[part], part_weights, rows)

    def _learn_one(self, x: Array, slot: int) -> None:
        self.moments_.add_one(x, slot)

    def _forget(self, X: Array, slots: Slots, weights: Array | None) -> Iterable[int]:
        # In one block: what cannot be forgotten must be noticed before anything is.
        rows = self.moments_.remove(X, slots, weights)
        self._after_removing(X, weights, rows)
        touched = np.unique(slots)
        return [int(slot) for slot in touched[self.moments_.counts[touched] == 0]]

    def _forget_class(self, slot: int) -> None:
        self.moments_.remove_class(slot)
        self._after_other_change()

    def _merge(self, other: Any, slots: Slots) -> None:
        self.moments_.merge(other.moments_, slots)
        self._after_other_change()

    def _own_state(self) -> State:
        return self.moments_.state(), {}

    def _own_restore(self, arrays: dict[str, NDArray[Any]], notes: dict[str, Any]) -> None:
        self.moments_.restore(arrays)
        self._after_other_change()
