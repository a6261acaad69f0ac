"""A Memory under attack: changes of every kind, applied to it and to plain lists alike."""

import contextlib
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from attacks.plain_memory import (
    UNKNOWNS,
    WIDTH,
    Network,
    PlainMemory,
    example,
    number_in,
    picture,
    region,
    source,
    vector,
    word,
)
from everlearn import Memory, NearestClassMean, RecursiveRLSC
from everlearn.memory.edits.unknowns import all_unknowns
from everlearn.memory.storage.backup import restore
from everlearn.memory.storage.log import counting_examples
from everlearn.memory.storage.rows import given_box

MANY = 120
CLASSIFIERS = (RecursiveRLSC(regularization=0.3, recoding=0.5), NearestClassMean())
# Accepting almost nothing keeps every picture among the unknowns.
ACCEPT = 1e-6

# Changes to a group of unknowns; its members are known when the change is made.
ABOUT_GROUPS = ("name", "ignore", "drop")
KINDS = (
    "teach",
    "teach many",
    "forget",
    "erase",
    "rename",
    "rename into",
    "undo",
    "redo",
    "merge",
    "sync",
    "relocate",
    "correct",
    "use",
    "backup",
    "restore",
    "remember",
    *ABOUT_GROUPS,
    "reembed",
)

Tell = Callable[[str], None]


@dataclass
class Change:
    """One step of a plan: its kind and its arguments."""

    kind: str
    values: list[Any] = field(default_factory=list)


@dataclass(frozen=True)
class Held:
    """What a Memory holds."""

    taught: Counter[tuple[int, str]]
    unknowns: dict[int, bool]
    network: int

    def is_what(self, plain: PlainMemory) -> bool:
        """Whether that equals the plain lists."""
        sure = (self.unknowns, plain.unknowns)
        mine, theirs = ({k: v for k, v in s.items() if k not in plain.unsure} for s in sure)
        same_network = self.network == plain.network or not self.taught
        return self.taught == plain.counted() and mine == theirs and same_network

    def differs_from(self, plain: PlainMemory) -> str:
        """In what."""
        more, fewer = self.taught - plain.counted(), plain.counted() - self.taught
        return (
            f"{more.total()} taught too many, {fewer.total()} too few; unknown {self.unknowns}, "
            f"expected {plain.unknowns}; network {self.network}, expected {plain.network}"
        )


