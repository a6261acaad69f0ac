"""An oracle of a Memory's content as plain lists: slow, obvious, and independent of it.

Examples are numbers. The same number is the same picture, vector and source in every process, and
every name is a word found nowhere else, so that its traces can be searched for in any file. Every
third example is a box in its picture, with other proposals beside it. Numbers from ``UNKNOWNS`` on
are asked about and kept as unknowns; every second one without its picture.
"""

import hashlib
import io
from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from PIL import Image

from everlearn.images.embedders import Embedder, Vectors
from everlearn.memory.storage.rows import Example, PictureProposals, TaughtBox
from everlearn.regions.boxes import Box

WIDTH = 24
SIDE = 16
UNKNOWNS = 1 << 22

Taught = list[tuple[int, str]]
# Whether an unknown is ignored; None: it is not kept.
States = dict[int, bool | None]
# What counted, and the states of unknowns before an operation changed them.
Former = tuple[Taught, States]


def vector(number: int, network: int = 0) -> np.ndarray:
    """The vector of a picture by one of two networks."""
    seed = [number, network] if network else number
    return np.random.default_rng(seed).normal(size=WIDTH).astype(np.float32)


def word(number: int) -> str:
    """A name that occurs nowhere else."""
    return f"name {_unlike_any_other('name', number)}"


def source(number: int) -> str:
    return f"/photos/{number}-{_unlike_any_other('source', number)}.png"


def number_in(source: str) -> int:
    return int(source.rpartition("/")[2].partition("-")[0])


def region(number: int) -> TaughtBox | None:
    """The box of an example, if it is not about the whole picture."""
    if number % 3:
        return None
    left, top = (number * 7 % 11) / 32, (number * 5 % 13) / 32
    return TaughtBox(Box(left, top, left + 0.5, top + 0.5), found=False)


def proposals(number: int) -> PictureProposals | None:
    """The other proposals in the picture of a box."""
    if region(number) is None:
        return None
    return PictureProposals(np.array([[0.0, 0.0, 0.25, 0.25]]), vector(number, 2)[None])


def thumbnail(number: int) -> bytes:
    return f"thumbnail {_unlike_any_other('thumbnail', number)}".encode()


def has_picture(number: int) -> bool:
    """Whether the image file is stored."""
    return number < UNKNOWNS or number % 2 == 0


@lru_cache(maxsize=4096)
def picture(number: int) -> bytes:
    """A PNG of one colour, which encodes the number; any part of it does, too."""
    file = io.BytesIO()
    Image.new("RGB", (SIDE, SIDE), tuple(number.to_bytes(3, "little"))).save(file, "PNG")
    return file.getvalue()


def example(number: int, network: int = 0) -> Example:
    """The taught and stored content of a number."""
    image = picture(number)
    return Example(
        vector(number, network),
        source(number),
        hashlib.sha256(image).digest(),
        thumbnail(number),
        Network(network).name,
        image if has_picture(number) else b"",
        region(number),
        proposals(number),
    )


