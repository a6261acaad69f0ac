"""Labels and their slots: append-only indices into the statistics.

Statistics are arrays indexed by slot; users work with labels. A label gets the next free slot when
it is first taught and keeps it for as long as it is known. To the user classes are sorted, so that
nothing visible depends on the order in which classes arrived.
"""

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush, nsmallest
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from everlearn.errors import DamagedModel, InvalidLabel, UnknownLabel

Label = int | str | bool
# From this many integers on, a lookup table is used.
MANY_LABELS = 10_000
WIDEST_TABLE = 2**16
# Up to this many new labels are inserted into the sorted ones; for more, all are sorted again.
FEW_LABELS = 64


class Labels:
    """A registry label ↔ slot with a sorted view.

    Labels are strings, integers or booleans, one type per registry; ``1.0`` and ``1`` are the same
    label. Slots are assigned in order of arrival and never move. A slot is reused only after its
    label was released, so a stream that teaches and forgets indefinitely stays bounded.
    """

    def __init__(self, labels: Iterable[Label | None] = ()) -> None:
        self._label_of: list[Label | None] = list(labels)
        self._slot_of: dict[Label, int] = {
            label: slot for slot, label in enumerate(self._label_of) if label is not None
        }
        # Released slots, a heap: the lowest is reused first.
        self._free = [slot for slot, label in enumerate(self._label_of) if label is None]
        self._sorted: tuple[NDArray[Any], NDArray[np.intp], NDArray[np.intp]] | None = None
        # Labels added since the last sort, while they are few.
        self._unsorted: list[Label] = []

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self.classes[:6].tolist()))
        return f"<{len(self)} labels: {shown}{', …' if len(self) > 6 else ''}>"

    def __len__(self) -> int:
        return len(self._slot_of)

    def __contains__(self, label: object) -> bool:
        return label in self._slot_of

    @classmethod
    def restored(cls, labels: object) -> "Labels":
        """A registry from the list in a file; ``None`` stands for a released slot."""
        if not isinstance(labels, list):
            raise DamagedModel("labels is not a list")
        known = [label for label in labels if label is not None]
        kinds = {type(label) for label in known}
        if not kinds <= {str, int, bool} or len(kinds) > 1 or len(set(known)) < len(known):
            raise DamagedModel("labels are not distinct strings or integers")
        if kinds == {str} and any(_plain(label) != label for label in known):
            raise DamagedModel("labels contains a value that no learner accepts")
        return cls(labels)

    def copy(self) -> "Labels":
        """An independent copy."""
        return Labels(self._label_of)

    @property
    def n_slots(self) -> int:
        """Number of slots assigned so far, including released ones."""
        return len(self._label_of)

    @property
    def by_slot(self) -> Sequence[Label | None]:
        """The label of every slot, ``None`` where it was released."""
        return self._label_of

    @property
    def classes(self) -> NDArray[Any]:
        """The known labels, sorted."""
        return self._view()[0]

    @property
    def order(self) -> NDArray[np.intp]:
        """The slot of each sorted class: ``by_slot[order[i]] == classes[i]``."""
        return self._view()[1]

    @property
    def rank(self) -> NDArray[np.intp]:
        """The position of each slot among the sorted classes, ``n_slots`` if released."""
        return self._view()[2]

    @property
    def has_gaps(self) -> bool:
        return bool(self._free)

    @property
    def released(self) -> Sequence[int]:
        """The slots without a label, in any order."""
        return self._free

    def find(self, label: object) -> int | None:
        """The slot of one label, or ``None`` if it is new; raises ``InvalidLabel``."""
        try:
            slot = self._slot_of.get(label)  # type: ignore[call-overload]
        except TypeError:
            slot = None
        if slot is not None and type(label) is type(self._label_of[slot]):
            return int(slot)
        return self._slot_of.get(self.read(label))

    def slot(self, label: object) -> int:
        """The slot of one known label."""
        slot = self.find(label)
        if slot is None:
            raise UnknownLabel(
                f"{label!r} was never taught; known labels: {_shortened(self.classes.tolist())}"
            )
        return slot

    def slots(self, labels: Iterable[object]) -> NDArray[np.intp]:
        """The slots of known labels."""
        return np.array([self.slot(label) for label in labels], dtype=np.intp)

    def read(self, label: object) -> Label:
        """One label as a plain Python value, known or new; raises ``InvalidLabel``."""
        return self._accept(_plain(label))

    def encode(self, y: ArrayLike) -> tuple[NDArray[np.intp], list[Label]]:
        """Slots of a column of labels, and the new labels, in order of arrival.

        Nothing is registered: new labels get the slots that :meth:`extend` will assign to them.
        """
        labels, inverse = _plain_labels(y)
        for label in labels[:1]:  # all are of one type
            self._accept(label)
        found = list(map(self._slot_of.get, labels))
        new: list[Label] = []
        if None in found:
            missing = [label for label, slot in zip(labels, found, strict=True) if slot is None]
            new = list(map(_plain, dict.fromkeys(missing)))
            given = self._slots_for(len(new))
            if len(missing) > len(new):  # a new label that occurs twice
                slot_of = dict(zip(new, given, strict=True))
                given = [slot_of[label] for label in missing]
            following = iter(given)
            found = [next(following) if slot is None else slot for slot in found]
        slots = np.array(found, dtype=np.intp)
        return slots if inverse is None else slots.take(inverse), new

    def extend(self, new: Iterable[Label]) -> None:
        """Register new labels in the slots announced by :meth:`encode`."""
        new = list(new)
        again = new[: len(self._free)]
        for label in again:
            slot = heappop(self._free)
            self._label_of[slot] = label
            self._slot_of[label] = slot
        rest, first = new[len(again) :], len(self._label_of)
        self._slot_of.update(zip(rest, range(first, first + len(rest)), strict=True))
        self._label_of.extend(rest)
        self._unsorted.extend(new)
        if len(self._unsorted) > FEW_LABELS:
            self._sorted = None

    def release(self, slots: Iterable[int]) -> None:
        """Release the labels of these slots."""
        for slot in slots:
            label = self._label_of[slot]
            if label is not None:
                del self._slot_of[label]
                self._label_of[slot] = None
                heappush(self._free, slot)
            self._sorted, self._unsorted = None, []

    def _slots_for(self, n_new: int) -> list[int]:
        """The slots that :meth:`extend` will assign to this many new labels."""
        again = nsmallest(n_new, self._free)
        first = len(self._label_of)
        return again + list(range(first, first + n_new - len(again)))

    def _accept(self, label: Label) -> Label:
        known = next(iter(self._slot_of), None)
        if known is not None:
            _require_same_kind(known, label)
        return label

    def _view(self) -> tuple[NDArray[Any], NDArray[np.intp], NDArray[np.intp]]:
        if self._sorted is None or self._unsorted:
            classes, order = self._sorted_labels()
            rank = np.full(len(self._label_of), len(self._label_of), dtype=np.intp)
            rank[order] = np.arange(len(order))
            self._sorted = classes, order, rank
            self._unsorted = []
        return self._sorted

    def _sorted_labels(self) -> tuple[NDArray[Any], NDArray[np.intp]]:
        """The known labels and their slots; a few new ones are merged into the sorted ones."""
        new = sorted(self._unsorted)
        if self._sorted is not None and self._sorted[0].dtype.kind in "iU":
            classes, order, _ = self._sorted
            more = _class_array(new)
            if more.dtype.kind == classes.dtype.kind:
                places = np.searchsorted(classes, more)
                wide = np.result_type(classes, more)
                grown = np.insert(classes.astype(wide, copy=False), places, more)
                return grown, np.insert(order, places, [self._slot_of[label] for label in new])
        known = sorted(self._slot_of)
        slots = np.fromiter(map(self._slot_of.__getitem__, known), np.intp, len(known))
        return _class_array(known), slots


