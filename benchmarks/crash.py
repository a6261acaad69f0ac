"""Kill a process in the middle of every kind of change, again and again; count what is lost.

    python -m benchmarks.crash [ROUNDS] [SEED]

Each round forks a process that opens the Memory and carries out a plan of changes, the last of them
of the kind this round is about, telling through a pipe what it begins, what it was acknowledged and
what it has finished. A timer of the kernel kills it (SIGKILL) at a random moment of that last
change: inside a transaction, while a snapshot is written, while pages are rewritten. Then the
folder is compared with a plain list of what it should hold: as before the change or after it, and
for many teachings every acknowledged one. Everything is verified (all digests; the model against a
replay, bit for bit), and what was erased is searched for in every byte of every file once the
folder has been opened to teach.
"""

import ctypes
import json
import os
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.plain_memory import PlainMemory, source, vector, word
from everlearn import Memory, NearestClassMean, RecursiveRLSC
from everlearn.errors import NotAMemory
from everlearn.memory import keeping as memory_module
from everlearn.memory.backup import restore

ROUNDS_PER_FOLDER = 40
# Snapshots often, so that many kills fall into the writing of one.
SNAPSHOT_EVERY = 256
MANY = 120

CLASSIFIERS = (RecursiveRLSC(regularization=0.3, recoding=0.5), NearestClassMean())


@dataclass
class Change:
    """One step of a plan: its kind and what it is about."""

    kind: str
    values: list[Any] = field(default_factory=list)


@dataclass
class Tally:
    """What was found over all rounds."""

    rounds: int = 0
    killed_inside: Counter[str] = field(default_factory=Counter)
    killed_between: int = 0
    acknowledged: int = 0
    lost: int = 0
    counted_twice: int = 0
    models_that_differ: int = 0
    not_verified: int = 0
    traces: int = 0
    wrong: list[str] = field(default_factory=list)


class Folder:
    """A Memory under attack, and what it should hold."""

    def __init__(self, place: Path, rng: np.random.Generator) -> None:
        self.place = place
        self.path = place / "memory"
        self.rng = rng
        self.plain = PlainMemory()
        self.backup: tuple[str, PlainMemory] | None = None
        self.n_backups = 0
        self.n_examples = 0
        self.n_names = 0
        self.n_others = 0

    # Plans.

    def plan(self, kind: str) -> list[tuple[Change, PlainMemory]]:
        """Some changes, the last of this kind, each with what should be there after it."""
        expected = self.plain.copy()
        steps: list[tuple[Change, PlainMemory]] = []

        def add(change: Change) -> None:
            apply_plain(change, expected, self.backup)
            steps.append((change, expected.copy()))

        while len(expected.names()) < 3:
            add(self._many(expected, 60))
        for _ in range(int(self.rng.integers(0, 3))):
            add(self._many(expected, int(self.rng.integers(1, 6))))
        if kind == "undo" and not expected.before:
            add(self._many(expected, 3))
        if kind == "redo":
            add(self._many(expected, 3))
            add(Change("undo"))
        if kind == "restore" and self.backup is None:
            kind = "backup"
        add(self._change(kind, expected))
        return steps

    def _change(self, kind: str, expected: PlainMemory) -> Change:
        names = expected.names()
        name = names[int(self.rng.integers(len(names)))]
        if kind == "teach":
            return Change("teach", [self._example(), self._name(expected)])
        if kind == "teach many":
            return self._many(expected, MANY)
        if kind in ("forget", "erase"):
            return Change(kind, [name])
        if kind == "rename":
            return Change("rename", [name, self._new_name()])
        if kind == "rename into":
            other = next(other for other in names if other != name)
            return Change("rename", [name, other])
        if kind == "correct":
            number = expected.taught[int(self.rng.integers(len(expected.taught)))][0]
            right = [n for n in names if (number, n) not in expected.taught]
            return Change("correct", [number, right[0] if right else self._new_name()])
        if kind == "merge":
            return Change("merge", self._other())
        if kind == "use":
            return Change("use", [int(self.rng.integers(len(CLASSIFIERS)))])
        if kind == "backup":
            self.n_backups += 1
            return Change("backup", [f"backup {self.n_backups}"])
        if kind == "restore":
            assert self.backup is not None
            return Change("restore", [self.backup[0]])
        return Change(kind)

    def _example(self) -> int:
        self.n_examples += 1
        return self.n_examples

    def _new_name(self) -> str:
        self.n_names += 1
        return word(self.n_names)

    def _name(self, expected: PlainMemory) -> str:
        names = expected.names()
        if not names or (len(names) < 8 and self.rng.random() < 0.3):
            return self._new_name()
        return names[int(self.rng.integers(len(names)))]

    def _many(self, expected: PlainMemory, count: int) -> Change:
        names = [self._name(expected) for _ in range(5)]
        pairs = [[self._example(), names[i % len(names)]] for i in range(count)]
        return Change("teach many", pairs)

    def _other(self) -> list[Any]:
        """Another Memory to merge, and what is in it."""
        self.n_others += 1
        path = self.place / f"other {self.n_others}"
        pairs = [[self._example(), self._new_name()] for _ in range(MANY)]
        with Memory(path) as other:
            other.teach_many((vector(number), name) for number, name in pairs)
        return [str(path), pairs]


