"""Which classes changed since a cache last looked.

A cache of class statistics takes a *mark*, and later asks which slots changed after it: so it mends
a few rows instead of being made anew. Nothing is noted before the first mark is taken.
"""

from collections.abc import Iterable

# So many changes are remembered; whoever looks less often makes everything anew.
MOST = 65536


class Changes:
    """Slots in the order in which they changed."""

    def __init__(self) -> None:
        self._slots: list[int] = []
        self._first = 0
        self._noted = False

    def mark(self) -> int:
        """A name for now."""
        self._noted = True
        return self._first + len(self._slots)

    def note_one(self, slot: int) -> None:
        if self._noted:
            self._slots.append(slot)
            if len(self._slots) > MOST:
                self._drop()

    def note(self, slots: Iterable[int]) -> None:
        if self._noted:
            self._slots.extend(slots)
            if len(self._slots) > MOST:
                self._drop()

    def note_all(self) -> None:
        """Any slot may have changed: marks of before are of no use."""
        self._first += len(self._slots) + 1
        self._slots = []

    def since(self, mark: int) -> set[int] | None:
        """The slots that changed after a mark; ``None`` where that is not known any more."""
        return set(self._slots[mark - self._first :]) if mark >= self._first else None

    def _drop(self) -> None:
        gone = len(self._slots) - MOST // 2
        self._first += gone
        del self._slots[:gone]
