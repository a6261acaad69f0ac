"""Asking among 10,000 and 100,000 classes of 512 features: exact, and near the speed of memory.

    python -m benchmarks many_classes

Processor time of one thread, so that a busy machine tells the same; medians.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from everlearn_papers.data.packs import CIFAR100, arrays
from threadpoolctl import threadpool_limits

from benchmarks.side_by_side import Line
from everlearn import NearestClassMean, RecursiveRLSC, StreamingLDA
from everlearn.arrays import unit_rows
from everlearn.statistics.products import products_one

WIDTH, ASKED = 512, 60
WANTED = {10_000: 0.8, 100_000: 8.0}
LEARNERS: tuple[Callable[[], Any], ...] = (NearestClassMean, StreamingLDA, RecursiveRLSC)


def lines() -> Iterator[Line]:
    with threadpool_limits(limits=1):
        for n_classes, wanted in WANTED.items():
            rng = np.random.default_rng(0)
            means = rng.normal(size=(n_classes, WIDTH))
            means /= np.linalg.norm(means, axis=1)[:, None]
            reading = milliseconds(partial(products_one, means), rng.normal(size=(9, WIDTH)))
            for make in LEARNERS:
                yield asked(make, means, wanted, reading)
        yield from real_features()


def real_features() -> Iterator[Line]:
    """Pairs of pictures of CIFAR-100 as classes, features brought to 512 by a random rotation."""
    learned, labels, new = arrays(CIFAR100, "features_train", "labels_train", "features_test")
    rng = np.random.default_rng(0)
    turned = np.linalg.qr(rng.normal(size=(learned.shape[1], WIDTH)))[0]
    order = np.argsort(labels, kind="stable")
    rows = unit_rows(learned.astype(np.float64)[order] @ turned)
    questions = unit_rows(new.astype(np.float64) @ turned)
    for n_classes, wanted in ((10_000, 0.4), (100_000, 2.5)):
        first = rng.integers(len(rows) - 4, size=n_classes)
        other = first + rng.integers(1, 4, size=n_classes)
        for make in LEARNERS:
            learner = make().partial_fit(rows[first], np.arange(n_classes))
            learner.partial_fit(rows[other], np.arange(n_classes))
            for x in questions[ASKED : ASKED + 100]:
                learner.predict_one(x)
            spent = milliseconds(learner.predict_one, questions[:ASKED])
            whole = milliseconds(learner._scores_one, questions[:ASKED])
            yield Line(
                f"{type(learner).__name__}, among {n_classes:,} pairs of real pictures (d=512)",
                f"{spent:.2f} ms; scoring all {whole:.2f} ms",
                f"at most {wanted} ms",
            )


def asked(make: Callable[[], Any], means: np.ndarray, wanted: float, reading: float) -> Line:
    """Ask a learner of so many classes, each known from one example and 2,000 from two."""
    rng = np.random.default_rng(1)
    n_classes = len(means)
    learner = make().partial_fit(means, np.arange(n_classes))
    learner.partial_fit(means[:2000] + 0.02 * rng.normal(size=(2000, WIDTH)), np.arange(2000))
    chosen = rng.integers(n_classes, size=ASKED + 100)
    questions = means[chosen] + 0.02 * rng.normal(size=(len(chosen), WIDTH))
    for x in questions[ASKED:]:  # the copy of one byte per number is made meanwhile
        learner.predict_one(x)
    spent = milliseconds(learner.predict_one, questions[:ASKED])
    whole = milliseconds(learner._scores_one, questions[:ASKED])
    best = [int(learner._scores_one(x).argmax()) for x in questions[:ASKED]]
    same = [learner.registry_.by_slot[slot] for slot in best]
    differ = sum(a != learner.predict_one(x) for a, x in zip(same, questions, strict=False))
    return Line(
        f"{type(learner).__name__}, one question among {n_classes:,} classes (d=512)",
        f"{spent:.2f} ms; scoring all {whole:.2f} ms; reading the means once {reading:.2f} ms; "
        f"{differ} of {ASKED} answers differ",
        f"at most {wanted} ms, none",
    )


def milliseconds(ask: Callable[[np.ndarray], Any], questions: np.ndarray) -> float:
    spent = []
    for x in questions:
        clock = time.thread_time()
        ask(x)
        spent.append(time.thread_time() - clock)
    return 1e3 * float(np.median(spent))
