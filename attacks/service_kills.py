"""Kills the service with -9 under load; every acknowledged teaching must be there, once.

``EVERLEARN_KILLS`` is the number of kills (100).
"""

import http.client
import os
import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.service_load import ASKERS, WIDTH, teaching_of
from benchmarks.serving import Hasty, free_port, start, together
from benchmarks.side_by_side import Line
from everlearn import Memory
from everlearn.memory.storage.log import counting_examples

KILLS = int(os.environ.get("EVERLEARN_KILLS", "100"))
WRITERS = 64
# Seconds of teaching before each kill.
SECONDS = (0.05, 0.8)


def lines() -> Iterator[Line]:
    with tempfile.TemporaryDirectory() as folder:
        acknowledged = killed(Path(folder) / "memory")
        with Memory(Path(folder) / "memory") as memory:
            found = Counter(
                (name, example.vector.tobytes())
                for name, example in counting_examples(memory._opened.journal)
            )
            problems = memory.verify().problems
    lost = sum(key not in found for key in acknowledged)
    doubled = sum(count > 1 for count in found.values())
    yield Line(
        f"{KILLS} kill -9 of the service under {WRITERS} writers and {ASKERS} askers: "
        "acknowledged and lost, doubled",
        f"{lost}, {doubled} of {len(acknowledged)} acknowledged; {len(problems)} problems",
        "0, 0",
    )


def killed(folder: Path) -> set[tuple[str, bytes]]:
    """Everything acknowledged before or after a kill."""
    port, over = free_port(), threading.Event()
    acknowledged: list[set[tuple[str, bytes]]] = [set() for _ in range(WRITERS)]

    def again(client: Hasty) -> None:
        client.again()
        time.sleep(0.25)

    def write(writer: int) -> None:
        client, number = Hasty(port), 0
        while not over.is_set():
            vector, name = teaching_of(writer, number)
            try:
                # Sent again after a kill, it may already be there; that is not a second teaching.
                client.post("/v1/teach", {"vector": vector, "name": name})
            except (OSError, http.client.HTTPException):
                again(client)
                continue
            key = np.array(vector, dtype=np.float32).tobytes()
            acknowledged[writer].add((name, key))
            number += 1
        client.close()

    def ask(asker: int) -> None:
        client, rng = Hasty(port), np.random.default_rng(asker)
        while not over.is_set():
            try:
                client.post("/v1/ask", {"vector": rng.normal(size=WIDTH).tolist()})
            except (OSError, http.client.HTTPException):
                again(client)
        client.close()

    works = [partial(write, n) for n in range(WRITERS)] + [partial(ask, n) for n in range(ASKERS)]
    running = start(folder, port)
    clients = threading.Thread(target=together, args=(works,))
    clients.start()
    chance = random.Random(0)
    for _ in range(KILLS):
        before = sum(map(len, acknowledged))
        while sum(map(len, acknowledged)) == before:
            time.sleep(0.01)
        time.sleep(chance.uniform(*SECONDS))
        running.kill()
        running = start(folder, port)
    over.set()
    clients.join()
    running.stop()
    return set().union(*acknowledged)