class Network(Embedder):
    """Reads the number from a picture."""

    n_features = WIDTH

    def __init__(self, network: int) -> None:
        self.network = network
        self.name = f"network {network}"

    def prepare(self, picture: Any) -> Vectors:
        middle = np.asarray(picture)[picture.height // 2, picture.width // 2]
        number = int.from_bytes(middle.tobytes(), "little")
        return np.array([number], dtype=np.float32)

    def run(self, batch: Vectors) -> Vectors:
        return np.stack([vector(int(number), self.network) for number in batch[:, 0]])


@dataclass
class PlainMemory:
    """What counts, a copy of it before every operation, and the unknowns.

    Attributes
    ----------
    unknowns : dict of int to bool
        Whether each unknown is ignored.
    unsure : set of int
        Unknowns that were there when something was erased: whether they resembled it is not
        recorded here.
    """

    taught: Taught = field(default_factory=list)
    before: list["Former | PlainMemory"] = field(default_factory=list)
    undone: list[Former] = field(default_factory=list)
    erased_names: set[str] = field(default_factory=set)
    erased_numbers: set[int] = field(default_factory=set)
    unknowns: dict[int, bool] = field(default_factory=dict)
    unsure: set[int] = field(default_factory=set)
    network: int = 0

    def names(self) -> list[str]:
        return sorted({name for _, name in self.taught})

    def counted(self) -> Counter[tuple[int, str]]:
        return Counter(self.taught)

    def copy(self) -> "PlainMemory":
        """An independent copy; teachings are never changed in place."""
        return PlainMemory(
            self.taught,
            list(self.before),
            list(self.undone),
            set(self.erased_names),
            set(self.erased_numbers),
            dict(self.unknowns),
            set(self.unsure),
            self.network,
        )

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
        last = self.before.pop()
        if isinstance(last, PlainMemory):
            # The journal from before a reembed, unchanged.
            last.erased_names, last.erased_numbers = self.erased_names, self.erased_numbers
            vars(self).update(vars(last.copy()))
            return
        self.undone.append(self._turned(last))

    def redo(self) -> None:
        self.before.append(self._turned(self.undone.pop()))

    def _turned(self, former: Former) -> Former:
        """Restore an earlier state; returns the current one."""
        now = self.taught, self._changed(former[1])
        self.taught = former[0]
        return now

    def erase(self, name: str) -> None:
        everything = [pair for state in self._states() for pair in state]
        counting = {number for number, own in self.taught if own == name}
        left = [pair for pair in self.taught if pair[1] != name]
        for number in counting:
            self.unknowns.pop(number, None)
        gone = {number for number, _ in everything} - {number for number, _ in left}
        # Unknowns that resembled the name most were removed as well.
        self.unsure |= set(self.unknowns)
        gone |= self._set_aside() - {number for number, _ in left}
        self.erased_numbers |= gone - set(self.unknowns)
        self.erased_names |= {name for _, name in everything} - {name for _, name in left}
        self.taught, self.before, self.undone = left, [], []

    def remember(self, number: int) -> None:
        self.unknowns[number] = False

    def name(self, members: list[int], name: str) -> None:
        before = self.taught
        self.teach_many([(number, name) for number in members])
        self.before[-1] = before, self._changed(dict.fromkeys(members))

    def ignore(self, members: list[int]) -> None:
        self._remember(dict.fromkeys(members, True))

    def drop(self, members: list[int]) -> None:
        self._remember(dict.fromkeys(members))

    def reembed(self, network: int) -> None:
        """Drop what has no picture, unknowns too; the last one can be undone."""
        kept = self.copy()
        for place, state in reversed(list(enumerate(kept.before))):
            if isinstance(state, PlainMemory):
                kept.before = kept.before[place + 1 :]
                break
        self.taught, self.before, self.undone = _pictured(self.taught), [kept], []
        self.unknowns, self.unsure = {}, set()
        self.network = network

    def restore(self, backup: "PlainMemory") -> None:
        kept = backup.copy()
        states = kept._states()
        kept.erased_names = self.erased_names - {n for state in states for _, n in state}
        kept.erased_numbers = self.erased_numbers - {i for state in states for i, _ in state}
        kept.erased_numbers -= set(kept.unknowns) | kept._set_aside()
        vars(self).update(vars(kept))

    def accept_unknowns(self, unknowns: dict[int, bool]) -> None:
        """Accept the actual state of uncertain unknowns."""
        for number in self.unsure - set(unknowns):
            self.unknowns.pop(number, None)
        self.unsure = set()

    def _states(self) -> list[Taught]:
        """Everything that counts, or counted and can count again."""
        states = [self.taught, *(taught for taught, _ in self.undone)]
        for state in self.before:
            states += state._states() if isinstance(state, PlainMemory) else [state[0]]
        return states

    def _set_aside(self) -> set[int]:
        """Unknowns that an operation dropped, named or restored, and may do so again."""
        found = {number for _, states in self.undone for number in states}
        for state in self.before:
            found |= state._set_aside() if isinstance(state, PlainMemory) else set(state[1])
        return found

    def _remember(self, states: States | None = None) -> None:
        """Begin an operation that gives unknowns these states."""
        self.before.append((self.taught, self._changed(states or {})))
        self.undone = []

    def _changed(self, states: States) -> States:
        """Give unknowns these states; returns the previous ones."""
        former = {number: self.unknowns.get(number) for number in states}
        for number, state in states.items():
            if state is None:
                self.unknowns.pop(number, None)
            else:
                self.unknowns[number] = state
        return former


def _pictured(state: Taught) -> Taught:
    return [pair for pair in state if has_picture(pair[0])]


def _unlike_any_other(kind: str, number: int) -> str:
    return hashlib.sha256(f"{kind} {number}".encode()).hexdigest()[:16]
