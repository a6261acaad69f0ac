"""A Memory of many names: ask, teach, ask after it, close, open.

    python -m benchmarks memory_many_names

Vectors of 512, three for each of 10,000 names. Processor time, so that a busy machine tells the
same; waiting for the disk is not in it.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.side_by_side import Line
from everlearn import Memory

WIDTH, N_NAMES, EACH = 512, 10_000, 3


def lines() -> Iterator[Line]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "memory"
        with Memory(path) as memory:
            memory.teach_many((vector(name, part), word(name)) for part in range(EACH)
                              for name in range(N_NAMES))  # fmt: skip
            memory.ask(vector(0, 9))
        memory = Memory(path)
        memory.ask(vector(1, 9))
        yield line(
            "ask one vector", [seconds(lambda: memory.ask(vector(2, 9))) for _ in range(20)], 10
        )
        taught, after, new = [], [], []
        for step in range(20):
            taught.append(seconds(partial(memory.teach, vector(step, 50 + step), word(step))))
            after.append(seconds(lambda: memory.ask(vector(3, 9))))
        for step in range(5):
            memory.teach(vector(N_NAMES + step, 0), word(N_NAMES + step))
            new.append(seconds(lambda: memory.ask(vector(4, 9))))
        yield line("teach one, on disk", taught, 15)
        yield line("ask after one teaching", after, 20)
        yield line("ask after a new name", new, 20)
        yield line(
            "a page of 200 names", [seconds(lambda: memory.names(limit=200)) for _ in range(5)], 300
        )
        yield line("close after 25 teachings", [seconds(memory.close)], 1000)
        clock = time.process_time()
        with Memory(path) as memory:
            memory.ask(vector(5, 9))
            yield line("open to the first answer", [time.process_time() - clock], 1000)


def word(name: int) -> str:
    return f"name {name:06d}"


def vector(name: int, part: int) -> np.ndarray:
    centre = np.random.default_rng(name).normal(size=WIDTH)
    noise = np.random.default_rng([name, part]).normal(size=WIDTH)
    return (centre + 0.7 * noise).astype(np.float32)


def seconds(action: Callable[[], object]) -> float:
    clock = time.process_time()
    action()
    return time.process_time() - clock


def line(what: str, spent: list[float], wanted: float) -> Line:
    middle, longest = 1e3 * float(np.median(spent)), 1e3 * max(spent)
    return Line(
        f"a Memory of {N_NAMES:,} names (d=512): {what}",
        f"median {middle:.1f} ms, longest {longest:.1f} ms",
        f"at most {wanted:g} ms",
    )
