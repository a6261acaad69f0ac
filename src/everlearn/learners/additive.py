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

    # Hooks: a learner with caches that follow the moments extends these.

    def _absorb(self, X: Array, slots: Slots, weights: Array | None) -> None:
        """Learn one block of at most ``BLOCK_ROWS`` examples."""
        self.moments_.add(X, slots, weights)

    def _release(self, X: Array, slots: Slots, weights: Array | None) -> None:
        """Unlearn examples; raises before anything changes."""
        self.moments_.remove(X, slots, weights)

    def _after_other_change(self) -> None:
        """The moments changed as a whole: a class was forgotten, or another learner merged in."""

    def _begin(self, n_features: int) -> None:
        self.moments_ = self._empty_moments(n_features)

    def _learn(self, X: Array, slots: Slots, weights: Array | None) -> None:
        for start in range(0, len(X), BLOCK_ROWS):
            part = slice(start, start + BLOCK_ROWS)
            self._absorb(X[part], slots[part], None if weights is None else weights[part])

    def _learn_one(self, x: Array, slot: int) -> None:
        self.moments_.add_one(x, slot)

    def _forget(self, X: Array, slots: Slots, weights: Array | None) -> Iterable[int]:
        # In one block: what cannot be forgotten must be noticed before anything is.
        self._release(X, slots, weights)
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
        if self.moments_.n_slots != self.labels_.n_slots:
            raise ValueError("labels and statistics are of different numbers of classes")
        self._after_other_change()
