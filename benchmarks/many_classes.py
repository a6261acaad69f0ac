"""Asking among 10,000 and 100,000 classes of 512 features: exact, and near the speed of memory.

    python -m benchmarks many_classes
    EVERLEARN_WIDTH=256 python -m benchmarks many_classes

``EVERLEARN_WIDTH`` is the number of features for learning examples of a million classes, 64 by
default. Medians of processor time of one thread, so that other load does not matter. Ratios are to
reading all means once in double precision, and once with one byte per number.
"""

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from everlearn_papers.data.packs import CIFAR100, arrays
from threadpoolctl import threadpool_limits

from benchmarks.side_by_side import Line
from everlearn import NearestClassMean, RecursiveRLSC, StreamingLDA, load, save
from everlearn.arrays import softmax, unit_rows
from everlearn.statistics.kernels import code_products
from everlearn.statistics.products import products_one

WIDTH, ASKED = 512, 60
LEARNED_WIDTH = int(os.environ.get("EVERLEARN_WIDTH", "64"))
WANTED = {10_000: 0.8, 100_000: 8.0}
LEARNERS: tuple[Callable[[], Any], ...] = (NearestClassMean, StreamingLDA, RecursiveRLSC)


def lines() -> Iterator[Line]:
    with threadpool_limits(limits=1):
        for n_classes, wanted in WANTED.items():
            rng = np.random.default_rng(0)
            means = rng.normal(size=(n_classes, WIDTH))
            means /= np.linalg.norm(means, axis=1)[:, None]
            reading = milliseconds(partial(products_one, means), rng.normal(size=(9, WIDTH)))
            screen = rng.integers(-127, 128, size=(n_classes, WIDTH), dtype=np.int8)
            into = np.empty(n_classes, dtype=np.int32)
            queries = rng.integers(-99, 100, size=(9, WIDTH), dtype=np.int16)
            screening = milliseconds(lambda q: code_products(screen, q, into), queries)  # noqa: B023
            for make in LEARNERS:
                yield asked(make, means, wanted, reading, screening)
                yield most_likely(make, means)
        yield from many_rows(means)
        yield from files(means)
        yield from real_features()
        yield from learning()


def many_rows(means: np.ndarray) -> Iterator[Line]:
    """1,000 questions at once against one product of the same size."""
    rng = np.random.default_rng(2)
    questions = means[rng.integers(len(means), size=1000)] + 0.02 * rng.normal(size=(1000, WIDTH))
    product = seconds(partial(np.matmul, questions, means.T, np.empty((1000, len(means)))))
    for make in LEARNERS:
        learner = make().partial_fit(means, np.arange(len(means)))
        learner.predict(questions[:20])
        spent = seconds(lambda: learner.predict(questions))  # noqa: B023
        yield Line(
            f"{type(learner).__name__}, 1,000 rows among {len(means):,} classes (d=512)",
            f"{spent:.2f} s, {spent / product:.2f} times one dgemm of that size",
            "at most 1.5 times",
        )


def files(means: np.ndarray) -> Iterator[Line]:
    """A file of many classes, read and mapped."""
    learner = NearestClassMean().partial_fit(means, np.arange(len(means)))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        save(learner, path)
        load(path, mmap=True)
        read, mapped = seconds(lambda: load(path)), seconds(lambda: load(path, mmap=True))
        size = path.stat().st_size / 1e6
    yield Line(
        f"a file of {len(means):,} classes (d=512), {size:.0f} MB",
        f"load {read:.2f} s, mapped {mapped:.2f} s",
        "mapped at most 0.2 s",
    )


def learning(width: int = LEARNED_WIDTH, many: int = 1_000_000) -> Iterator[Line]:
    """An example of a known class, and the first of a new one: many classes against 1,000."""
    rng = np.random.default_rng(3)
    for make in (NearestClassMean, StreamingLDA, RecursiveRLSC):
        spent = {}
        for n_classes in (1000, many):
            learner = make().partial_fit(rng.normal(size=(n_classes, width)), np.arange(n_classes))
            # The first new class doubles the capacity.
            learner.learn_one(rng.normal(size=width), n_classes)
            rows = rng.normal(size=(4000, width))
            known = rng.integers(n_classes, size=2000).tolist()
            spent[n_classes] = [
                milliseconds_each(learner.learn_one, rows[:2000], known),
                milliseconds_each(learner.learn_one, rows[2000:2400], range(n_classes + 1, 2**40)),
            ]
        one, new = (spent[many][i] / spent[1000][i] for i in (0, 1))
        yield Line(
            f"{make.__name__}, learn one among {many:,} classes against 1,000 (d={width})",
            f"{1e3 * spent[many][0]:.1f} µs, {one:.2f} times; a new class "
            f"{1e3 * spent[many][1]:.1f} µs, {new:.2f} times",
            "at most 1.5 times",
        )


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


