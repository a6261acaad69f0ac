"""Speed of teaching a Memory in PostgreSQL, beside one in a folder on the same machine.

Vectors of 512; both engines flush every commit to disk. Timings are ratios within one run: the two
are measured alternately, part by part.
"""

import multiprocessing
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.postgres_server import PostgresServer, warm_up
from benchmarks.side_by_side import Line
from everlearn import Memory

WIDTH = 512
SINGLE = 40
BATCH = 100
ROUNDS = 5
WRITERS = int(os.environ.get("EVERLEARN_WRITERS", "16"))
EACH = 300

FORK = multiprocessing.get_context("fork")


def lines() -> Iterator[Line]:
    warm_up()
    with PostgresServer() as server, tempfile.TemporaryDirectory() as place:
        memories = {"PostgreSQL": f"{server.url()}#speed", "a folder": f"{place}/memory"}
        yield from taught(memories)
        yield crowd(f"{server.url()}#many")
        yield moved(f"{server.url()}#moved", Path(place))


def taught(memories: dict[str, str]) -> Iterator[Line]:
    seconds: dict[tuple[str, str], list[float]] = {
        (where, how): [] for where in memories for how in ("one", "many")
    }
    rng = np.random.default_rng(0)
    opened = {where: Memory(address) for where, address in memories.items()}
    for memory in opened.values():
        memory.teach(rng.normal(size=WIDTH), "first")
    for _ in range(ROUNDS):
        for where, memory in opened.items():
            X = rng.normal(size=(SINGLE + BATCH, WIDTH)).astype(np.float32)
            started = time.perf_counter()
            for x in X[:SINGLE]:
                memory.teach(x, "one")
            between = time.perf_counter()
            memory.teach_many((x, f"name {k % 10}") for k, x in enumerate(X[SINGLE:]))
            seconds[where, "one"].append((between - started) / SINGLE)
            seconds[where, "many"].append((time.perf_counter() - between) / BATCH)
    for memory in opened.values():
        memory.close()
    for how, words in (("one", "teach"), ("many", f"teach_many of {BATCH}")):
        mine, theirs = (float(np.median(seconds[where, how])) for where in memories)
        yield Line(
            f"one writer, {words}, vectors of {WIDTH}: PostgreSQL beside a folder",
            f"{1 / mine:,.0f} against {1 / theirs:,.0f} teachings/s: {theirs / mine:.0%}",
            "report" if how == "one" else "≥ 50 %",
        )


def crowd(address: str) -> Line:
    Memory(address).close()
    barrier = FORK.Barrier(WRITERS + 1)
    processes = [FORK.Process(target=write, args=(address, k, barrier)) for k in range(WRITERS)]
    for process in processes:
        process.start()
    barrier.wait()
    started = time.perf_counter()
    barrier.wait()
    seconds = time.perf_counter() - started
    for process in processes:
        process.join()
    with Memory(address, read_only=True) as memory:
        count = sum(record.count for record in memory.names().values())
    return Line(
        f"{WRITERS} writer processes, teach_many of {BATCH}, vectors of {WIDTH}",
        f"{count / seconds:,.0f} teachings/s together, {count} of {WRITERS * EACH} there",
        "report",
    )


def write(address: str, number: int, barrier: "multiprocessing.synchronize.Barrier") -> None:
    X = np.random.default_rng(number).normal(size=(EACH, WIDTH)).astype(np.float32)
    with Memory(address) as memory:
        memory.position  # noqa: B018  imports and connections are not measured
        barrier.wait()
        for start in range(0, EACH, BATCH):
            memory.teach_many((x, f"name {k % 10}") for k, x in enumerate(X[start : start + BATCH]))
        barrier.wait()


def moved(address: str, place: Path, count: int = 10_000) -> Line:
    """A folder into the database and out again."""
    from everlearn.memory.storage.backup import restore

    X = np.random.default_rng(1).normal(size=(count, 128)).astype(np.float32)
    with Memory(place / "first") as memory:
        memory.teach_many((x, f"name {k % 50}") for k, x in enumerate(X))
        memory.forget(name="name 7")
        memory.undo()
        before = memory.verify()
    started = time.perf_counter()
    restore(place / "first", address)
    between = time.perf_counter()
    with Memory(address, read_only=True) as memory:
        inside = memory.verify()
        memory.backup(place / "second")
    out = time.perf_counter() - between
    with Memory(place / "second", read_only=True) as memory:
        after = memory.verify()
    same = before.log == inside.log == after.log and before.model == inside.model == after.model
    problems = len(before.problems + inside.problems + after.problems)
    return Line(
        f"a folder of {count:,} teachings moved into PostgreSQL and out again",
        f"{'the same' if same else 'other'} log and model in every bit, {problems} problems; in "
        f"{between - started:.0f} s, verified and out {out:.0f} s",
        "same bits",
    )
