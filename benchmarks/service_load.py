"""64 writers with 1,000 teachings each and 8 askers at once, against a sequential replay.

``EVERLEARN_TEACHINGS`` is the number of teachings per writer (1,000).
"""

import os
import tempfile
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.serving import Hasty, Running, serving, together
from benchmarks.side_by_side import Line
from everlearn import Memory
from everlearn.memory.storage.log import counting_examples

WRITERS, ASKERS, WIDTH, NAMES = 64, 8, 16, 20
EACH = int(os.environ.get("EVERLEARN_TEACHINGS", "1000"))
# The log ends in the middle of a window, where a live model has an open part.
BEYOND = 7


def teaching_of(writer: int, number: int) -> tuple[list[float], str]:
    rng = np.random.default_rng((writer, number))
    vector = rng.normal(size=WIDTH).astype(np.float32)
    return [float(value) for value in vector], f"name {(writer + number) % NAMES}"


def lines() -> Iterator[Line]:
    with tempfile.TemporaryDirectory() as folder:
        served = Path(folder) / "served"
        start = time.perf_counter()
        with serving(served) as running:
            answered, halfway = load(running)
            client = Hasty(running.port)
            live = client.post("/v1/verify", {})
            client.close()
            grown = running.megabytes / halfway - 1
        seconds = time.perf_counter() - start
        lost, doubled, same = compared(served, Path(folder) / "replayed", live["model"])
    total = WRITERS * EACH + BEYOND
    words = "equal in every bit" if same and not live["problems"] else "another model"
    yield Line(
        f"{WRITERS} writers × {EACH} teachings, {ASKERS} askers: the live model and a replay",
        f"{words}; {answered} answers, {total / seconds:.0f} teachings a second",
        "equal, bit for bit",
    )
    yield Line("of them lost, doubled", f"{lost}, {doubled}", "0, 0")
    yield Line("memory from half of it to the end", f"{grown:+.1%}", "flat")


def load(running: Running) -> tuple[int, float]:
    """Teach everything; returns the number of answers in the meantime, and the memory half-way."""
    done, taught, answered = threading.Event(), [0] * WRITERS, [0] * ASKERS
    halfway = [0.0]

    def write(writer: int) -> None:
        client = Hasty(running.port)
        for number in range(EACH):
            vector, name = teaching_of(writer, number)
            assert client.post("/v1/teach", {"vector": vector, "name": name})["new"]
            taught[writer] += 1
            if not halfway[0] and sum(taught) >= WRITERS * EACH // 2:
                halfway[0] = running.megabytes
        client.close()

    def ask(asker: int) -> None:
        client = Hasty(running.port)
        rng = np.random.default_rng(asker)
        while not done.is_set():
            client.post("/v1/ask", {"vector": rng.normal(size=WIDTH).tolist()})
            answered[asker] += 1
        client.close()

    askers = threading.Thread(target=together, args=([partial(ask, n) for n in range(ASKERS)],))
    askers.start()
    together([partial(write, n) for n in range(WRITERS)])
    done.set()
    askers.join()
    client = Hasty(running.port)
    for number in range(BEYOND):
        vector, name = teaching_of(WRITERS, number)
        client.post("/v1/teach", {"vector": vector, "name": name})
    client.post("/v1/ask", {"vector": vector})
    client.close()
    return sum(answered), halfway[0]


def compared(served: Path, replayed: Path, live: str) -> tuple[int, int, bool]:
    """How many were lost and doubled, and whether a replay gives the same model."""
    expected = {
        np.array(teaching_of(w, n)[0], dtype=np.float32).tobytes(): teaching_of(w, n)[1]
        for w in range(WRITERS + 1)
        for n in range(EACH if w < WRITERS else BEYOND)
    }
    total, found = len(expected), 0
    with Memory(served, read_only=True) as memory, Memory(replayed) as replay:
        taught = list(counting_examples(memory._opened.journal))
        for name, example in taught:
            found += expected.pop(example.vector.tobytes(), None) == name
        replay.teach_many((example.vector, name) for name, example in taught)
        same = replay.verify().model == live == memory.verify().model
    return total - found, len(taught) - found, same
