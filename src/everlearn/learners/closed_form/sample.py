"""A bounded sample of what was learned that does not depend on the order of learning.

Every example has a number computed from its features. While there is room, all are kept; then the
largest classes give up theirs, of each class those with the largest numbers. So the sample is a
function of the set of examples: any order gives the same one, and the sample of two streams is
found among their samples.

When a class has given up examples for want of room, forgetting one that is kept leaves one place
empty: what would have stood there is gone. Until then forgetting is exact, too.
"""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from everlearn.arrays import AnyArray, Array, Slots, as_numpy
from everlearn.device.device import Device
from everlearn.errors import DamagedModel
from everlearn.learners.closed_form.leave_one_out import LearnedRows
from everlearn.statistics.class_means import ClassMeans
from everlearn.statistics.stored import stored

Numbers = np.ndarray[tuple[int, ...], np.dtype[np.uint64]]
# An odd number with bits all over: the fractional part of the golden ratio.
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
# To this many steps of the largest feature the features of a row are rounded.
STEPS = 65_536.0
# When it is full, room is made for this many times as many examples.
ROOM = 1.25
# Weights that differ by less than this differ by rounding.
ROUNDING = 1e-9


class Sample:
    """At most ``size`` examples, at least one per class; weights count as copies."""

    def __init__(self, n_features: int, size: int) -> None:
        self.size = size
        self._held = np.zeros((0, n_features))  # rows of those kept, and room for more
        self._slots = np.zeros(0, dtype=np.intp)
        self._weights = np.zeros(0)
        self._numbers: Numbers = np.zeros(0, dtype=np.uint64)
        self._seen = np.zeros(0)  # weight of all that was offered, by slot

    @property
    def is_all(self) -> bool:
        """Whether everything that was learned is kept."""
        missing = float(self._seen.sum() - self._weights.sum())
        return missing <= ROUNDING * max(1.0, float(self._seen.sum()))

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def _X(self) -> Array:
        return self._held[: len(self)]

    def rows(self) -> LearnedRows:
        """The examples kept."""
        return LearnedRows(self._X, self._slots, self._weights)

    def first(self, positions: Slots, most: int) -> Slots:
        """Of examples at these positions so many, and any equal to the last; in any order alike."""
        if len(positions) <= most:
            return positions
        numbers = self._numbers[positions]
        return positions[numbers <= np.partition(numbers, most - 1)[most - 1]]

    def offer(self, X: Array, slots: Slots, weights: Array | None) -> None:
        """Examples were learned; those that belong to the sample are kept."""
        self.offer_numbered(numbers_of(X), slots, weights, lambda chosen: X[chosen])

    def offer_numbered(
        self,
        numbers: Numbers,
        slots: Slots,
        weights: Array | None,
        rows: Callable[[Slots], Array],
    ) -> None:
        """As :meth:`offer`, where ``rows`` gives those of the examples that are kept."""
        share = np.ones(len(slots)) if weights is None else weights
        self._note(slots, share)
        welcome = np.flatnonzero(numbers < self._limits()[slots])
        self._add(slots[welcome], share[welcome], numbers[welcome], lambda at: rows(welcome[at]))

    def absorb(self, other: "Sample", slots: Slots) -> None:
        """Take over the sample of another stream; its slot i is our slot ``slots[i]``."""
        known = np.flatnonzero(other._seen)
        self._note(slots[known], other._seen[known])
        self._add(slots[other._slots], other._weights, other._numbers, lambda at: other._X[at])

    def discard(self, X: Array, slots: Slots, weights: Array | None = None) -> None:
        """Examples were forgotten."""
        self._note(slots, -np.ones(len(X)) if weights is None else -weights)
        self._seen[self._seen < ROUNDING] = 0.0
        kept = np.ones(len(self), dtype=bool)
        for number, slot in zip(numbers_of(X), slots, strict=True):
            same = np.flatnonzero(kept & (self._numbers == number) & (self._slots == slot))
            kept[same[:1]] = False
        self._keep(np.flatnonzero(kept))

    def discard_class(self, slot: int) -> None:
        """A class was forgotten."""
        self._seen[slot : slot + 1] = 0.0
        self._keep(np.flatnonzero(self._slots != slot))

    def state(self) -> dict[str, AnyArray]:
        return {
            "sample": self._X,
            "sample_slots": self._slots.astype(np.int64),
            "sample_weights": self._weights,
            "sample_seen": self._seen,
        }

    def restore_from(self, arrays: dict[str, AnyArray], moments: ClassMeans) -> None:
        """Take over what :meth:`state` gave, validated here, beside the moments of all examples."""
        X = stored(arrays, "sample", None, moments.n_features)
        last = moments.n_slots - 1
        slots = stored(arrays, "sample_slots", len(X), dtype=np.int64, least=0, most=last)
        weights = stored(arrays, "sample_weights", len(X), least=np.finfo(np.float64).tiny)
        if len(X) > max(self.size, last + 1):
            raise DamagedModel(f"sample holds {len(X)} examples, more than there is room for")
        # A file of before the sample was counted knows nothing of what was offered.
        seen = moments.counts
        if "sample_seen" in arrays:
            seen = stored(arrays, "sample_seen", None, least=0.0)
        if len(seen) != last + 1:
            raise DamagedModel("sample_seen is of another number of classes")
        self.restore(X, slots, weights, seen.copy())

    def restore(self, X: Array, slots: AnyArray, weights: Array, seen: Array) -> None:
        """Take over what :meth:`state` gave, validated by the caller."""
        self._seen = seen
        self._held, self._weights = X, weights
        self._slots = slots.astype(np.intp)
        self._numbers = numbers_of(X)

    def copy(self) -> "Sample":
        """An independent copy."""
        return copy.deepcopy(self)

    def _add(
        self, slots: Slots, weights: Array, numbers: Numbers, rows: Callable[[Slots], Array]
    ) -> None:
        """Keep those of these examples and of the ones before that have the lowest numbers."""
        n, all_slots = len(self), np.concatenate([self._slots, slots])
        all_weights = np.concatenate([self._weights, weights])
        all_numbers = np.concatenate([self._numbers, numbers])
        most = self._most()
        chosen = np.arange(len(all_slots))
        if np.isinf(most) or not len(chosen):
            self._append(rows(np.arange(len(slots))))
        else:
            order = np.lexsort((all_numbers, all_slots))
            before = np.cumsum(all_weights[order]) - all_weights[order]
            first = np.searchsorted(all_slots[order], all_slots[order])
            chosen = order[before - before[first] < most * (1.0 - ROUNDING)]
            held = np.empty((len(chosen), self._held.shape[1]))
            held[chosen < n] = self._X[chosen[chosen < n]]
            held[chosen >= n] = rows(chosen[chosen >= n] - n)
            self._held = held
        self._slots, self._weights = all_slots[chosen], all_weights[chosen]
        self._numbers = all_numbers[chosen]

    def _append(self, X: Array) -> None:
        """Put rows behind those kept, which stay where they are while there is room."""
        n, more = len(self), len(X)
        if n + more > len(self._held):
            grown = np.empty((max(n + more, int(ROOM * n)), X.shape[1]))
            grown[:n] = self._X
            self._held = grown
        self._held[n : n + more] = X

    def _note(self, slots: Slots, weights: Array) -> None:
        """So much of each class was learned, or forgotten."""
        n_slots = max(len(self._seen), int(slots.max(initial=-1)) + 1)
        self._seen = np.pad(self._seen, (0, n_slots - len(self._seen)))
        self._seen += np.bincount(slots, weights, n_slots)

    def _most(self) -> float:
        """How much of a class may be kept: the level up to which all of them fill ``size``."""
        seen = np.sort(self._seen[self._seen > 0])
        if float(seen.sum()) <= self.size * (1.0 + ROUNDING):
            return np.inf
        below = np.cumsum(seen) - seen
        levels = (self.size - below) / np.arange(len(seen), 0, -1)
        return max(1.0, float(np.floor(levels[np.argmax(levels <= seen)])))

    def _limits(self) -> Numbers:
        """By slot, the number an example must stay below to be kept."""
        limits = np.full(len(self._seen), np.iinfo(np.uint64).max, dtype=np.uint64)
        kept = np.bincount(self._slots, self._weights, len(self._seen))
        for slot in np.flatnonzero(kept >= self._most()):
            limits[slot] = self._numbers[self._slots == slot].max()
        return limits

    def _keep(self, chosen: Any) -> None:
        self._held, self._slots = self._X[chosen], self._slots[chosen]
        self._weights, self._numbers = self._weights[chosen], self._numbers[chosen]


