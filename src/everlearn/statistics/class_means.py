"""Weight and mean of every class: the part of the moments that needs no matrix.

Adding, removing and merging examples change counts and means; the effect on the scatter is left to
hooks, which :class:`everlearn.statistics.moments.Moments` implements. Its header has the formulas.
"""

import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from everlearn.arrays import Array, Slots, padded
from everlearn.errors import DamagedModel, NeverLearned
from everlearn.statistics.fading import Fading
from everlearn.statistics.validated import validated_array

_NONE = np.zeros(0)
# A class whose remaining weight is below this share of what was removed is rounding error.
EMPTY = 1e-9
# How far a statistic may go below zero before the removed rows cannot have been learned.
ROUNDING = 1e-7
# A file with larger values was not written by a learner: counts would no longer change, or
# squares overflow.
MOST_EXAMPLES = 2.0**53
LARGEST = 1e154
# With a half-life, the weight of a class never falls below this share of one example.
FAINTEST = 2.0**-500


# Number of changes remembered; a cache that looks less often is rebuilt.
MOST_CHANGES = 65536
# From so many classes on, room for new ones is made in slices of so many rows.
MANY_CLASSES, ROOM_SLICE = 4096, 512


class ClassMeans:
    """Weight and mean of every class, and of all examples.

    Parameters
    ----------
    n_features : int
    half_life : float, optional
        The weight of an example halves after this many further examples.
    """

    def __init__(self, n_features: int, *, half_life: float | None = None) -> None:
        self.n_features = n_features
        self._fading = None if half_life is None else Fading(float(half_life))
        self.total = 0.0
        self._mean = np.zeros(n_features)
        self._mean_is_old = False
        self.version = 0
        self.changes = Changes()
        self._n_slots = 0
        self._counts = np.zeros(0)
        self._means = np.zeros((0, n_features))
        self._room = Room()

    def __repr__(self) -> str:
        known = int(np.count_nonzero(self.counts))
        weight = self.total / self.unit
        return (
            f"<{type(self).__name__}: {weight:g} examples of {known} classes, "
            f"{self.n_features} features>"
        )

    @property
    def n_slots(self) -> int:
        return self._n_slots

    @property
    def counts(self) -> Array:
        """n_k by slot, zero for unknown classes."""
        return self._counts[: self._n_slots]

    @property
    def means(self) -> Array:
        """μ_k by slot, one row each."""
        return self._means[: self._n_slots]

    @property
    def mean(self) -> Array:
        """The overall mean; after a removal it is recomputed when next needed."""
        if self._mean_is_old:
            self._mean = self._mean_of_means()
            self._mean_is_old = False
        return self._mean

    @property
    def unit(self) -> float:
        """Weight of one new example in counts, total and scatter; one without a half-life."""
        return 1.0 if self._fading is None else self._fading.unit

    def weights_of_next(self, n: int, given: Array | None) -> Array | None:
        """The weights with which :meth:`add` would add n examples now."""
        return given if self._fading is None else self._fading.weights(n, given)

    def reserve(self, n_slots: int) -> None:
        """Make room for slots below ``n_slots``; amortised constant time per slot."""
        if n_slots <= self._n_slots:
            return
        if n_slots > len(self._counts):
            self._grow(max(8, n_slots, 2 * len(self._counts)))
        self._n_slots = n_slots

    def make_room(self) -> None:
        """Copy a slice of the means to where there is room for new classes, if there is none left.

        For callers whose calls must not stall: once this was called often enough, a new class no
        longer copies all means, as :meth:`reserve` does when the arrays are full.
        """
        if self._n_slots >= MANY_CLASSES and self._n_slots == len(self._counts):
            self._room.fill(self._means, self.changes, 2 * self._n_slots)

    def add_one(self, x: Array, slot: int) -> Array:
        """Add one example of weight 1 and return the row by whose outer product S grew.

        ``x`` is finite, contiguous float64. The row is valid until the next change.
        """
        if self._fading is not None:
            row: Array = self.add(x[None], np.array([slot]))[0]
            return row
        self.reserve(slot + 1)
        row = self._next_row(slot)
        self._absorb(x, slot, row)
        self.total += 1.0
        self.version += 1
        self.changes.note_one(slot)
        return row

    def add(self, X: Array, slots: Slots, weights: Array | None = None) -> Array:
        """Add a block of examples and return the rows by whose outer products S grew.

        ``X`` is finite, contiguous float64; a block should fit the processor's cache.
        """
        if self._fading is None:
            return self._add(X, slots, weights)
        rows = [self._add_fading(self._fading, *part) for part in self._parts(X, slots, weights)]
        return np.concatenate(rows)

    def _parts(
        self, X: Array, slots: Slots, weights: Array | None
    ) -> Iterator[tuple[Array, Slots, Array | None]]:
        assert self._fading is not None
        for start in range(0, len(X), self._fading.most_rows):
            part = slice(start, start + self._fading.most_rows)
            yield X[part], slots[part], None if weights is None else weights[part]

    def _add_fading(self, fading: Fading, X: Array, slots: Slots, weights: Array | None) -> Array:
        if fading.is_large:
            self._rescale(1.0 / fading.unit)
            fading.start_again()
        weights = fading.weights(len(X), weights)
        fading.advance(len(X))
        return self._add(X, slots, weights)

    def _add(self, X: Array, slots: Slots, weights: Array | None) -> Array:
        from everlearn.statistics.kernels import absorb_rows

        self.reserve(int(slots.max()) + 1)
        rows = np.empty_like(X)
        given = _NONE if weights is None else weights
        absorb_rows(X, slots, given, self._counts, self._means, self._mean, self.total, rows)
        self.total += float(len(X)) if weights is None else float(weights.sum())
        self.version += 1
        self.changes.note(slots.tolist())
        self._add_scatter(rows, slots)
        return rows

    def remove(self, X: Array, slots: Slots, weights: Array | None = None) -> Array:
        """Remove a block of learned examples; returns the rows by which S shrank.

        Raises ``NeverLearned``, and changes nothing, if the statistics show that some of the block
        cannot have been learned.
        """
        block = Block(X, slots, weights)
        left, means, between = self._without(block.slots, block.counts, block.means)
        rows = np.concatenate([block.within, between[left > 0]])
        self._remove_scatter(rows, block, between)
        self._leave(block.slots, left, means)
        return rows

    def merge(self, other: "ClassMeans", slots: Slots) -> None:
        """Add the moments of another set of examples; its slot i is our slot ``slots[i]``.

        With a half-life both are taken as of now: every example keeps its age.
        """
        known = other.counts > 0
        slots = slots[known]
        if not len(slots):
            return
        self.reserve(int(slots.max()) + 1)
        share = self.unit / other.unit
        theirs, ours = share * other.counts[known], self._counts[slots]
        delta = other.means[known] - self._means[slots]
        between = np.sqrt(ours * theirs / (ours + theirs))[:, None] * delta
        self._merge_scatter(other, share, between, slots, known)
        self._counts[slots] = ours + theirs
        self._means[slots] += (theirs / (ours + theirs))[:, None] * delta
        self._recompute_total()
        self.changes.note(slots.tolist())

    def unmerge(self, other: "ClassMeans", slots: Slots) -> None:
        """Remove moments that were merged in; the inverse of :meth:`merge`.

        Raises ``NeverLearned``, and changes nothing, if the statistics show that they were not
        merged in.
        """
        known = other.counts > 0
        slots = slots[known]
        if not len(slots):
            return
        left, means, between = self._without(slots, other.counts[known], other.means[known])
        self._unmerge_scatter(other, between, slots, known)
        self._leave(slots, left, means)

    def remove_class(self, slot: int) -> None:
        """Remove everything about one class."""
        self._remove_class_scatter(slot)
        self._counts[slot] = 0.0
        self._means[slot] = 0.0
        self._recompute_total()
        self.changes.note_one(slot)

    def flush(self) -> None:
        """Add waiting rows, as after saving and loading."""

    def state(self) -> dict[str, NDArray[Any]]:
        """The moments as named arrays, in units of an example learned now."""
        # From the class means, whatever was cached: equal states have equal bits.
        self._mean_is_old = self._mean_is_old or self._fading is None
        return {"counts": self._in_examples(self.counts), "means": self.means, "mean": self.mean}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Restore from the result of :meth:`state`."""
        self._counts = validated_array(arrays, "counts", None, least=0.0, most=MOST_EXAMPLES)
        self._n_slots = len(self._counts)
        self._means = validated_array(
            arrays, "means", self._n_slots, self.n_features, least=-LARGEST, most=LARGEST
        )
        self._room = Room()
        self._recompute_total()
        mean = validated_array(arrays, "mean", self.n_features, least=-LARGEST, most=LARGEST)
        gap = float(np.abs(mean - self.mean).max(initial=0.0))
        # Mostly it is the same in every bit, which saves reading the means again.
        if gap and gap > ROUNDING * max(
            self._means.max(initial=0.0), -self._means.min(initial=0.0)
        ):
            raise DamagedModel("mean is not the mean of the classes")
        self._mean = mean
        self.changes.note_all()
        if self._fading is not None:
            self._fading.start_again()

    # Hooks: the scatter, beside the means.

    def _absorb(self, x: Array, slot: int, row: Array) -> float:
        """Move the means towards one example and write the row to add; returns ‖row‖²."""
        from everlearn.statistics.kernels import move_means

        count = self._counts[slot]
        scale = math.sqrt(count / (count + 1.0))  # as in absorb_rows
        return move_means(
            x, slot, 1.0, self._counts, self._means, self._mean, self.total, scale, row
        )

    def _next_row(self, slot: int) -> Array:
        """Buffer for the row of the next single example."""
        return np.empty(self.n_features)

    def _add_scatter(self, rows: Array, slots: Slots) -> None:
        pass

    def _remove_scatter(self, rows: Array, block: "Block", between: Array) -> None:
        pass

    def _merge_scatter(
        self,
        other: "ClassMeans",
        share: float,
        between: Array,
        slots: Slots,
        known: NDArray[np.bool_],
    ) -> None:
        pass

    def _rescale(self, factor: float) -> None:
        """Multiply every weight."""
        known = self._counts > 0
        self._counts[known] = np.maximum(factor * self._counts[known], FAINTEST)
        self.total *= factor
        self.version += 1
        self.changes.note_all()

    def _unmerge_scatter(
        self, other: "ClassMeans", between: Array, slots: Slots, known: NDArray[np.bool_]
    ) -> None:
        pass

    def _remove_class_scatter(self, slot: int) -> None:
        pass

    def _without(self, slots: Slots, counts: Array, means: Array) -> tuple[Array, Array, Array]:
        """State of classes after removing these counts and means; changes nothing.

        Returns the remaining weights and means, and the rows between both parts of each class.
        """
        old = self._counts[slots]
        left = old - counts
        empty = np.abs(left) <= EMPTY * counts
        self._require_learned(slots, means, left, empty)
        left[empty] = 0.0
        with np.errstate(invalid="ignore", divide="ignore"):
            shift = np.where(left > 0, counts / left, 0.0)
        remaining = self._means[slots] + shift[:, None] * (self._means[slots] - means)
        between = np.sqrt(left * counts / old)[:, None] * (means - remaining)
        remaining[empty] = 0.0
        return left, remaining, between

    def _leave(self, slots: Slots, counts: Array, means: Array) -> None:
        self._counts[slots] = counts
        self._means[slots] = means
        self._recompute_total()
        self.changes.note(slots.tolist())

    def _grow(self, capacity: int) -> None:
        self._counts = padded(self._counts, capacity)
        self._means = self._room.grown(self._means, self.changes, capacity)
        self._room = Room()

    def _in_examples(self, weights: Array) -> Array:
        """Weights in units of the latest example; the array itself if that is one."""
        unit = self.unit
        if unit == 1.0:
            return weights
        counted: Array = weights / unit
        return counted

    def _recompute_total(self) -> None:
        self.total = float(self.counts.sum())
        self._mean_is_old = True
        self.version += 1

    def _mean_of_means(self) -> Array:
        # From the class means, not by subtraction: removing leaves no rounding behind.
        if not self.total:
            return np.zeros(self.n_features)
        # In units of the latest example, as in a file: equal states have equal bits.
        counts = self._in_examples(self.counts)
        mean: Array = counts @ self.means / float(counts.sum())
        return mean

    def _require_learned(
        self, slots: Slots, means: Array, left: Array, empty: NDArray[np.bool_]
    ) -> None:
        if np.any((left < 0) & ~empty):
            raise NeverLearned(
                "more examples of a class would be forgotten than were learned; "
                "forget only what was taught"
            )
        gap = np.abs(means - self._means[slots])[empty]
        size = 1.0 + np.abs(means)[empty]
        if np.any(gap > ROUNDING * size):
            raise NeverLearned(
                "the last examples of a class would be forgotten, but their mean differs from "
                "that of the learned ones; forget only what was taught"
            )


class Room:
    """A larger array that receives a copy of class means slice by slice; a cache."""

    def __init__(self) -> None:
        self._means: Array | None = None
        self._n_copied = 0
        self._mark = 0

    def fill(self, means: Array, changes: "Changes", capacity: int) -> None:
        """Copy the next slice of the means."""
        if self._means is None:
            self._means = np.zeros((capacity, means.shape[1]))
            self._mark = changes.mark()
        part = slice(self._n_copied, self._n_copied + ROOM_SLICE)
        self._means[: len(means)][part] = means[part]
        self._n_copied = min(len(means), part.stop)

    def grown(self, means: Array, changes: "Changes", capacity: int) -> Array:
        """The means with capacity for so many classes; copies what was not copied yet."""
        changed = changes.since(self._mark)
        larger = self._means
        if larger is None or changed is None or len(larger) < capacity:
            return padded(means, capacity)
        larger[self._n_copied : len(means)] = means[self._n_copied :]
        for slot in changed:
            larger[slot] = means[slot]
        return larger

    def __getstate__(self) -> dict[str, object]:
        return Room().__dict__  # a copy makes its own when needed


class Block:
    """Examples summed up class by class."""

    def __init__(self, X: Array, slots: Slots, weights: Array | None) -> None:
        self.slots, self.member_of = np.unique(slots, return_inverse=True)
        w = np.ones(len(X)) if weights is None else weights
        self.counts: Array = np.bincount(self.member_of, w, len(self.slots)).astype(np.float64)
        membership = sp.csr_array(
            (w / self.counts[self.member_of], (self.member_of, np.arange(len(X)))),
            shape=(len(self.slots), len(X)),
        )
        self.means = np.asarray(membership @ X)
        within = X - self.means[self.member_of]
        # One correction step: the mean of large numbers is only as accurate as their sum.
        correction = np.asarray(membership @ within)
        self.means += correction
        within -= correction[self.member_of]
        self.within: Array = within if weights is None else np.sqrt(w)[:, None] * within

    def rows_by_class(self, between: Array) -> Any:
        """Pairs of a slot and the rows of its class."""
        for index, slot in enumerate(self.slots):
            members = self.within[self.member_of == index]
            yield slot, np.concatenate([members, between[index : index + 1]])


class Changes:
    """Which classes changed since a cache last looked: slots in the order of their changes.

    A cache takes a *mark*, and later asks which slots changed after it, so that it updates a few
    rows instead of being rebuilt. Nothing is recorded before the first mark is taken.
    """

    def __init__(self) -> None:
        self._slots: list[int] = []
        self._first = 0
        self._noted = False

    def mark(self) -> int:
        """An identifier of the current state."""
        self._noted = True
        return self._first + len(self._slots)

    def note_one(self, slot: int) -> None:
        if self._noted:
            self._slots.append(slot)
            if len(self._slots) > MOST_CHANGES:
                self._drop()

    def note(self, slots: Iterable[int]) -> None:
        if self._noted:
            self._slots.extend(slots)
            if len(self._slots) > MOST_CHANGES:
                self._drop()

    def note_all(self) -> None:
        """Record that any slot may have changed: earlier marks become invalid."""
        self._first += len(self._slots) + 1
        self._slots = []

    def since(self, mark: int) -> set[int] | None:
        """The slots that changed after a mark; ``None`` if that is no longer known."""
        return set(self._slots[mark - self._first :]) if mark >= self._first else None

    def _drop(self) -> None:
        gone = len(self._slots) - MOST_CHANGES // 2
        self._first += gone
        del self._slots[:gone]
