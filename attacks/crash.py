"""Kills a process in the middle of every kind of change, repeatedly, and counts losses.

    python -m attacks.crash [KILLS] [SEED]

Each round forks a process that opens the Memory and makes a series of changes, the last of them of
the kind under test, reporting through a pipe what it begins, what was acknowledged and what is
done. A kernel timer kills it (SIGKILL) at a random moment of that last change: inside a
transaction, while a snapshot is written, while pages are rewritten. Then the folder is compared
with plain lists of its expected content: as before the change or after it, and for many teachings
every acknowledged one. Everything is verified (all digests; the model against a replay, bit for
bit; the receipt of an erase), and erased content is searched for in every byte of every file once
the folder has been opened to teach.

Only kills inside a change are counted as kills, each under its kind.
"""

import ctypes
import json
import os
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from attacks.attacked_folder import (
    ABOUT_GROUPS,
    ACCEPT,
    KINDS,
    Change,
    Folder,
    Held,
    apply_plain,
    carried_out,
    every_kind_once,
    held_by,
)
from attacks.plain_memory import PlainMemory, Taught, picture, source, thumbnail, vector
from attacks.traces import Trace, found, of_bytes, of_text, of_vector
from everlearn import Memory
from everlearn.errors import NotAMemory
from everlearn.memory.edits import editor

ROUNDS_PER_FOLDER = 40
# Frequent snapshots, so that many kills interrupt the writing of one.
SNAPSHOT_EVERY = 256
SLOW = ("teach many", "merge", "sync", "relocate", "erase", "use", "backup", "restore", "reembed")


@dataclass
class Tally:
    """Totals over all rounds."""

    rounds: int = 0
    kills: int = 0
    killed_inside: Counter[str] = field(default_factory=Counter)
    killed_between: int = 0
    acknowledged: int = 0
    lost: int = 0
    counted_twice: int = 0
    models_that_differ: int = 0
    not_verified: int = 0
    receipts_checked: int = 0
    traces: int = 0
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.kills:,} kills inside {len(self.killed_inside)} kinds of change: "
            f"{self.lost} lost, {self.counted_twice} counted twice, {self.traces} traces, "
            f"{self.not_verified} not verified, {len(self.wrong)} wrong"
        )