def numbers_of(X: Array) -> Numbers:
    """A number for each row: the same on every machine, and whatever way the row was computed.

    Features behind a projection differ in their last bits with the size of the batch they came in;
    so they are rounded, to 1/65,536 of the largest of the row, before they are mixed.
    """
    largest = np.abs(X).max(axis=1, keepdims=True)
    rounded = np.rint(np.divide(X, largest, out=np.zeros_like(X), where=largest > 0) * STEPS)
    words = rounded.astype(np.int64).view(np.uint64)
    return _mixed((words * _factors(X.shape[1])).sum(axis=1, dtype=np.uint64), largest[:, 0])


def numbers_on_device(device: Device, X: Any) -> Numbers:
    """As :func:`numbers_of`, of float64 rows on a device."""
    xp = device.xp
    largest = xp.max(xp.abs(X), axis=1)
    scale = xp.where(largest > 0, largest, xp.ones_like(largest))[:, None]
    words = xp.astype(xp.round(X / scale * STEPS), xp.int64)
    factors = device.array(_factors(int(X.shape[1])).view(np.int64))
    # Whole numbers wrap around on a device as they do on the host.
    sums = as_numpy(xp.sum(words * factors, axis=1))
    return _mixed(sums.astype(np.int64).view(np.uint64), as_numpy(largest))


def _factors(width: int) -> Numbers:
    factors: Numbers = (np.arange(1, width + 1, dtype=np.uint64) * GOLDEN) | np.uint64(1)
    return factors


def _mixed(sums: Numbers, largest: Array) -> Numbers:
    # A row and its multiples are alike after rounding: the length tells them apart.
    with np.errstate(invalid="ignore"):
        lengths = np.rint(np.log2(np.maximum(largest, np.finfo(np.float64).tiny)) * STEPS)
        mixed: Numbers = sums ^ (lengths.astype(np.int64).view(np.uint64) * GOLDEN)
    mixed ^= mixed >> np.uint64(32)
    mixed *= GOLDEN
    mixed ^= mixed >> np.uint64(29)
    return mixed
