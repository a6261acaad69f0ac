"""The longest call of a stream against the median: 1,280 features, 200 classes, learn and ask.

    python -m benchmarks stalls
    EVERLEARN_STEPS=1000000 python -m benchmarks stalls

Processor time of one thread, of every call from the first example on. The first two questions,
which get fresh memory for factors from the system, are shown apart.
"""

import os
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.side_by_side import Line
from everlearn import AutoClassifier, NearestClassMean, RecursiveRLSC, StreamingLDA

WIDTH, N_CLASSES = 1280, 200
N_EXAMPLES = int(os.environ.get("EVERLEARN_STEPS", "6000"))
AUTO_STEPS = 1500
# Questions that get memory from the system for the first time.
FIRST = 2


def lines() -> Iterator[Line]:
    with threadpool_limits(limits=1):
        for make in (NearestClassMean, StreamingLDA, RecursiveRLSC):
            warm = make()
            for step in range(300):  # compiles
                warm.learn_one(np.full(64, float(step % 7)), step % 5)
                warm.predict_one(np.zeros(64))
            asks, learns = stream(make())
            yield Line(
                f"{make.__name__}, longest predict_one against the median (d=1,280)",
                f"{described(asks[FIRST:])}; the first two {1e3 * asks[:FIRST].max():.1f} ms; "
                f"learn_one {described(learns[FIRST:])}; {N_EXAMPLES:,} steps",
                "at most 10 times",
            )
        yield chosen_anew()


def chosen_anew() -> Line:
    """``AutoClassifier`` chooses anew whenever a tenth more was learned."""
    asks, _ = stream(AutoClassifier(), AUTO_STEPS)
    return Line(
        "AutoClassifier, longest predict_one against the median (d=1,280)",
        f"{described(asks[FIRST:])}; {np.count_nonzero(asks > 0.1)} of {AUTO_STEPS:,} questions "
        f"take more than 0.1 s, {1e3 * float(np.median(asks[asks > 0.1])):.0f} ms in the median",
        "at most 50 times",
    )


def stream(learner: Any, steps: int = N_EXAMPLES) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(N_CLASSES, WIDTH))
    asks, learns = np.empty(steps), np.empty(steps)
    for step in range(steps):
        label = int(rng.integers(N_CLASSES))
        x = centres[label] + rng.normal(size=WIDTH)
        clock = time.thread_time()
        learner.learn_one(x, label)
        learns[step] = time.thread_time() - clock
        clock = time.thread_time()
        learner.predict_one(x)
        asks[step] = time.thread_time() - clock
    return asks, learns


def described(spent: np.ndarray) -> str:
    middle, rare, longest = 1e3 * np.percentile(spent, [50, 99.9, 100])
    return (
        f"median {middle:.2f} ms, p99.9 {rare:.2f} ms, longest {longest:.1f} ms: "
        f"{longest / middle:.0f} times"
    )
