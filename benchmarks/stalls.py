"""The longest call of a stream against the median: 1,280 features, 200 classes, learn and ask.

    python -m benchmarks stalls
    EVERLEARN_STEPS=1000000 EVERLEARN_ONLY=StreamingLDA python -m benchmarks stalls

Processor time of one thread, of every call from the first example on. The stream is the same in
every pass (``EVERLEARN_PASSES``, 3 by default), and each call counts with the least time that it
took in any of them: a call that is long in every pass is long because of what it does, and what the
system did for other processes during it falls out. The first two questions, which get fresh memory
for factors from the system, are shown apart.
"""

import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.side_by_side import Line
from everlearn import AutoClassifier, NearestClassMean, RecursiveRLSC, StreamingLDA

WIDTH, N_CLASSES = 1280, 200
N_EXAMPLES = int(os.environ.get("EVERLEARN_STEPS", "6000"))
AUTO_STEPS = int(os.environ.get("EVERLEARN_AUTO_STEPS", "1500"))
PASSES = int(os.environ.get("EVERLEARN_PASSES", "3"))
ONLY = os.environ.get("EVERLEARN_ONLY", "")
# The last takes 20 ms a step after 8,000 (benchmarks/stalls_in_parts.py), so it has its own number.
LEARNERS: dict[str, tuple[Callable[[], Any], int, int]] = {
    "NearestClassMean": (NearestClassMean, N_EXAMPLES, 10),
    "StreamingLDA": (StreamingLDA, N_EXAMPLES, 10),
    "RecursiveRLSC": (RecursiveRLSC, N_EXAMPLES, 10),
    "AutoClassifier(memory_mb=0)": (partial(AutoClassifier, memory_mb=0), N_EXAMPLES, 50),
    "AutoClassifier": (AutoClassifier, AUTO_STEPS, 50),
}
# Questions that get memory from the system for the first time.
FIRST = 2


def lines() -> Iterator[Line]:
    with threadpool_limits(limits=1):
        for name in LEARNERS:
            if ONLY in ("", name):
                yield line(name)


def line(name: str) -> Line:
    make, steps, wanted = LEARNERS[name]
    compile_for(make())
    asks, learns = least = stream(make(), steps)
    for _ in range(PASSES - 1):
        np.minimum(least, stream(make(), steps), out=least)
    return Line(
        f"{name}, longest predict_one against the median (d=1,280)",
        f"{described(asks[FIRST:])}; the first two {1e3 * asks[:FIRST].max():.1f} ms; "
        f"learn_one {described(learns[FIRST:])}; {steps:,} steps, the least of {PASSES} passes",
        f"at most {wanted} times",
    )


def compile_for(learner: Any) -> None:
    """Learn and ask something small, so that nothing is compiled while time is taken."""
    for step in range(300):
        learner.learn_one(np.full(64, float(step % 7)), step % 5)
        learner.predict_one(np.zeros(64))


def stream(learner: Any, steps: int) -> np.ndarray:
    """Processor time of every question, and of every example learned: two rows."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(N_CLASSES, WIDTH))
    spent = np.empty((2, steps))
    asks, learns = spent
    for step in range(steps):
        label = int(rng.integers(N_CLASSES))
        x = centres[label] + rng.normal(size=WIDTH)
        clock = time.thread_time()
        learner.learn_one(x, label)
        learns[step] = time.thread_time() - clock
        clock = time.thread_time()
        learner.predict_one(x)
        asks[step] = time.thread_time() - clock
    return spent


def described(spent: np.ndarray) -> str:
    middle, rare, longest = 1e3 * np.percentile(spent, [50, 99.9, 100])
    return (
        f"median {middle:.3g} ms, p99.9 {rare:.3g} ms, longest {longest:.3g} ms at call "
        f"{int(spent.argmax()) + FIRST:,}: {longest / middle:.1f} times"
    )