def _class_array(known: list[Label]) -> NDArray[Any]:
    """Sorted labels as an array that represents each exactly."""
    if not known or type(known[0]) is not int:
        return np.array(known)
    # By default numpy converts integers on both sides of 2⁶³ to floats.
    low, high = int(known[0]), int(known[-1])
    for dtype in (np.int64, np.uint64):
        if np.iinfo(dtype).min <= low and high <= np.iinfo(dtype).max:
            return np.array(known, dtype=dtype)
    return np.array(known, dtype=object)


_KINDS = {str: "a string", int: "an integer", bool: "a boolean"}


def _require_same_kind(known: Label, label: Label) -> None:
    if type(known) is not type(label):
        raise InvalidLabel(
            f"label {label!r} is {_KINDS[type(label)]}, but other labels are "
            f"{_KINDS[type(known)]} such as {known!r}; use one type of label for one learner"
        )


def _plain(label: object) -> Label:
    """One label as a Python ``str``, ``int`` or ``bool``."""
    if getattr(label, "ndim", None) == 0 and hasattr(label, "item"):
        label = label.item()  # an array or a tensor that holds one value
    if isinstance(label, str):
        if label.endswith("\0"):
            raise InvalidLabel(f"{label!r} ends in a NUL, which numpy arrays drop; remove it")
        return str(label)
    if isinstance(label, (bool, np.bool_)):
        return bool(label)
    if isinstance(label, Integral):
        return int(label)
    if isinstance(label, Real) and float(label).is_integer():
        return int(float(label))
    if label is None or (isinstance(label, Real) and np.isnan(float(label))):
        raise InvalidLabel("a label is missing (None or NaN); label the example or remove it")
    raise InvalidLabel(
        f"Unknown label type: {label!r} is a {type(label).__name__}; "
        "labels must be strings or integers, because these learners classify; they do not predict "
        "quantities (regression)"
    )


