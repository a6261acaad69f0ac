"""Interrupts a Memory (Ctrl-C) at random moments of every change; it must continue to work.

    python -m attacks.interrupted_memory [INTERRUPTS] [SEED]

One Memory stays open all the time. After each interruption it must have the content from before the
change or after it, and accept the next change.
"""

import contextlib
import json
import signal
import sys
import tempfile
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from attacks.attacked_folder import ACCEPT, Folder, apply, apply_plain, held_by
from attacks.plain_memory import WIDTH
from everlearn import Memory

KINDS = (
    "teach",
    "teach many",
    "forget",
    "erase",
    "rename",
    "rename into",
    "undo",
    "correct",
    "use",
    "remember",
    "reembed",
)
ASKED = "ask"
MOST_TAUGHT = 150


@dataclass
class Tally:
    interrupted: int = 0
    finished: int = 0
    wedged: int = 0
    neither_old_nor_new: int = 0
    wrong: list[str] = field(default_factory=list)
    inside: Counter[str] = field(default_factory=Counter)


def interrupt(*_: Any) -> None:
    """Ctrl-C: everlearn holds it back while numba compiles, which must not be interrupted."""
    signal.raise_signal(signal.SIGINT)


def attack(interrupts: int, seed: int = 0) -> Tally:
    tally = Tally()
    rng = np.random.default_rng(seed)
    longest: dict[str, float] = defaultdict(lambda: 0.01)
    before = signal.signal(signal.SIGALRM, interrupt)
    # A process in the background of a shell ignores it.
    interrupted_before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        while tally.interrupted < interrupts:
            with tempfile.TemporaryDirectory() as place:
                folder = Folder(Path(place), rng)
                with Memory(folder.path, accept=ACCEPT) as memory:
                    _one_folder(memory, folder, interrupts, longest, tally)
            print(
                f"  {tally.interrupted:,} interrupted: {tally.wedged} wedged, "
                f"{tally.neither_old_nor_new} neither old nor new",
                file=sys.stderr,
                flush=True,
            )
    finally:
        signal.signal(signal.SIGALRM, before)
        signal.signal(signal.SIGINT, interrupted_before)
    return tally


def _one_folder(
    memory: Memory, folder: Folder, interrupts: int, longest: dict[str, float], tally: Tally
) -> None:
    begin = folder.many(folder.plain, 40)
    apply(begin, memory, folder.place, lambda _: None)
    apply_plain(begin, folder.plain, None)
    while tally.interrupted < interrupts and len(folder.plain.taught) < MOST_TAUGHT:
        names = folder.plain.names()
        if len(names) < 3 or not folder.plain.before:
            return
        kind = min((*KINDS, ASKED), key=lambda kind: tally.inside[kind])
        _one_change(memory, folder, kind, longest, tally)


def _one_change(
    memory: Memory, folder: Folder, kind: str, longest: dict[str, float], tally: Tally
) -> None:
    change = None if kind == ASKED else folder.change(kind, folder.plain)
    expected = folder.plain.copy()
    if change is not None:
        apply_plain(change, expected, None)
    interrupted = False
    try:
        signal.setitimer(signal.ITIMER_REAL, float(folder.rng.uniform(1e-5, longest[kind])))
        try:
            if change is None:
                memory.ask(np.ones(WIDTH))
            else:
                apply(change, memory, folder.place, lambda _: None)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        interrupted = True
    with contextlib.suppress(KeyboardInterrupt):
        signal.setitimer(signal.ITIMER_REAL, 0)
    tally.interrupted += interrupted
    tally.finished += not interrupted
    tally.inside[kind] += interrupted
    longest[kind] *= 1.05 if interrupted else 0.85
    try:
        held = held_by(memory)
        memory.ask(np.ones(WIDTH))
    except Exception as error:
        tally.wedged += 1
        tally.wrong.append(f"{kind}: {type(error).__name__}: {error}")
        return
    if held.is_what(expected):
        folder.plain = expected
    elif not held.is_what(folder.plain):
        some = set(held.taught) - set(folder.plain.counted())
        part = expected.counted() >= held.taught >= folder.plain.counted()
        if kind == "teach many" and part and some:
            folder.plain.teach_many(sorted(some))
        else:
            tally.neither_old_nor_new += 1
            tally.wrong.append(f"{kind}: neither old nor new")


if __name__ == "__main__":
    arguments = [int(word) for word in sys.argv[1:]]
    print(json.dumps(vars(attack(*(arguments or [20_000]))), indent=2))
