"""A bounded sample of the learned examples that does not depend on their order.

Every example has a hash computed from its features. While there is room, all are kept; then the
largest classes give up those of their examples with the largest hashes. The sample is therefore a
function of the set of examples: any order gives the same one, and the sample of two streams is
found among their samples.

Once a class has given up examples for lack of room, forgetting a kept one leaves its place empty,
because the example that would have filled it is gone. Until then forgetting is exact, too.
"""

import copy
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from everlearn.arrays import AnyArray, Array, Slots, as_numpy, padded
from everlearn.device.device import Device
from everlearn.errors import DamagedModel
from everlearn.learners.closed_form.gradual_copy import GradualCopy
from everlearn.learners.closed_form.leave_one_out import LearnedRows
from everlearn.statistics.class_means import ClassMeans
from everlearn.statistics.slices import Work
from everlearn.statistics.validated import validated_array

Numbers = np.ndarray[tuple[int, ...], np.dtype[np.uint64]]
# An odd multiplier with well-mixed bits: the fractional part of the golden ratio.
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
# Features of a row are rounded to this many steps of the largest feature.
STEPS = 65_536.0
# A buffer begins with room for all examples, up to so many bytes: what is not used costs no memory.
# When it is full, it grows by this factor.
FIRST_BYTES, ROOM = 128e6, 1.25
# Weights that differ by less than this are considered equal.
ROUNDING = 1e-9


@dataclass(frozen=True)
class FrozenSample:
    """The examples kept at some point; what is learned later does not change them.

    A copy that is made gradually can be used after :meth:`complete`.
    """

    rows: LearnedRows
    numbers: Numbers
    is_all: bool
    copy: GradualCopy | None = None

    def complete(self, piece: float) -> Work[None]:
        """Copy the rows that are left."""
        if self.copy is not None:
            yield from self.copy.complete(piece)

    def first(self, positions: Slots, most: int) -> Slots:
        """At most this many of the examples at these positions, plus ties; independent of order."""
        if len(positions) <= most:
            return positions
        numbers = self.numbers[positions]
        return positions[numbers <= np.partition(numbers, most - 1)[most - 1]]


