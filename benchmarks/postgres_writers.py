"""Many processes teach one Memory in PostgreSQL while replicas are asked: nothing lost or doubled.

``EVERLEARN_WRITERS`` processes (16) teach ``EVERLEARN_EACH`` vectors each (2,000), one by one and
in batches of 50, while four replicas follow and answer. Then every replica and a folder restored
from a backup are compared by the digest of everything learned.
"""

import multiprocessing
import os
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.postgres_server import PostgresServer, warm_up
from benchmarks.side_by_side import Line
from everlearn import Memory
from everlearn.memory.storage.log import counting_examples

WRITERS = int(os.environ.get("EVERLEARN_WRITERS", "16"))
EACH = int(os.environ.get("EVERLEARN_EACH", "2000"))
REPLICAS = 4
WIDTH = 64
NAMES = 40
BATCH = 50
# At most, until every replica has seen all teachings.
REPLICA_SECONDS = 120.0
# Between two questions of a replica.
PAUSE_SECONDS = 0.02

FORK = multiprocessing.get_context("fork")


def lines() -> Iterator[Line]:
    warm_up()
    with PostgresServer() as server, tempfile.TemporaryDirectory() as folder:
        yield measured(f"{server.url()}#crowd", Path(folder))


def measured(address: str, folder: Path) -> Line:
    Memory(address).close()
    over, results = FORK.Event(), FORK.Queue()
    replicas = [
        FORK.Process(target=follow, args=(address, over, results), daemon=True)
        for _ in range(REPLICAS)
    ]
    writers = [FORK.Process(target=write, args=(address, k), daemon=True) for k in range(WRITERS)]
    started = time.perf_counter()
    for process in [*replicas, *writers]:
        process.start()
    for process in writers:
        process.join()
    seconds = time.perf_counter() - started
    over.set()
    seen = [results.get(timeout=REPLICA_SECONDS) for _ in replicas]
    for process in replicas:
        process.join()
    with Memory(address, read_only=True) as memory:
        found = Counter(
            (name, example.vector.tobytes())
            for name, example in counting_examples(memory._opened.journal)
        )
        verified = memory.verify()
        memory.backup(folder / "copy")
    with Memory(folder / "copy") as copy:
        replayed = copy._opened.read(copy._opened.history.replayed).digest()
    wanted = {
        (f"name {n % NAMES}", x.tobytes()) for k in range(WRITERS) for n, x in enumerate(rows(k))
    }
    lost = len(wanted - set(found))
    doubled = sum(count > 1 for count in found.values())
    models = {verified.model, replayed, *(model for model, _ in seen)}
    failed = sum(process.exitcode != 0 for process in [*writers, *replicas])
    total = WRITERS * EACH
    return Line(
        f"{WRITERS} writer processes × {EACH} teachings, {REPLICAS} replicas asking: lost, "
        "doubled, different models among replicas, a verified reader and a folder's replay",
        f"{lost}, {doubled}, {len(models) - 1} of {total}; {len(verified.problems)} problems, "
        f"{failed} processes failed; {total / seconds:.0f} teachings/s beside "
        f"{sum(asked for _, asked in seen)} answers",
        "0, 0, 0",
    )


def rows(writer: int) -> Any:
    return np.random.default_rng(writer).normal(size=(EACH, WIDTH)).astype(np.float32)


def write(address: str, writer: int) -> None:
    """Half one by one, half in batches."""
    pairs = [(x, f"name {n % NAMES}") for n, x in enumerate(rows(writer))]
    half = EACH // 2
    with Memory(address) as memory:
        for x, name in pairs[:half]:
            memory.teach(x, name)
        for start in range(half, EACH, BATCH):
            memory.teach_many(pairs[start : start + BATCH])


def follow(address: str, over: Event, results: Any) -> None:
    """Ask until the writers are done; returns the digest of what was learned, and the answers."""
    rng, asked = np.random.default_rng(os.getpid()), 0
    with Memory(address, read_only=True) as memory:
        while not over.is_set():
            memory.ask(rng.normal(size=WIDTH))
            asked += 1
            time.sleep(PAUSE_SECONDS)
        end = memory.position
        memory.ask(rng.normal(size=WIDTH), after=end)
        opened = memory._opened
        results.put((opened.read(lambda: opened.model().digest()), asked))
