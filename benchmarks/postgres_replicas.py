"""Replicas of a Memory in PostgreSQL: their lag, their first answer, the cost of sharing."""

import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.postgres_server import PostgresServer, warm_up
from benchmarks.side_by_side import Line
from everlearn import Memory

WIDTH = 128
RATE = int(os.environ.get("EVERLEARN_RATE", "200"))
LAG_SECONDS = 20.0
TAUGHT = int(os.environ.get("EVERLEARN_TAUGHT", "100000"))
ASK_SECONDS = 4.0

FORK = multiprocessing.get_context("fork")

FIRST_ANSWER = """
import sys, time
import numpy as np
import everlearn.memory.memory, everlearn.learners.rlsc, psycopg, sklearn.pipeline
from everlearn import Memory
started = time.perf_counter()
with Memory(sys.argv[1], read_only=True) as memory:
    memory.ask(np.ones(int(sys.argv[2])))
    print(time.perf_counter() - started)
"""


def lines() -> Iterator[Line]:
    warm_up()
    with PostgresServer() as server:
        yield lag(f"{server.url()}#lag")
        address = f"{server.url()}#large"
        fill(address)
        yield new_replica(address)
        yield shared(address)


def fill(address: str) -> None:
    rng = np.random.default_rng(0)
    with Memory(address) as memory:
        for start in range(0, TAUGHT, 10_000):
            X = rng.normal(size=(min(10_000, TAUGHT - start), WIDTH)).astype(np.float32)
            memory.teach_many((x, f"name {k % 100}") for k, x in enumerate(X))


def lag(address: str) -> Line:
    """The time from a teaching's acknowledgement to a replica's answer that includes it."""
    with Memory(address) as memory:
        memory.teach_many((x, f"name {k % 10}") for k, x in enumerate(_rows(0, 500)))
    log, over = FORK.Queue(), FORK.Event()
    writer = FORK.Process(target=_teach_at_rate, args=(address, log, over))
    seen: list[tuple[int, float]] = []
    with Memory(address, read_only=True) as replica:
        replica.ask(np.ones(WIDTH))
        writer.start()
        until = time.perf_counter() + LAG_SECONDS
        while time.perf_counter() < until:
            replica.ask(np.ones(WIDTH))
            calibrated = replica._opened.history.model
            if calibrated is not None and (not seen or seen[-1][0] != calibrated.position):
                seen.append((calibrated.position, time.perf_counter()))
            time.sleep(0.002)
    over.set()
    acknowledged: list[tuple[int, float]] = log.get(timeout=60)
    writer.join()
    lags = []
    at = iter(seen)
    position, when = next(at)
    for taught, told in acknowledged:
        while position < taught:
            found = next(at, None)
            if found is None:
                break
            position, when = found
        if position < taught:
            break
        lags.append(max(0.0, when - told))
    rate = len(acknowledged) / (acknowledged[-1][1] - acknowledged[0][1])
    half, most = np.percentile(lags, [50, 99])
    return Line(
        f"lag of an asker at {RATE} teachings a second wanted, {rate:.0f} reached: p50, p99",
        f"{half:.3f} s, {most:.3f} s over {len(lags)} teachings",
        "≤ 0.2 s, ≤ 1.0 s",
    )


def new_replica(address: str) -> Line:
    done = subprocess.run(
        [sys.executable, "-c", FIRST_ANSWER, address, str(WIDTH)],
        capture_output=True,
        text=True,
        check=True,
    )
    return Line(
        f"a new replica of {TAUGHT:,} teachings, from a shared snapshot to its first answer",
        f"{float(done.stdout):.1f} s without imports",
        "≤ 10 s",
    )


def shared(address: str) -> Line:
    asked = {count: _asked(address, count) for count in (1, 2, 4)}
    words = " / ".join(f"{rate:,.0f}" for rate, _ in asked.values())
    cost = " / ".join(f"{by_cpu:,.0f}" for _, by_cpu in asked.values())
    return Line(
        f"questions a second of 1 / 2 / 4 replicas on {os.cpu_count()} cores",
        f"{words}: {asked[2][0] / asked[1][0]:.2f} × from 1 to 2; for each second of processor "
        f"time of a replica {cost}",
        "≥ 1.8 ×",
    )


def _asked(address: str, count: int) -> tuple[float, float]:
    """Questions per second of all replicas, and per second of their processor time."""
    results, barrier = FORK.Queue(), FORK.Barrier(count)
    processes = [FORK.Process(target=_ask, args=(address, barrier, results)) for _ in range(count)]
    for process in processes:
        process.start()
    found = [results.get(timeout=300) for _ in processes]
    for process in processes:
        process.join()
    return sum(rate for rate, _ in found), float(np.mean([by_cpu for _, by_cpu in found]))


def _ask(address: str, barrier: Any, results: Any) -> None:
    x = np.ones(WIDTH)
    with Memory(address, read_only=True) as memory:
        for _ in range(10):
            memory.ask(x)
        barrier.wait()
        asked, started, spent = 0, time.perf_counter(), time.process_time()
        while time.perf_counter() < started + ASK_SECONDS:
            memory.ask(x)
            asked += 1
        spent = time.process_time() - spent
        results.put((asked / (time.perf_counter() - started), asked / spent))


def _teach_at_rate(address: str, log: Any, over: Any) -> None:
    """Teach at a fixed rate, ten at a time, and record when each was acknowledged."""
    acknowledged, sent = [], 0
    with Memory(address) as memory:
        position, started = memory.position, time.perf_counter()
        while not over.is_set():
            wait = started + sent / RATE - time.perf_counter()
            if wait > 0:
                time.sleep(wait)
            X = _rows(1000 + sent, 10)
            memory.teach_many((x, f"name {k}") for k, x in enumerate(X))
            sent += 10
            told = time.perf_counter()
            acknowledged += [(position + sent - 10 + k + 1, told) for k in range(10)]
    log.put(acknowledged)


def _rows(seed: int, count: int) -> Any:
    return np.random.default_rng(seed).normal(size=(count, WIDTH)).astype(np.float32)
