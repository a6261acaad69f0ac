"""What a Memory should hold, as plain lists: slow, obvious, and independent of it.

Examples are numbers. The same number is the same vector and source in every process, and every name
is a word found nowhere else, so that a trace of it in any file can be searched for.
"""

import hashlib
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

WIDTH = 24

Taught = list[tuple[int, str]]


def vector(number: int) -> np.ndarray:
    return np.random.default_rng(number).normal(size=WIDTH).astype(np.float32)


def word(number: int) -> str:
    """A name that occurs nowhere else."""
    return f"name {hashlib.sha256(b'name %d' % number).hexdigest()[:16]}"


def source(number: int) -> str:
    return f"/photos/{hashlib.sha256(b'source %d' % number).hexdigest()[:16]}.png"


@dataclass
class PlainMemory:
    """What counts, and a copy of all of it before every operation."""

    taught: Taught = field(default_factory=list)
    before: list[Taught] = field(default_factory=list)
    undone: list[Taught] = field(default_factory=list)
    erased_names: set[str] = field(default_factory=set)
    erased_numbers: set[int] = field(default_factory=set)

    def names(self) -> list[str]:
        return sorted({name for _, name in self.taught})

    def counted(self) -> Counter[tuple[int, str]]:
        return Counter(self.taught)

    def copy(self) -> "PlainMemory":
        """Independent of this one; what was taught is never changed in place."""
        names, numbers = set(self.erased_names), set(self.erased_numbers)
        return PlainMemory(self.taught, list(self.before), list(self.undone), names, numbers)

    def teach_many(self, pairs: Taught) -> None:
        self._remember()
        self.taught = self.taught + [pair for pair in pairs if pair not in self.taught]

    def forget(self, name: str) -> None:
        self._remember()
        self.taught = [pair for pair in self.taught if pair[1] != name]

    def rename(self, old: str, new: str) -> None:
        self._remember()
        self.taught = [(number, new if name == old else name) for number, name in self.taught]

    def correct(self, number: int, name: str) -> None:
        self._remember()
        self.taught = [pair for pair in self.taught if pair[0] != number] + [(number, name)]

    def undo(self) -> None:
        self.undone.append(self.taught)
        self.taught = self.before.pop()

    def redo(self) -> None:
        self.before.append(self.taught)
        self.taught = self.undone.pop()

    def erase(self, name: str) -> None:
        everything = [pair for state in (self.taught, *self.before, *self.undone) for pair in state]
        left = [pair for pair in self.taught if pair[1] != name]
        self.erased_numbers |= {number for number, _ in everything} - {n for n, _ in left}
        self.erased_names |= {name for _, name in everything} - {name for _, name in left}
        self.taught, self.before, self.undone = left, [], []

    def _remember(self) -> None:
        self.before.append(self.taught)
        self.undone = []
