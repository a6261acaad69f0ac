"""Kills writers, the process that orders, replicas and the server; then a standby takes over.

``EVERLEARN_KILLS`` is the number of kills (200). Every vector is taught with ``again=True``: only
the request keys keep a repeated request from being counted twice.
"""

import logging
import multiprocessing
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import psycopg

from benchmarks.postgres_server import PostgresServer, warm_up
from benchmarks.side_by_side import Line
from everlearn import Memory
from everlearn.errors import EverlearnError
from everlearn.memory.storage.log import counting_examples

SEED = int(os.environ.get("EVERLEARN_SEED", "0"))
KILLS = int(os.environ.get("EVERLEARN_KILLS", "200"))
WRITERS = 3
REPLICAS = 2
WIDTH = 16
# Seconds of work between two kills.
SECONDS = (0.1, 0.6)
VICTIMS = ("writer", "orderer", "replica", "server")
SHARES = (0.4, 0.3, 0.2, 0.1)

FORK = multiprocessing.get_context("fork")


def lines() -> Iterator[Line]:
    logging.getLogger("everlearn").addHandler(logging.NullHandler())
    warm_up()
    with PostgresServer() as server:
        yield killed(server)
    with PostgresServer() as server:
        yield failed_over(server)


def killed(server: PostgresServer) -> Line:
    address = f"{server.url()}#kills"
    Memory(address).close()
    over, told = FORK.Event(), FORK.SimpleQueue()
    chance, tally = random.Random(SEED), Counter[str]()
    writers = {k: _started(_write, address, k, over, told) for k in range(WRITERS)}
    replicas = {k: _started(_follow, address, over) for k in range(REPLICAS)}
    acknowledged: set[tuple[int, int]] = set()
    lives = dict.fromkeys(range(WRITERS), 0)
    for _ in range(KILLS):
        time.sleep(chance.uniform(*SECONDS))
        _collect(told, acknowledged)
        victim = chance.choices(VICTIMS, SHARES)[0]
        tally[victim] += 1
        if victim == "writer":
            k = chance.randrange(WRITERS)
            _kill(writers[k])
            lives[k] += 1
            writers[k] = _started(_write, address, k + WRITERS * lives[k], over, told)
        elif victim == "replica":
            k = chance.randrange(REPLICAS)
            _kill(replicas[k])
            replicas[k] = _started(_follow, address, over)
        elif victim == "orderer":
            _terminate_orderer(server)
        else:
            server.kill()
            server.start()
    over.set()
    for process in [*writers.values(), *replicas.values()]:
        while process.is_alive():
            _collect(told, acknowledged)
            process.join(0.05)
    _collect(told, acknowledged)
    failed = sum(process.exitcode != 0 for process in [*writers.values(), *replicas.values()])
    with Memory(address, read_only=True) as memory:
        found = Counter(
            tuple(int(v) for v in example.vector[:2])
            for _, example in counting_examples(memory._opened.journal)
        )
        problems = memory.verify().problems
    lost = sum(one not in found for one in acknowledged)
    doubled = sum(count > 1 for count in found.values())
    what = ", ".join(f"{tally[victim]} {victim}" for victim in VICTIMS)
    return Line(
        f"{KILLS} kills ({what}) under {WRITERS} writers and {REPLICAS} replicas: acknowledged "
        "and lost, doubled",
        f"{lost}, {doubled} of {len(acknowledged)} acknowledged; {len(problems)} problems, "
        f"{failed} of the last {WRITERS + REPLICAS} processes did not recover",
        "0, 0",
    )


def failed_over(server: PostgresServer) -> Line:
    """A standby that missed the last teachings is promoted."""
    standby = server.standby()
    said = _Said()
    logging.getLogger("everlearn").addHandler(said)
    try:
        hosts = f"{server.folder},{standby.folder}"
        ports = f"{server.port},{standby.port}"
        address = (
            f"postgresql://everlearn@/postgres?host={hosts}&port={ports}"
            "&target_session_attrs=read-write#over"
        )
        standby.start()
        with Memory(address) as memory:
            memory.teach_many(_pairs(0, 300, "kept"))
        _wait_for_standby(server)
        standby.stop()
        with Memory(address, read_only=True) as replica:
            with Memory(address) as memory:
                memory.teach_many(_pairs(1, 200, "lost"))
                end = memory.position
            replica.ask(np.ones(WIDTH), after=end)
            server.kill()
            standby.start()
            standby.promote()
            with Memory(address) as memory:
                memory.teach_many(_pairs(2, 400, "new"))
                end = memory.position
            replica.ask(np.ones(WIDTH), after=end)
            names = set(replica.names())
            verified = replica.verify()
            live = replica._opened.read(lambda: replica._opened.model().digest())
    finally:
        logging.getLogger("everlearn").removeHandler(said)
        standby.close()
    noticed = any("another journal" in words for words in said.words)
    same = live == verified.model and not verified.problems and names == {"kept", "new"}
    return Line(
        "failover to a standby without the last 200 teachings, under a replica that had them",
        f"{'noticed and said' if noticed else 'NOT noticed'}, model "
        f"{'rebuilt, equal to a replay in every bit' if same else 'WRONG'}",
        "noticed, rebuilt, said",
    )


class _Said(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.words.append(record.getMessage())


def _started(work: Any, *arguments: Any) -> Any:
    process = FORK.Process(target=work, args=arguments, daemon=True)
    process.start()
    return process


def _kill(process: Any) -> None:
    os.kill(process.pid, signal.SIGKILL)
    process.join()


def _collect(told: Any, acknowledged: set[tuple[int, int]]) -> None:
    while not told.empty():
        acknowledged.add(told.get())


def _terminate_orderer(server: PostgresServer) -> None:
    """End the connection that holds the lock."""
    with psycopg.connect(server.url(), autocommit=True) as admin:
        admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' "
            "AND granted AND pid <> pg_backend_pid()"
        )


def _write(address: str, number: int, over: Any, told: Any) -> None:
    """Teach until the end; reports every acknowledged teaching."""
    count = 0
    while not over.is_set():
        try:
            with Memory(address) as memory:
                while not over.is_set():
                    count += 1
                    memory.teach(_vector(number, count), f"name {number % 7}", again=True)
                    told.put((number, count))
        except EverlearnError:
            time.sleep(0.1)


def _follow(address: str, over: Any) -> None:
    """Ask until the end; fails if the replica does not recover by itself."""
    while not over.is_set():
        try:
            memory = Memory(address, read_only=True)
        except EverlearnError:
            time.sleep(0.2)
            continue
        with memory:
            while not over.is_set():
                try:
                    memory.ask(np.ones(WIDTH))
                except EverlearnError:
                    time.sleep(0.1)
                time.sleep(0.01)
            end = memory.position
            memory.ask(np.ones(WIDTH), after=end)


def _vector(number: int, count: int) -> Any:
    rest = np.random.default_rng([number, count]).normal(size=WIDTH - 2)
    return np.concatenate([[number, count], rest]).astype(np.float32)


def _pairs(seed: int, count: int, name: str) -> Any:
    X = np.random.default_rng(seed).normal(size=(count, WIDTH))
    return ((x, name) for x in X)


def _wait_for_standby(server: PostgresServer) -> None:
    query = "SELECT COUNT(*) FROM pg_stat_replication WHERE replay_lsn = pg_current_wal_lsn()"
    with psycopg.connect(server.url(), autocommit=True) as admin:
        for _ in range(600):
            row = admin.execute(query).fetchone()
            if row is not None and row[0]:
                return
            time.sleep(0.1)
    raise RuntimeError("the standby does not follow")
