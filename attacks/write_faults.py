"""Writes that fail in the middle of every kind of change: a full disk, a dead disk, single errors.

    python -m attacks.write_faults [FAULTS] [SEED]

A library (write_faults.c, compiled here with ``cc``) is loaded before the system's own. It makes a
call fail that writes, flushes, creates, renames or removes below the attacked folder, whether
Python or SQLite makes the call. Each round makes a series of changes; the last one meets one of
these faults at a random one of its calls:

    one      this call fails once (EIO)
    full     from this call on whatever needs more space fails (ENOSPC)
    broken   from this call on every such call fails (EIO)

Then the disk works again. The change was acknowledged, or refused by a named error. What was
acknowledged is there; what was refused is not, unless the message says that this is uncertain. The
same open Memory answers and takes the next change. Closing and opening are attacked as well. The
folder is compared and verified as after a kill (crash.py).
"""

import contextlib
import ctypes
import errno
import json
import logging
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from attacks.attacked_folder import (
    ACCEPT,
    KINDS,
    Change,
    Folder,
    carried_out,
    every_kind_once,
    held_by,
)
from attacks.crash import SNAPSHOT_EVERY, Tally, check, search
from attacks.plain_memory import WIDTH, PlainMemory
from everlearn import Memory
from everlearn.errors import EverlearnError
from everlearn.memory.edits import editor

SOURCE = Path(__file__).with_suffix(".c")
ROUNDS_PER_FOLDER = 20
# The way's number in write_faults.c, and the error of the calls that fail.
WAYS = {"one": (1, errno.EIO), "full": (2, errno.ENOSPC), "broken": (3, errno.EIO)}
CLOSE, OPEN = "close", "open"
# A fault meets any call, or only calls of one kind: most calls are writes.
ONLY = ("", "", "fsync", "fdatasync", "rename", "create", "mkdir", "unlink", "ftruncate")
# At first it is one of so many of them.
CALLS = 20
# Several transactions, or several steps: what was done before the fault is kept.
IN_STEPS = ("teach many", "merge", "sync", "erase")
UNCERTAIN = "it is not certain whether this change was kept"


@dataclass
class Found:
    """Totals over all rounds."""

    rounds: int = 0
    faults: int = 0
    inside: Counter[str] = field(default_factory=Counter)
    ways: Counter[str] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    unnamed: list[str] = field(default_factory=list)
    untrue: list[str] = field(default_factory=list)
    wedged: list[str] = field(default_factory=list)
    checked: Tally = field(default_factory=Tally)

    def __str__(self) -> str:
        checked = self.checked
        return (
            f"{self.faults:,} write faults inside {len(self.inside)} kinds of change: "
            f"{checked.lost} lost, {checked.counted_twice} counted twice, {checked.traces} traces, "
            f"{checked.not_verified} not verified, {len(checked.wrong)} wrong, "
            f"{len(self.untrue)} untrue messages, {len(self.wedged)} wedged, "
            f"{len(self.unnamed)} errors without a name"
        )