def _plain_labels(y: ArrayLike) -> tuple[list[Label], NDArray[np.intp] | None]:
    """The labels in ``y`` as plain Python values, all of one type.

    For an array of numbers the distinct ones, in order of arrival, and the index of each entry in
    them; otherwise one for each entry, and ``None``. Strings are looked up faster than sorted.
    """
    values = y if isinstance(y, np.ndarray) else _as_column(y)
    if values.dtype.kind in "iubf":
        return _distinct(values)
    labels = values.tolist()
    kinds = set(map(type, labels))
    if kinds == {str} or kinds == {int}:
        return labels, None
    plain = [_plain(value) for value in labels]
    for label in plain:
        _require_same_kind(plain[0], label)
    return plain, None


def _distinct(values: NDArray[Any]) -> tuple[list[Label], NDArray[np.intp]]:
    """The distinct numbers in order of arrival, and the index of each entry in them."""
    if values.dtype.kind == "f" and not np.all(np.isfinite(values)):
        raise InvalidLabel("Input y contains NaN or infinity; every example needs a label")
    table = _by_table(values) if values.dtype.kind in "iu" else None
    if table is not None:
        return table
    unique, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    arrival = np.argsort(first)
    position = np.empty(len(arrival), dtype=np.intp)
    position[arrival] = np.arange(len(arrival))
    distinct = unique[arrival].tolist()
    # Integers and booleans of an array are plain already.
    plain = [_plain(label) for label in distinct] if values.dtype.kind == "f" else distinct
    return plain, position[inverse]


def _by_table(values: NDArray[Any]) -> tuple[list[Label], NDArray[np.intp]] | None:
    """The same for many integers in a narrow range, by table lookup instead of sorting."""
    if len(values) < MANY_LABELS:
        return None
    low, high = int(values.min()), int(values.max())
    if high - low >= min(len(values), WIDEST_TABLE) or high >= 2**62:
        return None
    offsets = values.astype(np.intp, copy=False)
    offsets = offsets - low if low else offsets
    n_present = np.count_nonzero(np.bincount(offsets))
    first = np.full(high - low + 1, len(values), dtype=np.intp)
    for start in range(0, len(values), MANY_LABELS):  # until each was found, which is soon
        part = offsets[start : start + MANY_LABELS]
        met = np.full(len(first), len(values), dtype=np.intp)
        met[part[::-1]] = np.arange(start + len(part) - 1, start - 1, -1)  # the last one wins
        first = np.minimum(first, met)
        if np.count_nonzero(first < len(values)) == n_present:
            break
    seen = np.flatnonzero(first < len(values))
    arrival = seen[np.argsort(first[seen])]
    position = np.empty(len(first), dtype=np.intp)
    position[arrival] = np.arange(len(arrival))
    return (arrival + low).tolist(), position.take(offsets)


def _as_column(y: ArrayLike) -> NDArray[Any]:
    """``y`` as an array that does not turn the number 1 into the string "1"."""
    if hasattr(y, "__array__"):
        return np.asarray(y)
    values = list(y)  # type: ignore[arg-type]
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


def _shortened(labels: Sequence[Label], most: int = 8) -> str:
    shown = ", ".join(repr(label) for label in labels[:most])
    return shown + (f" and {len(labels) - most} more" if len(labels) > most else "")