def asked(
    make: Callable[[], Any], means: np.ndarray, wanted: float, reading: float, screening: float
) -> Line:
    """Ask a learner of so many classes, each known from one example and 2,000 from two."""
    rng = np.random.default_rng(1)
    n_classes = len(means)
    learner = make().partial_fit(means, np.arange(n_classes))
    learner.partial_fit(means[:2000] + 0.02 * rng.normal(size=(2000, WIDTH)), np.arange(2000))
    chosen = rng.integers(n_classes, size=ASKED + 100)
    questions = means[chosen] + 0.02 * rng.normal(size=(len(chosen), WIDTH))
    for x in questions[ASKED:]:  # the one-byte copy is built in the meantime
        learner.predict_one(x)
    spent = milliseconds(learner.predict_one, questions[:ASKED])
    whole = milliseconds(learner._scores_one, questions[:ASKED])
    best = [int(learner._scores_one(x).argmax()) for x in questions[:ASKED]]
    same = [learner.registry_.by_slot[slot] for slot in best]
    differ = sum(a != learner.predict_one(x) for a, x in zip(same, questions, strict=False))
    return Line(
        f"{type(learner).__name__}, one question among {n_classes:,} classes (d=512)",
        f"{spent:.2f} ms; scoring all {whole:.2f} ms; {spent / reading:.2f} times reading the "
        f"means once ({reading:.2f} ms), {spent / screening:.2f} times reading their screen once "
        f"({screening:.2f} ms); {differ} of {ASKED} answers differ",
        f"at most {wanted} ms, none",
    )


def most_likely(make: Callable[[], Any], means: np.ndarray) -> Line:
    """The five most likely classes, and how far their probabilities are from those of all."""
    rng = np.random.default_rng(4)
    n_classes = len(means)
    learner = make().partial_fit(means, np.arange(n_classes))
    chosen = rng.integers(n_classes, size=120)
    questions = means[chosen] + 0.02 * rng.normal(size=(len(chosen), WIDTH))
    for x in questions[20:]:
        learner.predict_one(x)
    learner.top_one(questions[0])  # the temperature is computed once
    spent = milliseconds(learner.top_one, questions[:20])
    worst = 0.0
    for x in questions[:5]:
        scores = learner._scores_one(x) * learner._screened_question(x).unit
        shares = np.sort(softmax(scores / learner.temperature_))[::-1][:5]
        found = np.array([share for _, share in learner.top_one(x)])
        worst = max(worst, float(np.abs(found / np.maximum(shares, 1e-300) - 1.0).max()))
    return Line(
        f"{type(learner).__name__}, the five most likely of {n_classes:,} classes (d=512)",
        f"{spent:.2f} ms; probabilities differ by {worst:.1e} of themselves",
        "at most 0.025",
    )


def seconds(action: Callable[[], object]) -> float:
    """The better of two runs."""
    spent = []
    for _ in range(2):
        clock = time.thread_time()
        action()
        spent.append(time.thread_time() - clock)
    return min(spent)


def milliseconds_each(learn: Callable[[Any, Any], object], rows: Any, labels: Any) -> float:
    """The median time of one example."""
    spent = []
    for x, label in zip(rows, labels, strict=False):
        clock = time.thread_time()
        learn(x, label)
        spent.append(time.thread_time() - clock)
    return 1e3 * float(np.median(spent))


def milliseconds(ask: Callable[[np.ndarray], Any], questions: np.ndarray) -> float:
    spent = []
    for x in questions:
        clock = time.thread_time()
        ask(x)
        spent.append(time.thread_time() - clock)
    return 1e3 * float(np.median(spent))
