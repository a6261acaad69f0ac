"""Passive-Aggressive one example at a time, and for ever within a budget."""

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from river import linear_model
from sklearn.linear_model import SGDClassifier
from threadpoolctl import threadpool_limits

from benchmarks.side_by_side import Line, best_seconds
from everlearn import PassiveAggressive
from everlearn.size import size_in_bytes

WIDTH = 1280
N_STEPS = 2000
N_RIVER = 40
N_LONG = 10_000
BUDGET = 500


def examples(n: int, seed: int = 0) -> tuple[Any, Any]:
    """Two overlapping classes, so that nearly every step is a step."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, n)
    X = rng.normal(size=(n, WIDTH)) / np.sqrt(WIDTH)
    X[:, 0] += 0.1 * labels
    return X, labels


def step_lines() -> Iterator[Line]:
    X, labels = examples(N_STEPS)
    signs = labels.tolist()
    ours = PassiveAggressive().fit(X[:10], labels[:10])
    rival = SGDClassifier(loss="hinge", penalty=None, learning_rate="pa1", eta0=1.0)
    rival.partial_fit(X[:10], labels[:10], classes=[0, 1])
    streamed = linear_model.PAClassifier(C=1.0, mode=1)
    as_dicts = [dict(enumerate(row.tolist())) for row in X[:N_RIVER]]
    weights = np.ones(WIDTH)

    def learn_ours() -> None:
        for x, label in zip(X, signs, strict=True):
            ours.learn_one(x, label)

    def learn_scikit_learn() -> None:
        for row in range(200):
            rival.partial_fit(X[row : row + 1], labels[row : row + 1])

    def learn_river() -> None:
        for x, label in zip(as_dicts, signs[:N_RIVER], strict=True):
            streamed.learn_one(x, bool(label))

    def dot_products() -> None:
        for x in X:
            weights.dot(x)

    seconds = best_seconds(
        {
            "ours": learn_ours,
            "scikit-learn": learn_scikit_learn,
            "river": learn_river,
            "dot": dot_products,
        }
    )
    ours_us = 1e6 * seconds["ours"] / N_STEPS
    dot_us = 1e6 * seconds["dot"] / N_STEPS
    yield Line(
        f"linear PA step over the dot product alone, d={WIDTH}",
        f"{ours_us - dot_us:.1f} µs ({ours_us:.1f} µs against {dot_us:.1f} µs)",
        "at most 10 µs",
    )
    for name, n in (("scikit-learn", 200), ("river", N_RIVER)):
        theirs_us = 1e6 * seconds[name] / n
        yield Line(
            f"linear PA step against {name}'s, one at a time, d={WIDTH}",
            f"{theirs_us / ours_us:.0f} times as fast ({theirs_us:.0f} µs)",
            "at least 20 times",
        )


def budget_lines() -> Iterator[Line]:
    X, labels = examples(N_LONG)
    learner = PassiveAggressive(kernel="rbf", gamma=0.5, budget=BUDGET)
    learner.fit(X[:10], labels[:10])
    times = []
    sizes = []
    with threadpool_limits(limits=1):
        for start in range(0, N_LONG, 1000):
            rows = range(start, start + 1000)
            each = []
            for row in rows:
                begin = time.process_time()
                learner.learn_one(X[row], int(labels[row]))
                each.append(time.process_time() - begin)
            times.append(float(np.median(each)))
            sizes.append(size_in_bytes(learner))
    yield Line(
        f"Gaussian PA, {N_LONG:,} steps with a budget of {BUDGET}: last thousand against second",
        f"{times[-1] / times[1]:.2f} times the median step ({1e6 * times[-1]:.0f} µs)",
        "flat",
    )
    yield Line(
        f"Gaussian PA, budget of {BUDGET}: memory after {N_LONG:,} steps against after 2,000",
        f"{sizes[-1] / sizes[1]:.2f} times ({sizes[-1] / 1e6:.1f} MB)",
        "bounded",
    )


def lines() -> Iterator[Line]:
    yield from step_lines()
    yield from budget_lines()
