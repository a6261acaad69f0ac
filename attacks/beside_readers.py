"""Readers ask while one process makes every kind of change; none of them sees a false error.

    python -m attacks.beside_readers [QUESTIONS] [SEED]

Some readers have write permission in the folder, one has not (if this runs as root). Every answer
must be a name that was taught at some time; any error is false, since the folder is never damaged.
"""

import json
import os
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np

from attacks.attacked_folder import (
    ABOUT_GROUPS,
    ACCEPT,
    CLASSIFIERS,
    Folder,
    apply_plain,
    carried_out,
    every_kind_once,
)
from attacks.plain_memory import WIDTH
from everlearn import Memory
from everlearn.memory.edits import editor

READERS = 3
KINDS = (
    "teach",
    "teach many",
    "forget",
    "rename",
    "rename into",
    "erase",
    "undo",
    "redo",
    "correct",
    "merge",
    "use",
    "remember",
    *ABOUT_GROUPS,
    "reembed",
    "backup",
    "reopen",
    "restore",
)
NOBODY = 65534
MOST_TAUGHT = 400
# A reader reopens the folder after this many questions.
REOPEN_EVERY = 200


def read(folder: Path, questions: int, seed: int, pipe: int) -> None:
    """Ask, and report errors."""
    rng = np.random.default_rng(seed)
    found: Counter[str] = Counter()
    asked = 0
    while asked < questions:
        try:
            with Memory(folder, read_only=True) as memory:
                for _ in range(min(REOPEN_EVERY, questions - asked)):
                    asked += 1
                    answers = memory.ask(rng.normal(size=WIDTH))
                    wrong = [a.name for a in answers if not a.name.startswith("name ")]
                    found["answered" if not wrong else "WRONG NAME"] += 1
        except Exception as error:
            asked += 1
            who = "may write" if os.access(folder, os.W_OK) else "may not write"
            found[f"ERROR, {who}: {type(error).__name__}: {str(error)[-150:]}"] += 1
    os.write(pipe, json.dumps(found).encode())


def attack(questions: int, seed: int = 0) -> Counter[str]:
    """Errors of the readers while changes are made."""
    editor.SNAPSHOT_EVERY = 256
    rng = np.random.default_rng(seed)
    every_kind_once(rng)
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        folder = Folder(Path(place), rng)
        with Memory(folder.path, accept=ACCEPT) as memory:
            for kind in ("teach many", "backup"):
                _apply(memory, folder, kind)
        pipes, children = [], []
        for number in range(READERS):
            reading, writing = os.pipe()
            child = os.fork()
            if child == 0:
                if number == 0 and os.geteuid() == 0:
                    os.setgid(NOBODY)
                    os.setuid(NOBODY)
                try:
                    read(folder.path, questions // READERS, seed + number, writing)
                finally:
                    os._exit(0)
            os.close(writing)
            pipes.append(reading)
            children.append(child)
        # Opened only now: SQLite's locks do not survive a fork.
        memory = Memory(folder.path, accept=ACCEPT)
        changes: Counter[str] = Counter()
        while _still_running(children):
            kind = min(KINDS, key=lambda kind: changes[kind])
            changes[kind] += 1
            if kind == "reopen":
                memory.close()
                memory = Memory(folder.path, accept=ACCEPT)
            else:
                grown = len(folder.plain.taught) > MOST_TAUGHT
                memory = _apply(memory, folder, "restore" if grown else kind)
        memory.close()
        found = sum((Counter(json.loads(_all(pipe))) for pipe in pipes), Counter())
    found["changes made meanwhile"] = changes.total()
    return found


def _apply(memory: Memory, folder: Folder, kind: str) -> Memory:
    """Make a change of some kind, and those it needs; returns the Memory to continue with."""
    for change, _ in folder.plan(kind):
        memory = carried_out(change, memory, folder, lambda _: None)
        apply_plain(change, folder.plain, folder.backup)
        if change.kind == "backup" and folder.backup is None:
            folder.backup = change.values[0], folder.plain.copy()
    if kind == "use":
        memory.use(classifier=CLASSIFIERS[0])
    return memory


def _still_running(children: list[int]) -> bool:
    for child in list(children):
        if os.waitpid(child, os.WNOHANG)[0]:
            children.remove(child)
    return bool(children)


def _all(pipe: int) -> bytes:
    data = b""
    while part := os.read(pipe, 1 << 16):
        data += part
    os.close(pipe)
    return data or b'{"ERROR a reader died": 1}'


if __name__ == "__main__":
    arguments = [int(word) for word in sys.argv[1:]]
    print(json.dumps(attack(*(arguments or [100_000])), indent=2))
