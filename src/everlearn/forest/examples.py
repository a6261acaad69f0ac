"""Stores the examples that the leaves of a forest refer to, within a budget per class.

Rows are float32 and whitened; a row keeps its index while its example is stored, so trees refer to
it by number. With a budget, each class keeps a uniform sample of all its examples (a reservoir):
every example gets a random key, and those with the highest keys stay. The key of an example of
weight w is u^(1/w), u uniform, so that it stays with the probability of w examples of weight one
(Efraimidis and Spirakis, 2006).

An ``ExampleStore`` is immutable: every method returns a new one. Only the large array is shared
between them, and only rows that neither of them uses are written.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from everlearn.arrays import padded
from everlearn.base import Array, Slots
from everlearn.errors import DamagedModel, NeverLearned
from everlearn.forest.settings import NONE
from everlearn.statistics.validated import validated_array

if TYPE_CHECKING:
    from everlearn.forest.tree import TreeRows

Floats32 = NDArray[np.float32]
Ints = NDArray[np.int32]
# Weights that differ by less than this share are the same weight.
ROUNDING = 1e-9


@dataclass(frozen=True)
class ExampleStore:
    """Stored rows with their slot, weight, key and number.

    Attributes
    ----------
    X : float32 array of shape (capacity, n_features)
    slot : int32 array of shape (capacity,)
        The class of each row, −1 where there is none.
    weight, key : float64 arrays of shape (capacity,)
    number : int64 array of shape (capacity,)
        Ordinal of the example, 0 = first.
    seen : float64 array, one entry per slot
        The weight of everything taught and not forgotten, stored or not.
    n_taught : int
    """

    X: Floats32
    slot: Ints
    weight: Array
    key: Array
    number: NDArray[np.int64]
    seen: Array
    n_taught: int

    @classmethod
    def none(cls, n_features: int) -> "ExampleStore":
        return cls(
            np.empty((0, n_features), np.float32),
            np.empty(0, np.int32),
            np.empty(0),
            np.empty(0),
            np.empty(0, np.int64),
            np.empty(0),
            0,
        )

    @property
    def n_slots(self) -> int:
        return len(self.seen)

    @property
    def stored(self) -> Ints:
        """The rows that hold an example."""
        return np.flatnonzero(self.slot != NONE).astype(np.int32)

    @property
    def scale(self) -> Array:
        """How many examples of its class each stored one represents."""
        rows = self.stored
        kept = np.bincount(self.slot[rows], self.weight[rows], self.n_slots)
        scale: Array = np.divide(self.seen, kept, out=np.ones(self.n_slots), where=kept > 0)
        scale[np.abs(scale - 1.0) < ROUNDING] = 1.0
        return scale

    def rows(self) -> "TreeRows":
        """The examples for compiled code, each with the weight of all examples it represents."""
        from everlearn.forest.tree import TreeRows

        scale = np.append(self.scale, 0.0)  # the last is that of rows without an example (NONE)
        return TreeRows(self.X, self.slot, self.weight * scale[self.slot])

    def evicted(
        self, slots: Slots, keys: Array, budget: int | None
    ) -> tuple[Ints, NDArray[np.bool_]]:
        """The rows that a batch with these keys evicts, and which of its own examples stay."""
        stays = np.ones(len(slots), dtype=np.bool_)
        if budget is None:
            return np.empty(0, np.int32), stays
        out: list[Ints] = []
        for slot in np.unique(slots):
            old = np.flatnonzero(self.slot == slot)
            new = np.flatnonzero(slots == slot)
            both = np.concatenate([self.key[old], keys[new]])
            losers = np.argsort(-both, kind="stable")[budget:]
            out.append(old[losers[losers < len(old)]].astype(np.int32))
            stays[new[losers[losers >= len(old)] - len(old)]] = False
        return np.sort(np.concatenate(out)), stays

    def without(self, rows: Ints) -> "ExampleStore":
        """Without these rows; the number of examples seen does not change."""
        if not len(rows):
            return self
        slot = self.slot.copy()
        slot[rows] = NONE
        return replace(self, slot=slot)

    def with_batch(
        self, X: Floats32, slots: Slots, weights: Array | None, keys: Array, numbers: Slots
    ) -> tuple["ExampleStore", Ints]:
        """With more examples; returns also the rows they are stored in."""
        n_new = len(X)
        free = np.flatnonzero(self.slot == NONE)
        if len(free) < n_new:
            grown = self._with_capacity(len(self.slot) + n_new - len(free))
            return grown.with_batch(X, slots, weights, keys, numbers)
        rows = free[:n_new].astype(np.int32)
        slot, weight, key = self.slot.copy(), self.weight.copy(), self.key.copy()
        number = self.number.copy()
        self.X[rows] = X
        slot[rows] = slots
        weight[rows] = 1.0 if weights is None else weights
        key[rows] = keys
        number[rows] = self.n_taught + numbers
        return replace(self, slot=slot, weight=weight, key=key, number=number), rows

    def with_seen(self, slots: Slots, weights: Array | None) -> "ExampleStore":
        """With these examples counted in ``seen`` and ``n_taught``, stored or not."""
        n_slots = max(self.n_slots, int(slots.max()) + 1)
        seen = np.bincount(slots, weights, n_slots).astype(np.float64)
        seen[: self.n_slots] += self.seen
        return replace(self, seen=seen, n_taught=self.n_taught + len(slots))

    def find(self, X: Floats32, slots: Slots, weights: Array | None) -> tuple[Ints, Array, Array]:
        """Find examples by their content.

        Returns the rows that hold them, the weight to remove from each row, and for each slot the
        weight that is not stored. Raises ``NeverLearned`` if the examples cannot have been learned.
        """
        rows_of_slot = {slot: self._by_content(slot) for slot in np.unique(slots).tolist()}
        taken = np.zeros(len(self.slot))
        missing = np.zeros(self.n_slots)
        for i, slot in enumerate(slots.tolist()):
            need = 1.0 if weights is None else float(weights[i])
            for row in rows_of_slot[slot].get(X[i].tobytes(), ()):
                part = min(need, self.weight[row] - taken[row])
                taken[row] += part
                need -= part
                if need <= ROUNDING:
                    break
            if need > ROUNDING:
                missing[slot] += need
        kept = np.bincount(self.slot[self.stored], self.weight[self.stored], self.n_slots)
        if np.any(missing > (self.seen - kept) * (1.0 + ROUNDING) + ROUNDING):
            raise NeverLearned(
                "an example to be forgotten is not among those learned; forget what was taught, "
                "with the same features, label and weight"
            )
        rows = np.flatnonzero(taken > 0).astype(np.int32)
        return rows, taken[rows], missing

    def with_less_weight(self, rows: Ints, weights: Array, missing: Array) -> "ExampleStore":
        """With these weights subtracted from rows and from ``seen``; rows of no weight become free.

        ``missing`` is subtracted from ``seen`` only.
        """
        slot, weight = self.slot.copy(), self.weight.copy()
        weight[rows] -= weights
        seen = self.seen - missing - np.bincount(slot[rows], weights, self.n_slots)
        gone = rows[weight[rows] <= ROUNDING]
        slot[gone] = NONE
        seen[~np.isin(np.arange(self.n_slots), slot)] = 0.0
        return replace(self, slot=slot, weight=weight, seen=seen)

    def of_class(self, slot: int) -> Ints:
        return np.flatnonzero(self.slot == slot).astype(np.int32)

    def relabelled(self, slots: Slots) -> "ExampleStore":
        """A copy in which slot i is ``slots[i]``."""
        seen = np.zeros(int(slots.max()) + 1)
        known = np.flatnonzero(slots >= 0)
        seen[slots[known]] = self.seen[known]
        slot = np.where(self.slot == NONE, NONE, slots[self.slot]).astype(np.int32)
        return replace(self, X=self.X.copy(), slot=slot, seen=seen)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Everything, as named arrays."""
        return {name: np.atleast_1d(getattr(self, name)) for name in self.__dataclass_fields__}

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]], n_features: int) -> "ExampleStore":
        """Restore from :meth:`arrays`; raises ``DamagedModel`` if it is inconsistent."""
        seen = validated_array(arrays, "seen", None, least=0.0)
        slot = validated_array(arrays, "slot", None, dtype=np.int32, least=NONE, most=len(seen) - 1)
        capacity = len(slot)
        found = cls(
            validated_array(arrays, "X", capacity, n_features, dtype=np.float32),
            slot,
            validated_array(arrays, "weight", capacity, least=0.0),
            validated_array(arrays, "key", capacity, most=0.0),
            validated_array(arrays, "number", capacity, dtype=np.int64, least=0),
            seen,
            int(validated_array(arrays, "n_taught", 1, dtype=np.int64, least=0, most=2**62)[0]),
        )
        found._require_consistent()
        return found

    def _require_consistent(self) -> None:
        """Raise ``DamagedModel`` with the name of an array that contradicts the others."""
        stored = self.stored
        with np.errstate(all="ignore"):
            weight = self.rows().weight[stored]
        if not np.all((weight > 0) & np.isfinite(weight)):
            raise DamagedModel("weight and seen do not agree: an example has no weight")
        if np.any(self.number[stored] >= self.n_taught):
            raise DamagedModel("number holds a value above n_taught")

    def _by_content(self, slot: int) -> dict[bytes, list[int]]:
        found: dict[bytes, list[int]] = {}
        for row in self.of_class(slot).tolist():
            found.setdefault(self.X[row].tobytes(), []).append(row)
        return found

    def _with_capacity(self, least: int) -> "ExampleStore":
        n = len(self.slot)
        capacity = max(least, n + n // 2)
        return replace(
            self,
            X=padded(self.X, capacity),
            slot=padded(self.slot, capacity, NONE),
            weight=padded(self.weight, capacity),
            key=padded(self.key, capacity),
            number=padded(self.number, capacity),
        )