class Folder:
    """A Memory, and its expected content."""

    def __init__(self, place: Path, rng: np.random.Generator) -> None:
        self.place = place
        self.path = place / "memory"
        self.rng = rng
        self.plain = PlainMemory()
        self.backup: tuple[str, PlainMemory] | None = None
        self.receipt: Path | None = None
        self._used: Counter[str] = Counter()

    def plan(self, kind: str) -> list[tuple[Change, PlainMemory]]:
        """Some changes, the last of this kind, each with the expected content after it."""
        expected = self.plain.copy()
        steps: list[tuple[Change, PlainMemory]] = []
        backup = self.backup

        def add(change: Change) -> None:
            nonlocal backup
            apply_plain(change, expected, backup)
            steps.append((change, expected.copy()))
            if change.kind == "backup":
                backup = change.values[0], expected.copy()

        while len(expected.names()) < 3:
            add(self.many(expected, 60))
        for _ in range(int(self.rng.integers(0, 3))):
            add(self.many(expected, int(self.rng.integers(1, 6))))
        if kind == "undo" and not expected.before:
            add(self.many(expected, 3))
        if kind == "redo":
            add(self.many(expected, 3))
            add(Change("undo"))
        if kind == "restore" and backup is None:
            add(self.change("backup", expected))
        if kind in ABOUT_GROUPS and not expected.unknowns:
            for _ in range(4):
                add(self.change("remember", expected))
        if kind == "erase" and (known := _to_be_taught(expected)) is not None:
            # An erase finds its pictures among the unknowns as well.
            add(Change("teach", [known, expected.names()[0]]))
            add(Change("erase", [expected.names()[0], self._new("receipt")]))
        elif kind == "restore":
            assert backup is not None
            add(Change("restore", [backup[0]]))
        else:
            add(self.change(kind, expected))
        return steps

    def change(self, kind: str, expected: PlainMemory) -> Change:
        """A change of some kind to the current content."""
        names = expected.names()
        name = names[int(self.rng.integers(len(names)))]
        if kind == "teach":
            return Change("teach", [self._number(), self._name(expected)])
        if kind == "teach many":
            return self.many(expected, MANY)
        if kind == "forget":
            return Change(kind, [name])
        if kind == "erase":
            return Change(kind, [name, self._new("receipt")])
        if kind == "rename":
            return Change("rename", [name, self._new_name()])
        if kind == "rename into":
            other = next(other for other in names if other != name)
            return Change("rename", [name, other])
        if kind == "correct":
            number = expected.taught[int(self.rng.integers(len(expected.taught)))][0]
            right = [n for n in names if (number, n) not in expected.taught]
            return Change("correct", [number, right[0] if right else self._new_name()])
        if kind in ("merge", "sync"):
            return Change(kind, self._other(expected.network))
        if kind == "relocate":
            pictured = sorted({n for n, _ in expected.taught if n < UNKNOWNS})
            return Change(kind, [self._new("moved"), pictured])
        if kind == "use":
            return Change("use", [int(self.rng.integers(len(CLASSIFIERS)))])
        if kind == "backup":
            return Change("backup", [self._new("backup")])
        if kind == "remember":
            self._used["unknown"] += 1
            return Change("remember", [UNKNOWNS + self._used["unknown"]])
        if kind in ABOUT_GROUPS:
            which = int(self.rng.integers(1000))
            return Change(kind, [which, *([self._name(expected)] if kind == "name" else [])])
        if kind == "reembed":
            return Change("reembed", [1 - expected.network])
        return Change(kind)

    def many(self, expected: PlainMemory, count: int) -> Change:
        """Many examples to be taught."""
        names = [self._name(expected) for _ in range(5)]
        return Change("teach many", [[self._number(), names[i % 5]] for i in range(count)])

    def _number(self) -> int:
        self._used["example"] += 1
        return self._used["example"]

    def _new(self, what: str) -> str:
        self._used[what] += 1
        return f"{what} {self._used[what]}"

    def _new_name(self) -> str:
        self._used["name"] += 1
        return word(self._used["name"])

    def _name(self, expected: PlainMemory) -> str:
        names = expected.names()
        if not names or (len(names) < 8 and self.rng.random() < 0.3):
            return self._new_name()
        return names[int(self.rng.integers(len(names)))]

    def _other(self, network: int) -> list[Any]:
        """Another Memory to merge, and its content."""
        path = self.place / self._new("other")
        pairs = [(self._number(), self._new_name()) for _ in range(MANY)]
        with Memory(path) as other:
            other.teach_many((example(number, network), name) for number, name in pairs)
        return [str(path), pairs]


def carried_out(change: Change, memory: Memory, folder: Folder, tell: Tell) -> Memory:
    """Make a change; returns the Memory to continue with, since a restored one is reopened."""
    if change.kind != "restore":
        apply(change, memory, folder.place, tell)
        return memory
    memory.close()
    restore(folder.place / change.values[0], folder.path)
    return Memory(folder.path, accept=ACCEPT)


def every_kind_once(rng: np.random.Generator) -> None:
    """Import every module and compile every function before processes are forked."""
    with tempfile.TemporaryDirectory() as place:
        folder = Folder(Path(place), rng)
        memory = Memory(folder.path, accept=ACCEPT)
        for kind in KINDS:
            for change, _ in folder.plan(kind):
                memory = carried_out(change, memory, folder, lambda _: None)
                apply_plain(change, folder.plain, folder.backup)
                if change.kind == "backup":
                    folder.backup = change.values[0], folder.plain.copy()
        for classifier in (*CLASSIFIERS, CLASSIFIERS[0]):
            memory.use(classifier=classifier)
            memory.ask(np.ones(WIDTH))
        memory.verify()
        memory.close()


def apply_plain(change: Change, plain: PlainMemory, backup: tuple[str, PlainMemory] | None) -> None:
    """The expected effect of a change; the members of a group of unknowns must be known."""
    kind, values = change.kind, change.values
    if kind == "teach":
        plain.teach_many([(values[0], values[1])])
    elif kind == "teach many":
        plain.teach_many([(number, name) for number, name in values])
    elif kind in ("merge", "sync"):
        plain.teach_many([(number, name) for number, name in values[1]])
    elif kind == "restore":
        assert backup is not None
        plain.restore(backup[1])
    elif kind == "erase":
        plain.erase(values[0])
    elif kind in ABOUT_GROUPS:
        members = values[-1]
        if isinstance(members, list):
            getattr(plain, kind)(members, *values[1:-1])
    elif kind not in ("use", "backup", "relocate"):
        getattr(plain, kind)(*values)