def apply_plain(change: Change, plain: PlainMemory, backup: tuple[str, PlainMemory] | None) -> None:
    """What a change should do."""
    kind, values = change.kind, change.values
    if kind == "teach":
        plain.teach_many([(values[0], values[1])])
    elif kind == "teach many":
        plain.teach_many([(number, name) for number, name in values])
    elif kind == "merge":
        plain.teach_many([(number, name) for number, name in values[1]])
    elif kind == "restore":
        assert backup is not None
        kept = backup[1].copy()
        plain.taught, plain.before, plain.undone = kept.taught, kept.before, kept.undone
        plain.erased_names -= {n for s in (plain.taught, *plain.before) for _, n in s}
        plain.erased_numbers -= {i for s in (plain.taught, *plain.before) for i, _ in s}
    elif kind not in ("use", "backup"):
        getattr(plain, kind)(*values)


def apply(change: Change, memory: Memory, place: Path, tell: Callable[[str], None]) -> None:
    """The same on the Memory."""
    kind, values = change.kind, change.values
    if kind == "teach":
        memory.teach(vector(values[0]), values[1], source=source(values[0]))
    elif kind == "teach many":
        acknowledged = iter(values)
        memory.teach_many(
            ((vector(number), name) for number, name in values),
            acknowledge=lambda _: tell(f"ack {next(acknowledged)[0]}"),
        )
    elif kind in ("forget", "erase"):
        memory.forget(name=values[0], erase=kind == "erase")
    elif kind == "correct":
        memory.correct(vector(values[0]), values[1])
    elif kind == "merge":
        memory.merge(values[0])
    elif kind == "use":
        memory.use(classifier=CLASSIFIERS[values[0]])
        memory.classifier  # noqa: B018  (follows the log to its end)
    elif kind == "backup":
        memory.backup(place / values[0])
    else:
        getattr(memory, kind)(*values)


