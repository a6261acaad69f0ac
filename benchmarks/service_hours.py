"""The service at half load for a long time: its memory and its latency at the end.

``EVERLEARN_SECONDS`` is the duration (3,600). Half load: one teaching for every nine questions, at
half the rate that the machine reached in a short first run.
"""

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.serving import Hasty, Running, quantile, serving
from benchmarks.side_by_side import Line

SECONDS = float(os.environ.get("EVERLEARN_SECONDS", "3600"))
WARM_UP = 30.0
WIDTH, NAMES = 64, 50


def lines() -> Iterator[Line]:
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder) / "memory") as running:
        full = WARM_UP / len(run(running, WARM_UP, pause=0.0)[0])
        seconds, megabytes = run(running, SECONDS, pause=2 * full)
    quarter = max(1, len(seconds) // 4)
    first, last = (1e3 * quantile(part, 0.99) for part in (seconds[:quarter], seconds[-quarter:]))
    # The second tenth is where the first caches have filled.
    tenth = max(1, len(megabytes) // 10)
    grown = megabytes[-1] / megabytes[tenth] - 1
    yield Line(
        f"{SECONDS / 60:.0f} minutes at half load, {1 / (2 * full):.0f} requests a second: memory",
        f"{grown:+.1%}, {megabytes[-1]:.0f} MB",
        "within 2 %",
    )
    yield Line("p99 of its first and last quarter", f"{first:.1f} ms, {last:.1f} ms", "flat")


def run(running: Running, length: float, *, pause: float) -> tuple[list[float], list[float]]:
    """Seconds of each request, and the memory every now and then."""
    client, rng = Hasty(running.port), np.random.default_rng(0)
    centres = rng.normal(size=(NAMES, WIDTH))
    seconds: list[float] = []
    megabytes = [running.megabytes]
    began = time.perf_counter()
    while (now := time.perf_counter()) - began < length:
        number = len(seconds)
        name = number % NAMES
        vector = (centres[name] + rng.normal(size=WIDTH)).tolist()
        if number % 10:
            client.post("/v1/ask", {"vector": vector})
        else:
            client.post("/v1/teach", {"vector": vector, "name": f"name {name}"})
        seconds.append(time.perf_counter() - now)
        if number % 100 == 0:
            megabytes.append(running.megabytes)
        time.sleep(max(0.0, pause - seconds[-1]))
    client.close()
    return seconds, megabytes
