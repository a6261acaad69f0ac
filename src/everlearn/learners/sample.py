"""A bounded sample of what was learned that does not depend on the order of learning.

Every example has a number computed from its features; of each class those with the smallest
numbers are kept, as many as fit. So the sample is a function of the set of examples: any order
gives the same one, and the sample of two streams is found among their samples.

When a class has given up examples for want of room, forgetting one that is kept leaves one place
empty: what would have stood there is gone. Until then forgetting is exact, too.
"""

from typing import Any

import numpy as np

from everlearn.arrays import AnyArray, Array, Slots
from everlearn.learners.leave_one_out import Rows

Numbers = np.ndarray[tuple[int, ...], np.dtype[np.uint64]]
# An odd number with bits all over: the fractional part of the golden ratio.
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
# To this many steps of the largest feature the features of a row are rounded.
STEPS = 65_536.0


class Sample:
    """At most ``size`` examples, shared evenly between the classes."""

    def __init__(self, n_features: int, size: int) -> None:
        self.size = size
        self._X = np.zeros((0, n_features))
        self._slots = np.zeros(0, dtype=np.intp)
        self._weights = np.zeros(0)
        self._numbers: Numbers = np.zeros(0, dtype=np.uint64)

    def __len__(self) -> int:
        return len(self._slots)

    def rows(self) -> Rows:
        """The examples kept."""
        return Rows(self._X, self._slots, self._weights)

    def offer(self, X: Array, slots: Slots, weights: Array | None) -> None:
        """Examples were learned; those that belong to the sample are kept."""
        numbers = numbers_of(X)
        limits = self._limits(int(slots.max()) + 1)
        welcome = np.flatnonzero(numbers < limits[slots])
        if not len(welcome):
            return
        share = np.ones(len(X)) if weights is None else weights
        self._add(X[welcome], slots[welcome], share[welcome], numbers[welcome])

    def absorb(self, other: "Sample", slots: Slots) -> None:
        """Take over the sample of another stream; its slot i is our slot ``slots[i]``."""
        self._add(other._X, slots[other._slots], other._weights, other._numbers)

    def discard(self, X: Array, slots: Slots) -> None:
        """Examples were forgotten."""
        kept = np.ones(len(self), dtype=bool)
        for number, slot in zip(numbers_of(X), slots, strict=True):
            same = np.flatnonzero(kept & (self._numbers == number) & (self._slots == slot))
            kept[same[:1]] = False
        self._keep(np.flatnonzero(kept))

    def discard_class(self, slot: int) -> None:
        """A class was forgotten."""
        self._keep(np.flatnonzero(self._slots != slot))

    def state(self) -> dict[str, AnyArray]:
        return {
            "sample": self._X,
            "sample_slots": self._slots.astype(np.int64),
            "sample_weights": self._weights,
        }

    def restore(self, X: Array, slots: AnyArray, weights: Array) -> None:
        """Take over what :meth:`state` gave, made sure of by the caller."""
        self._X, self._weights = X, weights
        self._slots = slots.astype(np.intp)
        self._numbers = numbers_of(X)

    def _add(self, X: Array, slots: Slots, weights: Array, numbers: Numbers) -> None:
        self._X = np.concatenate([self._X, X])
        self._slots = np.concatenate([self._slots, slots])
        self._weights = np.concatenate([self._weights, weights])
        self._numbers = np.concatenate([self._numbers, numbers])
        order = np.lexsort((self._numbers, self._slots))
        starts = np.searchsorted(self._slots[order], self._slots[order])
        self._keep(order[np.arange(len(order)) - starts < self._places()])

    def _places(self) -> int:
        """How many examples a class may have."""
        return max(1, self.size // max(1, len(np.unique(self._slots))))

    def _limits(self, n_slots: int) -> Numbers:
        """By slot, the number an example must stay below to be kept."""
        limits = np.full(n_slots, np.iinfo(np.uint64).max, dtype=np.uint64)
        places = self._places()
        counts = np.bincount(self._slots, minlength=n_slots)
        for slot in np.flatnonzero(counts[:n_slots] >= places):
            limits[slot] = self._numbers[self._slots == slot].max()
        return limits

    def _keep(self, chosen: Any) -> None:
        self._X, self._slots = self._X[chosen], self._slots[chosen]
        self._weights, self._numbers = self._weights[chosen], self._numbers[chosen]


def numbers_of(X: Array) -> Numbers:
    """A number for each row: the same on every machine, and whatever way the row was computed.

    Features behind a projection differ in their last bits with the size of the batch they came in;
    so they are rounded, to 1/65,536 of the largest of the row, before they are mixed.
    """
    largest = np.abs(X).max(axis=1, keepdims=True)
    rounded = np.rint(np.divide(X, largest, out=np.zeros_like(X), where=largest > 0) * STEPS)
    words = rounded.astype(np.int64).view(np.uint64)
    factors = (np.arange(1, words.shape[1] + 1, dtype=np.uint64) * GOLDEN) | np.uint64(1)
    mixed: Numbers = (words * factors).sum(axis=1, dtype=np.uint64)
    # A row and its multiples are alike after rounding: the length tells them apart.
    lengths = np.rint(np.log2(np.maximum(largest[:, 0], np.finfo(np.float64).tiny)) * STEPS)
    mixed ^= lengths.astype(np.int64).view(np.uint64) * GOLDEN
    mixed ^= mixed >> np.uint64(32)
    mixed *= GOLDEN
    mixed ^= mixed >> np.uint64(29)
    return mixed