class _Event(ctypes.Structure):
    """What a timer of the kernel does: struct sigevent."""

    _fields_ = (
        ("value", ctypes.c_void_p),
        ("signal", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("rest", ctypes.c_char * 48),
    )


def die_in(seconds: float) -> None:
    """Have the kernel send this process SIGKILL, whoever else wants the processor by then."""
    library = ctypes.CDLL(None, use_errno=True)
    timer, event = ctypes.c_void_p(), _Event(None, signal.SIGKILL, 0)
    nanoseconds = max(1, int(1e9 * seconds))
    moment = (ctypes.c_long * 4)(0, 0, nanoseconds // 10**9, nanoseconds % 10**9)
    library.timer_create(time.CLOCK_MONOTONIC, ctypes.byref(event), ctypes.byref(timer))
    library.timer_settime(timer, 0, moment, None)


def live(folder: Folder, steps: list[Change], pipe: int, seconds: float) -> None:
    """Carry out a plan in a process of its own, which dies so long after its last step began."""
    memory_module.SNAPSHOT_EVERY = SNAPSHOT_EVERY

    def tell(line: str) -> None:
        os.write(pipe, f"{line}\n".encode())

    memory = Memory(folder.path)
    for index, change in enumerate(steps):
        tell(f"begin {index}")
        if index == len(steps) - 1:
            die_in(seconds)
        if change.kind == "restore":
            memory.close()
            restore(folder.place / change.values[0], folder.path)
            memory = Memory(folder.path)
        else:
            apply(change, memory, folder.place, tell)
        tell(f"end {index}")
    time.sleep(seconds)


def one_life(folder: Folder, steps: list[Change], longest: float) -> list[str]:
    """Start a process that is killed in its last step; what it told."""
    reading, writing = os.pipe()
    seconds = float(folder.rng.uniform(0.0, longest))
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            live(folder, steps, writing, seconds)
        except BaseException as error:
            os.write(writing, f"failed {type(error).__name__} {error}\n".encode())
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    os.close(writing)
    told = b""
    while part := os.read(reading, 1 << 16):
        told += part
    os.close(reading)
    os.waitpid(child, 0)
    return told.decode().splitlines()


def check(
    folder: Folder, steps: list[tuple[Change, PlainMemory]], lines: list[str], tally: Tally
) -> None:
    """Compare the folder with what it may hold; the plain list becomes what it does hold."""
    done = sum(line.startswith("end ") for line in lines)
    tally.acknowledged += sum(line.startswith("ack ") for line in lines)
    tally.wrong += [line for line in lines if line.startswith("failed")]
    before = steps[done - 1][1] if done else folder.plain
    after = steps[done][1] if done < len(steps) else None
    held = _held(folder, tally)
    if held is None:
        tally.lost += len(before.taught)
        folder.plain = PlainMemory()
        return
    tally.counted_twice += sum(count - 1 for count in held.values() if count > 1)
    if after is not None and held == after.counted():
        folder.plain = after
    elif held == before.counted():
        folder.plain = before
    elif after is not None and steps[done][0].kind in ("teach many", "merge"):
        folder.plain = _some_taught(before, steps[done][0], held, tally)
    else:
        tally.lost += 1
        tally.wrong.append(f"after {steps[min(done, len(steps) - 1)][0].kind}: neither old nor new")
        folder.plain = PlainMemory(sorted(held.elements()))
    tally.lost += len(_acknowledged_last(lines) - {number for number, _ in held})
    for change, expected in steps:
        # A backup has its name only when it is complete.
        if change.kind == "backup" and (folder.place / change.values[0]).exists():
            folder.backup = change.values[0], expected.copy()
            with Memory(folder.place / change.values[0], read_only=True) as backup:
                tally.not_verified += not backup.verify().ok
                tally.lost += _counted(backup) != expected.counted()


def _acknowledged_last(lines: list[str]) -> set[int]:
    """What was acknowledged of the step that was going on."""
    acknowledged: set[int] = set()
    for line in lines:
        if line.startswith("ack "):
            acknowledged.add(int(line.split()[1]))
        else:
            acknowledged.clear()
    return acknowledged


def _some_taught(
    before: PlainMemory, change: Change, held: Counter[tuple[int, str]], tally: Tally
) -> PlainMemory:
    """Many are taught in several transactions: some of them, from the first on, may be there."""
    pairs = [
        tuple(pair) for pair in (change.values[1] if change.kind == "merge" else change.values)
    ]
    some = before.copy()
    some.teach_many([pair for pair in pairs if pair in held])  # type: ignore[misc]
    if some.counted() != held:
        tally.lost += 1
        tally.wrong.append(f"{change.kind}: neither old nor a part of the new")
    return some


def _held(folder: Folder, tally: Tally) -> Counter[tuple[int, str]] | None:
    """What the folder holds, after looking at all of it."""
    try:
        # Read only, so that the next process finds the folder as the kill left it.
        with Memory(folder.path, read_only=True) as memory:
            found = memory.verify()
            tally.not_verified += not found.ok
            tally.wrong += found.problems
            held = _counted(memory)
            tally.models_that_differ += any("snapshot" in problem for problem in found.problems)
    except NotAMemory:
        return None
    return held


def _counted(memory: Memory) -> Counter[tuple[int, str]]:
    store = memory._store
    rows = store.read(
        lambda: [(name, example.vector.tobytes()) for name, example in store.journal.examples()]
    )
    return Counter((_number_of(data), name) for name, data in rows)


_NUMBERS: dict[bytes, int] = {}


def _number_of(data: bytes) -> int:
    while data not in _NUMBERS:
        number = len(_NUMBERS) + 1
        _NUMBERS[vector(number).tobytes()] = number
        if number > 10_000_000:
            raise AssertionError("a vector that was never taught")
    return _NUMBERS[data]


def search(folder: Folder, tally: Tally) -> None:
    """Open the folder to teach, which finishes any erase; then look for what was erased."""
    Memory(folder.path).close()
    data = b"".join(path.read_bytes() for path in folder.path.iterdir())
    plain = folder.plain
    traces = [word.encode() for word in plain.erased_names if word.encode() in data]
    for number in plain.erased_numbers:
        traces += [t for t in (vector(number).tobytes(), source(number).encode()) if t in data]
    tally.traces += len(traces)
    if traces:
        tally.wrong.append(f"{len(traces)} traces, the first {traces[0]!r:.60}")


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
    "correct",
    "use",
    "backup",
    "restore",
)


SLOW = ("teach many", "merge", "erase", "use", "backup", "restore")


def survive(rounds: int, seed: int = 0) -> Tally:
    """Kill so many times, the kinds of change in turn."""
    tally = Tally()
    rng = np.random.default_rng(seed)
    longest: dict[str, float] = defaultdict(lambda: 0.004, dict.fromkeys(SLOW, 0.05))
    while tally.rounds < rounds:
        with tempfile.TemporaryDirectory() as place:
            folder = Folder(Path(place), rng)
            for _ in range(min(ROUNDS_PER_FOLDER, rounds - tally.rounds)):
                kind = min(KINDS, key=lambda kind: tally.killed_inside[kind])
                steps = folder.plan(kind)
                changes = [change for change, _ in steps]
                lines = one_life(folder, changes, longest[kind])
                tally.rounds += 1
                if f"end {len(steps) - 1}" not in lines:
                    tally.killed_inside[kind] += 1
                    longest[kind] *= 1.05
                else:
                    # Killed too late: next time sooner.
                    tally.killed_between += 1
                    longest[kind] *= 0.85
                check(folder, steps, lines, tally)
                if rng.random() < 0.3 or kind == "erase":
                    search(folder, tally)
    return tally


if __name__ == "__main__":
    arguments = [int(word) for word in sys.argv[1:]]
    print(json.dumps(vars(survive(*(arguments or [2000]))), indent=2))