def apply(change: Change, memory: Memory, place: Path, tell: Tell) -> None:
    """Apply the change to the Memory; reports acknowledgements and the members of groups."""
    kind, values = change.kind, change.values
    network = network_of(memory)
    if kind == "teach":
        memory.teach(example(values[0], network), values[1])
    elif kind == "teach many":
        acknowledged = iter(values)
        memory.teach_many(
            ((example(number, network), name) for number, name in values),
            acknowledge=lambda _: tell(f"ack {next(acknowledged)[0]}"),
        )
    elif kind == "forget":
        memory.forget(name=values[0])
    elif kind == "erase":
        receipt = memory.forget(name=values[0], erase=True).receipt
        assert receipt is not None
        receipt.save(place / values[1])
    elif kind == "correct":
        memory.correct(example(values[0], network), values[1])
    elif kind == "merge":
        memory.merge(values[0])
    elif kind == "sync":
        _synced(memory, values[0])
    elif kind == "relocate":
        _relocated(memory, place / values[0], values[1])
    elif kind == "use":
        memory.use(classifier=CLASSIFIERS[values[0]])
        memory.classifier  # noqa: B018  (follows the log to its end)
    elif kind == "backup":
        memory.backup(place / values[0])
    elif kind == "remember":
        answers = memory.ask(example(values[0], network), remember=True)
        if answers.ignored or not answers.unknown:  # accept is a lower bound
            tell("quiet")
    elif kind in ABOUT_GROUPS:
        _about_a_group(change, memory, tell)
    elif kind == "reembed":
        memory.reembed(Network(values[0]), drop=True)
    else:
        getattr(memory, kind)(*values)


def _synced(memory: Memory, other: str) -> None:
    """Synchronise with another Memory, which then has the same content."""
    memory.sync(other)
    with Memory(other, read_only=True) as there:
        if held_by(there).taught != held_by(memory).taught:
            raise AssertionError("the two Memories differ after they were synchronised")


def _relocated(memory: Memory, place: Path, numbers: list[int]) -> None:
    """Move every taught picture to another folder."""
    place.mkdir()
    for number in numbers:
        (place / Path(source(number)).name).write_bytes(picture(number))
    for old in {str(Path(teaching.source).parent) for teaching in memory.teachings()}:
        missing = memory.relocate(old, place).missing
        if {number_in(path) for path in missing} & set(numbers):
            raise AssertionError(f"{missing[0]} was moved and is missing")


def _about_a_group(change: Change, memory: Memory, tell: Tell) -> None:
    groups = memory.unknowns()
    if not groups:
        tell("quiet")
        return
    group = groups[change.values[0] % len(groups)]
    everyone = {s.id: number_in(s.example.source) for s in all_unknowns(memory._opened.journal)}
    members = [everyone[id] for id in group.examples]
    tell(f"members {' '.join(map(str, members))}")
    getattr(memory, f"{change.kind}_unknowns")(group.id, *change.values[1:])
    change.values.append(members)


def network_of(memory: Memory) -> int:
    return int((memory._opened.journal.fact("embedder") or "network 0").split()[-1])


def held_by(memory: Memory) -> Held:
    """What counts and which unknowns are kept, every vector compared with its number."""
    store = memory._opened

    def look() -> Held:
        network = network_of(memory)
        taught: Counter[tuple[int, str]] = Counter()
        for name, kept in counting_examples(store.journal):
            number = number_in(kept.source)
            if kept.vector.tobytes() != vector(number, network).tobytes():
                raise AssertionError(f"the vector of {number} is another")
            if given_box(kept.region) != given_box(region(number)):
                raise AssertionError(f"the box of {number} is {given_box(kept.region)}")
            taught[number, name] += 1
        unknowns = {
            number_in(s.example.source): bool(s.ignored) for s in all_unknowns(store.journal)
        }
        return Held(taught, unknowns, network)

    return store.read(look)


def _to_be_taught(plain: PlainMemory) -> int | None:
    """An unknown that nothing counts for."""
    counting = {number for number, _ in plain.taught}
    with contextlib.suppress(StopIteration):
        return next(number for number in plain.unknowns if number not in counting)
    return None
