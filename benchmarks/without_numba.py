"""What compiled loops bring: the same work with and without numba, in fresh processes.

First use counts everything from the import on, with nothing compiled beforehand. Steady use is
asking and learning one example at a time, and learning in batches, after a first round.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator

from benchmarks.first_use import HIDDEN, PROGRAM
from benchmarks.side_by_side import Line

STEADY = """
import json, sys, time
import numpy as np
import everlearn

def best(work, times=7):
    work()
    found = []
    for _ in range(times):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return min(found)

d, K = 512, 100
rng = np.random.default_rng(0)
X, y = rng.standard_normal((2000, d)), np.arange(2000) % K
learner = getattr(everlearn, sys.argv[1])().partial_fit(X, y)

def stream():
    for x, label in zip(X[:50], y[:50]):
        learner.predict_one(x)
        learner.learn_one(x, label)

print(json.dumps([best(stream) / 50, best(lambda: learner.partial_fit(X, y)) / 2000,
                  best(lambda: learner.predict(X)) / 2000]))
"""


def lines() -> Iterator[Line]:
    for name in ("NearestClassMean", "StreamingLDA", "RecursiveRLSC"):
        with_it = sum(_run(PROGRAM, name, compiled=True))
        without = sum(_run(PROGRAM, name, compiled=False))
        yield Line(
            f"{name}: first use, CPU, without numba (with it)",
            f"{without:.1f} s ({with_it:.1f} s)",
            "≤ 1.0 s",
        )
    for name in ("NearestClassMean", "StreamingLDA", "RecursiveRLSC"):
        fast, slow = (_run(STEADY, name, compiled=way) for way in (True, False))
        words = ("ask and learn one", "learn in batches", "ask in batches")
        said = "; ".join(
            f"{word} {1e6 * without:.0f} µs ({1e6 * with_it:.0f})"
            for word, without, with_it in zip(words, slow, fast, strict=True)
        )
        yield Line(f"{name}, 512 features, 100 classes, without numba (with it)", said, "")


def _run(program: str, name: str, *, compiled: bool) -> list[float]:
    inherited = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory() as cache:
        chosen = {"EVERLEARN_COMPILED": str(int(compiled)), "NUMBA_CACHE_DIR": cache}
        done = subprocess.run(
            [sys.executable, "-c", HIDDEN + program, name],
            env=inherited | {"OPENBLAS_NUM_THREADS": "1"} | chosen,
            capture_output=True,
            text=True,
            check=True,
        )
    seconds: list[float] = json.loads(done.stdout)
    return seconds
