"""The overhead of the prequential loop.

The same learner, the same stream: once in a bare loop of two calls, once in ``prequential``.
"""

from collections.abc import Iterator

import numpy as np

from benchmarks.side_by_side import Line, best_seconds
from everlearn import NearestClassMean
from everlearn.evaluation import prequential

EXAMPLES, FEATURES = 20_000, 16


def lines() -> Iterator[Line]:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, EXAMPLES)
    X = rng.normal(size=(EXAMPLES, FEATURES)) + y[:, None]
    best = best_seconds(
        {
            "bare": lambda: bare_loop(X, y),
            "prequential": lambda: prequential(NearestClassMean(), X, y),
        }
    )
    overhead = (best["prequential"] - best["bare"]) / EXAMPLES
    yield Line(
        f"prequential loop beside a bare loop of predict_one and learn_one, {EXAMPLES} examples: "
        "overhead per example",
        f"{1e6 * overhead:.2f} µs",
        "< 15 µs",
    )


def bare_loop(X: np.ndarray, y: np.ndarray) -> None:
    learner = NearestClassMean()
    labels = y.tolist()
    learner.learn_one(X[0], labels[0])
    for x, label in zip(X[1:], labels[1:], strict=True):
        learner.predict_one(x)
        learner.learn_one(x, label)