class _Event(ctypes.Structure):
    """The action of a kernel timer: struct sigevent."""

    _fields_ = (
        ("value", ctypes.c_void_p),
        ("signal", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("rest", ctypes.c_char * 48),
    )


def die_in(seconds: float) -> None:
    """Have the kernel send SIGKILL to this process, independent of the scheduler."""
    library = ctypes.CDLL(None, use_errno=True)
    timer, event = ctypes.c_void_p(), _Event(None, signal.SIGKILL, 0)
    nanoseconds = max(1, int(1e9 * seconds))
    moment = (ctypes.c_long * 4)(0, 0, nanoseconds // 10**9, nanoseconds % 10**9)
    library.timer_create(time.CLOCK_MONOTONIC, ctypes.byref(event), ctypes.byref(timer))
    library.timer_settime(timer, 0, moment, None)


def live(folder: Folder, steps: list[Change], pipe: int, seconds: float) -> None:
    """Run a plan in a separate process, which dies this long after its last step began."""
    editor.SNAPSHOT_EVERY = SNAPSHOT_EVERY

    def tell(line: str) -> None:
        os.write(pipe, f"{line}\n".encode())

    memory = Memory(folder.path, accept=ACCEPT)
    for index, change in enumerate(steps):
        tell(f"begin {index}")
        if index == len(steps) - 1:
            die_in(seconds)
        memory = carried_out(change, memory, folder, tell)
        tell(f"end {index}")
    time.sleep(seconds)


def one_life(folder: Folder, steps: list[Change], longest: float) -> list[str]:
    """Start a process that is killed in its last step; returns its reports."""
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
    """Compare the folder with its possible contents, and update the plain lists."""
    done = sum(line.startswith("end ") for line in lines)
    tally.acknowledged += sum(line.startswith("ack ") for line in lines)
    tally.wrong += [line for line in lines if line.startswith("failed")]
    steps = _as_told(folder, [change for change, _ in steps], lines)
    before = steps[done - 1][1] if done else folder.plain
    after = steps[done][1] if done < len(steps) else None
    held = _held(folder, tally)
    if held is None:
        tally.lost += len(before.taught)
        folder.plain = PlainMemory()
        return
    tally.counted_twice += sum(count - 1 for count in held.taught.values() if count > 1)
    change = steps[min(done, len(steps) - 1)][0]
    if after is not None and held.is_what(after):
        folder.plain = after
    elif held.is_what(before):
        folder.plain = before
    elif after is not None and change.kind in ("teach many", "merge", "sync"):
        folder.plain = _some_taught(before, change, held, tally)
    else:
        tally.lost += 1
        tally.wrong.append(f"after {change.kind}: neither old nor new")
        folder.plain = PlainMemory(sorted(held.taught.elements()), unknowns=held.unknowns)
    folder.plain.accept_unknowns(held.unknowns)
    tally.lost += len(_acknowledged_last(lines) - {number for number, _ in held.taught})
    for change, expected in steps:
        _look_at_what_was_written(folder, change, expected, tally)


def _as_told(
    folder: Folder, changes: list[Change], lines: list[str]
) -> list[tuple[Change, PlainMemory]]:
    """The expected content after each step, from the reports during it.

    The members of a group, and whether a picture was kept at all, are known only then.
    """
    expected, backup = folder.plain.copy(), folder.backup
    told: dict[int, list[str]] = defaultdict(list)
    index = 0
    for line in lines:
        index = int(line.split()[1]) if line.startswith("begin ") else index
        told[index].append(line)
    steps = []
    for index, change in enumerate(changes):
        made = change
        for line in told[index]:
            if change.kind in ABOUT_GROUPS and line.startswith("members "):
                members = [int(number) for number in line.split()[1:]]
                made = Change(change.kind, [*change.values, members])
        if "quiet" not in told[index]:
            apply_plain(made, expected, backup)
        steps.append((change, expected.copy()))
        if change.kind == "backup":
            backup = change.values[0], expected.copy()
    return steps


def _look_at_what_was_written(
    folder: Folder, change: Change, expected: PlainMemory, tally: Tally
) -> None:
    """Backups and receipts get their names only when they are complete."""
    if change.kind == "backup" and (path := folder.place / change.values[0]).exists():
        folder.backup = change.values[0], expected.copy()
        with Memory(path, read_only=True) as backup:
            tally.not_verified += not backup.verify().ok
            tally.lost += not held_by(backup).is_what(expected)
    if change.kind == "erase" and (path := folder.place / change.values[1]).exists():
        folder.receipt = path


def _acknowledged_last(lines: list[str]) -> set[int]:
    """The acknowledgements of the interrupted step."""
    acknowledged: set[int] = set()
    for line in lines:
        if line.startswith("ack "):
            acknowledged.add(int(line.split()[1]))
        else:
            acknowledged.clear()
    return acknowledged


def _some_taught(before: PlainMemory, change: Change, held: Held, tally: Tally) -> PlainMemory:
    """Many are taught in several transactions: a prefix of them may be there."""
    taught = change.values[1] if change.kind in ("merge", "sync") else change.values
    pairs: Taught = [(number, name) for number, name in taught]
    some = before.copy()
    some.teach_many([pair for pair in pairs if pair in held.taught])
    if not held.is_what(some):
        tally.lost += 1
        tally.wrong.append(f"{change.kind}: neither old nor a part of the new")
    return some


def _held(folder: Folder, tally: Tally) -> Held | None:
    """The content of the folder, after verifying it."""
    try:
        # Read-only, so that the next process finds the folder as the kill left it.
        with Memory(folder.path, read_only=True) as memory:
            verified = memory.verify()
            tally.not_verified += not verified.ok
            tally.wrong += verified.problems
            tally.models_that_differ += any("snapshot" in problem for problem in verified.problems)
            return held_by(memory)
    except NotAMemory:
        return None


def search(folder: Folder, tally: Tally) -> None:
    """Open the folder to teach, which finishes any erase; then search for erased content."""
    with Memory(folder.path) as memory:
        if folder.receipt is not None:
            tally.receipts_checked += 1
            tally.wrong += memory.verify(folder.receipt).problems
            folder.receipt = None
    left = found([folder.path], traces_of(folder.plain))
    tally.traces += len(left)
    if left:
        tally.wrong.append(f"{len(left)} traces, the first is {left[0]}")


def traces_of(plain: PlainMemory) -> list[Trace]:
    """Everything that was erased."""
    traces = [trace for word in plain.erased_names for trace in of_text("a name", word)]
    for number in plain.erased_numbers:
        traces += of_text("a path", Path(source(number)).name)
        traces += of_bytes("a thumbnail", thumbnail(number))
        traces += of_bytes("an image", picture(number))
        for network in (0, 1, 2):
            traces += of_vector("a vector", vector(number, network))
    return traces


def survive(kills: int, seed: int = 0) -> Tally:
    """Kill this many times, cycling through the kinds of change."""
    tally = Tally()
    every_kind_once(np.random.default_rng(seed))
    rng = np.random.default_rng(seed)
    longest: dict[str, float] = defaultdict(lambda: 0.004, dict.fromkeys(SLOW, 0.05))
    while tally.kills < kills:
        with tempfile.TemporaryDirectory() as place:
            folder = Folder(Path(place), rng)
            for _ in range(ROUNDS_PER_FOLDER):
                if tally.kills == kills:
                    break
                kind = min(KINDS, key=lambda kind: tally.killed_inside[kind])
                steps = folder.plan(kind)
                lines = one_life(folder, [change for change, _ in steps], longest[kind])
                tally.rounds += 1
                if f"end {len(steps) - 1}" not in lines:
                    tally.kills += 1
                    tally.killed_inside[kind] += 1
                    longest[kind] *= 1.25
                else:
                    # Killed too late: sooner next time.
                    tally.killed_between += 1
                    longest[kind] *= 0.6
                check(folder, steps, lines, tally)
                if rng.random() < 0.3 or kind == "erase":
                    search(folder, tally)
        print(f"  {tally}", file=sys.stderr, flush=True)
    return tally


if __name__ == "__main__":
    arguments = [int(word) for word in sys.argv[1:]]
    tally = survive(*(arguments or [2000]))
    print(json.dumps(vars(tally), indent=2))