class Sample:
    """At most ``size`` examples, at least one per class; weights count as copies."""

    def __init__(self, n_features: int, size: int) -> None:
        self.size = size
        # Kept rows in no order and room for more, and where each example is in it: a row that is
        # replaced costs one copy, not one of all that are kept.
        self._buffer = np.zeros((0, n_features))
        self._at = np.zeros(0, dtype=np.intp)
        self._slots = np.zeros(0, dtype=np.intp)
        self._weights = np.zeros(0)
        self._numbers: Numbers = np.zeros(0, dtype=np.uint64)
        self._seen = np.zeros(0)  # total weight offered, by slot
        # The weight per class that the examples kept were selected for; None if not known.
        self._reduced_to: float | None = None
        # Copies of rows of the buffer that are being made, which go away with their samples.
        self._copies: weakref.WeakSet[GradualCopy] = weakref.WeakSet()

    @property
    def is_all(self) -> bool:
        """Whether every learned example is kept."""
        missing = float(self._seen.sum() - self._weights.sum())
        return missing <= ROUNDING * max(1.0, float(self._seen.sum()))

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def _X(self) -> Array:
        """The rows of the examples kept, a copy."""
        return self._buffer[self._at]

    def rows(self) -> LearnedRows:
        """The examples kept, which later changes leave as they are."""
        return LearnedRows(self._X, self._slots, self._weights)

    def frozen(self, into: Array | None = None) -> FrozenSample:
        """The sample of now, copied at once, or gradually to the first rows of ``into``."""
        if into is None or len(into) < len(self):
            return FrozenSample(self.rows(), self._numbers, self.is_all)
        rows = LearnedRows(into[: len(self)], self._slots, self._weights)
        copy = GradualCopy(self._buffer, self._at, rows.X)
        self._copies.add(copy)
        return FrozenSample(rows, self._numbers, self.is_all, copy)

    def offer(self, X: Array, slots: Slots, weights: Array | None) -> None:
        """Add learned examples; those that belong to the sample are kept."""
        self.offer_numbered(numbers_of(X), slots, weights, lambda chosen: X[chosen])

    def offer_numbered(
        self,
        numbers: Numbers,
        slots: Slots,
        weights: Array | None,
        rows: Callable[[Slots], Array],
    ) -> None:
        """As :meth:`offer`, where ``rows`` returns the requested examples."""
        share = np.ones(len(slots)) if weights is None else weights
        self._note(slots, share)
        welcome = np.flatnonzero(numbers < self._limits()[slots])
        self._add(slots[welcome], share[welcome], numbers[welcome], lambda at: rows(welcome[at]))

    def absorb(self, other: "Sample", slots: Slots) -> None:
        """Take over the sample of another stream; its slot i is our slot ``slots[i]``."""
        known = np.flatnonzero(other._seen)
        self._note(slots[known], other._seen[known])
        theirs = slots[other._slots]
        self._add(theirs, other._weights, other._numbers, lambda at: other._buffer[other._at[at]])

    def discard(self, X: Array, slots: Slots, weights: Array | None = None) -> None:
        """Remove forgotten examples."""
        self._note(slots, -np.ones(len(X)) if weights is None else -weights)
        self._seen[self._seen < ROUNDING] = 0.0
        kept = np.ones(len(self), dtype=bool)
        for number, slot in zip(numbers_of(X), slots, strict=True):
            same = np.flatnonzero(kept & (self._numbers == number) & (self._slots == slot))
            kept[same[:1]] = False
        self._keep(np.flatnonzero(kept))

    def discard_class(self, slot: int) -> None:
        """Remove a forgotten class."""
        self._seen[slot : slot + 1] = 0.0
        self._keep(np.flatnonzero(self._slots != slot))

    def state(self) -> dict[str, AnyArray]:
        return {
            "sample": self._X,
            "sample_slots": self._slots.astype(np.int64),
            "sample_weights": self._weights,
            "sample_seen": self._seen.copy(),
        }

    def restore_from(self, arrays: dict[str, AnyArray], moments: ClassMeans) -> None:
        """Restore from the result of :meth:`state`, validated here against the moments."""
        X = validated_array(arrays, "sample", None, moments.n_features)
        last = moments.n_slots - 1
        slots = validated_array(arrays, "sample_slots", len(X), dtype=np.int64, least=0, most=last)
        weights = validated_array(arrays, "sample_weights", len(X), least=np.finfo(np.float64).tiny)
        if len(X) > max(self.size, last + 1):
            raise DamagedModel(f"sample holds {len(X)} examples, more than there is room for")
        # Older files do not record how much was offered.
        seen = moments.counts
        if "sample_seen" in arrays:
            seen = validated_array(arrays, "sample_seen", None, least=0.0)
        if len(seen) != last + 1:
            raise DamagedModel("sample_seen has another number of classes")
        self.restore(X, slots, weights, seen.copy())

    def restore(self, X: Array, slots: AnyArray, weights: Array, seen: Array) -> None:
        """Restore from the result of :meth:`state`, validated by the caller."""
        self._seen = seen
        self._buffer, self._at = X.copy(), np.arange(len(X))
        self._weights, self._slots = weights, slots.astype(np.intp)
        self._numbers, self._reduced_to = numbers_of(X), None

    def __getstate__(self) -> dict[str, Any]:
        own = self.__dict__ | {"_buffer": self._X, "_at": np.arange(len(self))}
        del own["_copies"]
        return own

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ = state | {"_copies": weakref.WeakSet()}

    def copy(self) -> "Sample":
        """An independent copy."""
        return copy.deepcopy(self)

    def _add(
        self, slots: Slots, weights: Array, numbers: Numbers, rows: Callable[[Slots], Array]
    ) -> None:
        """Keep those of the old and new examples that have the lowest hashes."""
        n, all_slots = len(self), np.concatenate([self._slots, slots])
        all_weights = np.concatenate([self._weights, weights])
        all_numbers = np.concatenate([self._numbers, numbers])
        most = self._most()
        if not len(slots) and most == self._reduced_to:
            return
        chosen = np.arange(len(all_slots))
        if np.isfinite(most) and len(chosen):
            order = np.lexsort((all_numbers, all_slots))
            before = np.cumsum(all_weights[order]) - all_weights[order]
            first = np.searchsorted(all_slots[order], all_slots[order])
            chosen = order[before - before[first] < most * (1.0 - ROUNDING)]
        self._put(chosen, n, rows)
        self._slots, self._weights = all_slots[chosen], all_weights[chosen]
        self._numbers = all_numbers[chosen]
        self._reduced_to = most

    def _put(self, chosen: Slots, n: int, rows: Callable[[Slots], Array]) -> None:
        """Keep these examples: those from ``n`` on are new, and take the places of the others."""
        is_new = chosen >= n
        added = rows(chosen[is_new] - n)
        at = np.empty(len(chosen), dtype=np.intp)
        at[~is_new] = self._at[chosen[~is_new]]
        if len(chosen) > len(self._buffer):
            first = min(self.size, int(FIRST_BYTES / (8 * self._buffer.shape[1])))
            room = max(len(chosen), first, int(ROOM * len(self._buffer)))
            self._buffer = padded(self._buffer, room)
        if len(added):
            free = np.ones(len(self._buffer), dtype=bool)
            free[at[~is_new]] = False
            places = np.flatnonzero(free)[: len(added)]
            for copy in self._copies:
                if copy.table is self._buffer:
                    copy.save(places)
            at[is_new] = places
            self._buffer[places] = added
        self._at = at

    def _note(self, slots: Slots, weights: Array) -> None:
        """Record the weight of each class that was learned, or forgotten."""
        n_slots = max(len(self._seen), int(slots.max(initial=-1)) + 1)
        if n_slots > len(self._seen):
            self._seen = np.pad(self._seen, (0, n_slots - len(self._seen)))
        np.add.at(self._seen, slots, weights)

    def _most(self) -> float:
        """The weight kept per class: the level at which all classes together fill ``size``."""
        seen = np.sort(self._seen[self._seen > 0])
        if float(seen.sum()) <= self.size * (1.0 + ROUNDING):
            return np.inf
        below = np.cumsum(seen) - seen
        levels = (self.size - below) / np.arange(len(seen), 0, -1)
        return max(1.0, float(np.floor(levels[np.argmax(levels <= seen)])))

    def _limits(self) -> Numbers:
        """By slot, the hash below which an example is kept."""
        limits = np.full(len(self._seen), np.iinfo(np.uint64).max, dtype=np.uint64)
        is_full = np.bincount(self._slots, self._weights, len(self._seen)) >= self._most()
        largest = np.zeros_like(limits)
        np.maximum.at(largest, self._slots, self._numbers)
        limits[is_full] = largest[is_full]
        return limits

    def _keep(self, chosen: Any) -> None:
        # Nothing of what was forgotten stays in the buffer.
        self._buffer, self._at = self._buffer[self._at[chosen]], np.arange(len(chosen))
        self._slots = self._slots[chosen]
        self._weights, self._numbers = self._weights[chosen], self._numbers[chosen]
        self._reduced_to = None


def numbers_of(X: Array) -> Numbers:
    """A hash per row: the same on every machine, however the row was computed.

    Features after a projection differ in their last bits with the size of the batch, so they are
    rounded to 1/65,536 of the largest of the row before hashing.
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
    # Integers wrap around on a device as they do on the host.
    sums = as_numpy(xp.sum(words * factors, axis=1))
    return _mixed(sums.astype(np.int64).view(np.uint64), as_numpy(largest))


def _factors(width: int) -> Numbers:
    factors: Numbers = (np.arange(1, width + 1, dtype=np.uint64) * GOLDEN) | np.uint64(1)
    return factors


def _mixed(sums: Numbers, largest: Array) -> Numbers:
    # A row and its multiples are equal after rounding: the length distinguishes them.
    with np.errstate(invalid="ignore"):
        lengths = np.rint(np.log2(np.maximum(largest, np.finfo(np.float64).tiny)) * STEPS)
        mixed: Numbers = sums ^ (lengths.astype(np.int64).view(np.uint64) * GOLDEN)
    mixed ^= mixed >> np.uint64(32)
    mixed *= GOLDEN
    mixed ^= mixed >> np.uint64(29)
    return mixed