class Disk:
    """The functions of write_faults.c, which is part of this process already."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None)
        self._library.faults_first.restype = ctypes.c_char_p
        self._library.faults_calls.restype = ctypes.c_long

    @contextlib.contextmanager
    def failing(self, below: Path, only: str, at: int, way: str) -> Iterator[None]:
        number, error = WAYS[way]
        folder, call = os.fsencode(below), only.encode()
        self._library.faults_arm(folder, call, ctypes.c_long(at), number, error)
        try:
            yield
        finally:
            self._library.faults_disarm()

    @property
    def calls(self) -> int:
        """How many calls the last context has seen."""
        return int(self._library.faults_calls())

    @property
    def failed(self) -> str:
        """The first of them that failed, and its file; empty if none did."""
        return os.fsdecode(self._library.faults_first())


class Attacked:
    """One open Memory, its expected content, and the disk below it."""

    def __init__(self, place: Path, disk: Disk, rng: np.random.Generator, found: Found) -> None:
        self.folder = Folder(place, rng)
        self.disk = disk
        self.rng = rng
        self.found = found
        self.memory = self._opened()

    def _opened(self) -> Memory:
        return Memory(self.folder.path, accept=ACCEPT)

    def one_round(self, kind: str, most: dict[tuple[str, str], int]) -> None:
        """Let one change of a kind, an opening or a closing, meet a fault."""
        folder, found, lines = self.folder, self.found, list[str]()
        steps = folder.plan("teach" if kind in (CLOSE, OPEN) else kind)
        faulty = len(steps) if kind in (CLOSE, OPEN) else len(steps) - 1
        for index, (change, _) in enumerate(steps[:faulty]):
            self._make(index, change, lines)
        if kind == OPEN:
            self.memory.close()
        # A relocation's own pictures are beside the Memory.
        below = folder.path if kind == "relocate" else folder.place
        way = list(WAYS)[int(self.rng.integers(len(WAYS)))]
        only = str(self.rng.choice([only for only in ONLY if most[kind, only]]))
        at = int(self.rng.integers(1, most[kind, only] + 1))
        error = None
        try:
            with self.disk.failing(below, only, at, way):
                if kind == CLOSE:
                    self.memory.close()
                elif kind == OPEN:
                    self.memory = self._opened()
                else:
                    self._make(faulty, steps[faulty][0], lines)
        except Exception as raised:
            error = raised
        found.rounds += 1
        failed = self.disk.failed
        # Sooner next time if it was too late; otherwise it may be later.
        # A change that wrote nothing may write next time, so that any call stays a choice.
        least = 0 if only else 1
        most[kind, only] = (
            1 + int(1.1 * most[kind, only]) if failed else max(self.disk.calls, least)
        )
        if failed:
            found.faults += 1
            found.inside[kind] += 1
            found.ways[way] += 1
            found.calls[failed.partition(" ")[0]] += 1
        where = f"{kind}, {way}, {failed.replace(str(folder.place), '')}: {error!r}"
        if isinstance(error, EverlearnError):
            found.refused[type(error).__name__] += 1
        elif error is not None:
            found.unnamed.append(where)
        self._judge(steps, lines, kind, error, where)

    def _make(self, index: int, change: Change, lines: list[str]) -> None:
        """Make a change of a plan, which is left as it is, and report on it."""
        lines.append(f"begin {index}")
        made = Change(change.kind, list(change.values))
        self.memory = carried_out(made, self.memory, self.folder, lines.append)
        lines.append(f"end {index}")

    def _judge(
        self,
        steps: list[tuple[Change, PlainMemory]],
        lines: list[str],
        kind: str,
        error: Exception | None,
        where: str,
    ) -> None:
        """Compare the folder, and the Memory that is still open, with what was said."""
        folder, found = self.folder, self.found
        wrong = len(found.checked.wrong)
        before = steps[-2][1] if len(steps) > 1 else folder.plain
        check(folder, steps, lines, found.checked)
        found.checked.wrong[wrong:] = [f"{w} ({where})" for w in found.checked.wrong[wrong:]]
        if error is not None and kind not in (*IN_STEPS, CLOSE, OPEN):
            kept = _content(folder.plain) != _content(before)
            if kept and UNCERTAIN not in str(error):
                found.untrue.append(where)
        try:
            if self.memory._opened.closed:
                self.memory = self._opened()
            self.memory.ask(np.ones(WIDTH))
            held = held_by(self.memory)
            if not held.is_what(folder.plain):
                found.wedged.append(f"{where}; open: {held.differs_from(folder.plain)}")
        except Exception as raised:
            found.wedged.append(f"{where}; then {raised!r}")
            self.memory.close()
            self.memory = self._opened()

    def search(self) -> None:
        """Search for traces of what was erased, in the folder of a finished process."""
        self.memory.close()
        search(self.folder, self.found.checked)
        self.memory = self._opened()


def _content(plain: PlainMemory) -> tuple[object, ...]:
    return plain.counted(), plain.unknowns, plain.network


def attack(faults: int, seed: int = 0) -> Found:
    """Inject so many faults; the library must be loaded."""
    logging.disable(logging.WARNING)
    editor.SNAPSHOT_EVERY = SNAPSHOT_EVERY
    found, disk = Found(), Disk()
    most = {(kind, only): CALLS for kind in (*KINDS, CLOSE, OPEN) for only in ONLY}
    every_kind_once(np.random.default_rng(seed))
    rng = np.random.default_rng(seed)
    while found.faults < faults:
        with tempfile.TemporaryDirectory() as place, _temporary_files(Path(place, "temporary")):
            attacked = Attacked(Path(place), disk, rng, found)
            for _ in range(ROUNDS_PER_FOLDER):
                if found.faults == faults:
                    break
                kind = min((*KINDS, CLOSE, OPEN), key=lambda kind: found.inside[kind])
                attacked.one_round(kind, most)
                if kind == "erase" or rng.random() < 0.1:
                    attacked.search()
            attacked.memory.close()
        print(f"  {found}", file=sys.stderr, flush=True)
    return found


@contextlib.contextmanager
def _temporary_files(place: Path) -> Iterator[None]:
    """Have Python and SQLite put temporary files on the attacked disk."""
    place.mkdir()
    before, tempfile.tempdir = tempfile.tempdir, str(place)
    os.environ["SQLITE_TMPDIR"] = str(place)
    try:
        yield
    finally:
        tempfile.tempdir = before
        del os.environ["SQLITE_TMPDIR"]


def run(faults: int, seed: int = 0) -> dict[str, Any]:
    """Attack in a process that has the library; what it found."""
    with tempfile.TemporaryDirectory() as place:
        library = Path(place, "write_faults.so")
        compiler = ["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE), "-ldl"]
        subprocess.run(compiler, check=True)
        done = subprocess.run(
            [sys.executable, "-m", "attacks.write_faults", str(faults), str(seed)],
            env=os.environ | {"LD_PRELOAD": str(library)},
            stdout=subprocess.PIPE,
            check=True,
        )
    return dict(json.loads(done.stdout))


def main(faults: int = 500, seed: int = 0) -> None:
    if not hasattr(ctypes.CDLL(None), "faults_arm"):
        print(json.dumps(run(faults, seed), indent=2))
        return
    found = attack(faults, seed)
    print(json.dumps(vars(found) | {"checked": vars(found.checked)}))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
