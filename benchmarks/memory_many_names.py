"""A Memory of many names: ask, teach, ask after it, close, open, ask after a change of mind.

    python -m benchmarks memory_many_names
    EVERLEARN_NAMES=100000 EVERLEARN_FOLDER=/tmp/large python -m benchmarks memory_many_names

Vectors of 512, three for each of 10,000 names, five if there are more. Processor time, so that
other load does not matter; waiting for the disk is not included. Teaching half a million examples
takes minutes: a Memory in ``EVERLEARN_FOLDER`` is created once and reused. Asking, teaching and
closing are times of the calling thread. Opening is also measured by the clock, on a quiet machine:
BLAS uses all cores for it, and the check of the journal starts in the background.
"""

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.side_by_side import Line
from everlearn import Memory

WIDTH = 512
N_NAMES = int(os.environ.get("EVERLEARN_NAMES", "10000"))
EACH = 3 if N_NAMES <= 10_000 else 5
# Milliseconds, and seconds, wanted.
WANTED_AFTER, WANTED_OPEN = (20, 1) if N_NAMES <= 10_000 else (50, 3)


def lines() -> Iterator[Line]:
    with tempfile.TemporaryDirectory() as folder:
        yield from asked(Path(os.environ.get("EVERLEARN_FOLDER", folder)) / "memory")


def asked(path: Path) -> Iterator[Line]:
    with Memory(path) as memory:
        if memory.info()["names"] < N_NAMES:
            memory.teach_many((vector(name, part), word(name)) for part in range(EACH)
                              for name in range(N_NAMES))  # fmt: skip
        memory.ask(vector(0, 9))
    memory = Memory(path)
    for _ in range(60):  # the screen of the names is built in the meantime
        memory.ask(vector(1, 9))
    asks = [seconds(lambda: memory.ask(vector(2, 9))) for _ in range(20)]
    yield line("ask one vector", asks, 10)
    taught, after, named, new = [], [], [], []
    # Numbers and names that were not taught yet, even if the folder was used before.
    count = memory.position
    for step in range(50):  # room for new names is made in the meantime
        taught.append(seconds(partial(memory.teach, vector(step, count + step), word(step))))
        after.append(seconds(lambda: memory.ask(vector(3, 9))))
    for step in range(5):
        example, name = vector(count + step, 0), word(count + step)
        named.append(seconds(partial(memory.teach, example, name)))
        new.append(seconds(lambda: memory.ask(vector(4, 9))))
    yield line("teach one, on disk", taught, 15)
    yield line("ask after one teaching", after, WANTED_AFTER)
    yield line("teach a new name, on disk", named, 15)
    yield line("ask after a new name", new, WANTED_AFTER)
    pages = [seconds(lambda: memory.names(limit=200)) for _ in range(5)]
    yield line("a page of 200 names", pages, 300)
    found = [seconds(lambda: memory.names(containing="99", limit=200)) for _ in range(5)]
    yield line("a page of 200 names that contain a text", found, 300)
    yield line("close after 55 teachings", [seconds(memory.close)], 1000)
    clock, processor = time.perf_counter(), time.thread_time()
    with Memory(path) as memory:
        memory.ask(vector(5, 9))
        waited, used = time.perf_counter() - clock, time.thread_time() - processor
        yield Line(
            f"a Memory of {N_NAMES:,} names (d=512): open to the first answer",
            f"{waited:.2f} s by the clock, {used:.2f} s of processor time",
            f"at most {WANTED_OPEN:g} s",
        )
        yield from after_a_change_of_mind(memory)


def after_a_change_of_mind(memory: Memory) -> Iterator[Line]:
    """The question after an undo, a forget and a correction of a teaching just asked about."""
    part = memory.position
    for what, change in (
        ("undo", lambda x, name: memory.undo()),
        ("forget", lambda x, name: memory.forget(x)),
        ("correct", lambda x, name: memory.correct(x, word(name + 50))),
    ):
        after = []
        for name in range(5):
            part += 1
            x = vector(name, part)
            memory.teach(x, word(name))
            memory.ask(x)
            change(x, name)
            after.append(seconds(lambda: memory.ask(vector(6, 9))))
        yield line(f"ask after {what}", after, WANTED_AFTER)


def word(name: int) -> str:
    return f"name {name:06d}"


def vector(name: int, part: int) -> np.ndarray:
    centre = np.random.default_rng(name).normal(size=WIDTH)
    noise = np.random.default_rng([name, part]).normal(size=WIDTH)
    return (centre + 0.7 * noise).astype(np.float32)


def seconds(action: Callable[[], object]) -> float:
    clock = time.thread_time()  # excludes the integrity check in the background
    action()
    return time.thread_time() - clock


def line(what: str, spent: list[float], wanted: float) -> Line:
    middle, longest = 1e3 * float(np.median(spent)), 1e3 * max(spent)
    return Line(
        f"a Memory of {N_NAMES:,} names (d=512): {what}",
        f"median {middle:.1f} ms, longest {longest:.1f} ms",
        f"at most {wanted:g} ms",
    )
