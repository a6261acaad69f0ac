"""Examples kept as they came: rows with slots and weights, in order of arrival."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from everlearn.arrays import AnyArray, Array, Slots
from everlearn.errors import NeverLearned
from everlearn.statistics.validated import validated_array


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
        X = validated_array(arrays, "examples", None, n_features)
        slots = validated_array(arrays, "example_slots", len(X), dtype=np.intp)
        if np.any((slots < 0) | (slots >= n_slots)):
            raise ValueError("an example has the slot of no label")
        return cls(X, slots, validated_array(arrays, "example_weights", len(X)))
