"""One example at a time, d = 512 features, K = 1,000 classes, 20,000 examples.

BLAS with one thread, except for the rows that say otherwise: those are processor time with its
default threads, while other processes keep every core busy.

Rivals start from the same 19,000 examples and process the next ones alternately with us, in short
stretches; the best stretch of each counts.
"""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.linalg import blas
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import RidgeClassifier, SGDClassifier
from sklearn.naive_bayes import GaussianNB
from threadpoolctl import threadpool_limits

from benchmarks.published import PublishedRLSC, PublishedSLDA
from benchmarks.side_by_side import Line, best_seconds
from everlearn import RecursiveRLSC, StreamingLDA

N_FEATURES, N_CLASSES, N_EXAMPLES, N_START = 512, 1000, 20_000, 19_000
N_MANY = 100_000
RECODING = 0.7
OURS = {"SLDA": StreamingLDA, "RLSC": RecursiveRLSC}

Rows = tuple[np.ndarray, np.ndarray]
Step = Callable[[np.ndarray, int], object]


def stream() -> Rows:
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(N_CLASSES, N_FEATURES))
    y = rng.integers(0, N_CLASSES, N_EXAMPLES)
    y[:N_CLASSES] = rng.permutation(N_CLASSES)
    return centres[y] + 2.5 * rng.normal(size=(N_EXAMPLES, N_FEATURES)), y


class Turn:
    """Repeats the next few examples for one contender."""

    def __init__(self, step: Step, X: np.ndarray, y: np.ndarray, size: int) -> None:
        self.step, self.X, self.y, self.size, self.at = step, X, y.tolist(), size, 0

    def __call__(self) -> None:
        for index in range(self.at, self.at + self.size):
            self.step(self.X[index % len(self.X)], self.y[index % len(self.X)])
        self.at += self.size


def per_step(turns: dict[str, Turn], rounds: int = 12) -> dict[str, float]:
    """Microseconds per step of each contender."""
    for turn in turns.values():
        turn()  # compile, fill caches
    best = best_seconds(turns, rounds=rounds)
    return {name: 1e6 * seconds / turns[name].size for name, seconds in best.items()}


def lines() -> Iterator[Line]:
    X, y = stream()
    start, rest = (X[:N_START], y[:N_START]), (X[N_START:], y[N_START:])
    with threadpool_limits(limits=1):
        yield from learning(start, rest)
        yield from asking(
            "SLDA",
            StreamingLDA(),
            PublishedSLDA(N_FEATURES, N_CLASSES, shrinkage=0.1, exact=True),
            start,
            rest,
        )
        rlsc = RecursiveRLSC(regularization=1.0, recoding=RECODING)
        published = PublishedRLSC(N_FEATURES, N_CLASSES, 1.0, RECODING)
        yield from asking("RLSC", rlsc, published, start, rest)
        yield from recoding_step(start, rest)
        yield from batches(start, rest)
        yield from the_whole_stream(X, y)
        yield from other_libraries(start, rest)
    yield from beside_busy_cores(start, rest)


def learning(start: Rows, rest: Rows) -> Iterator[Line]:
    ours = StreamingLDA().fit(*start)
    published = PublishedSLDA(N_FEATURES, N_CLASSES)
    published.start(*start)
    block = np.ascontiguousarray(rest[0][:100])
    scatter = np.zeros((N_FEATURES, N_FEATURES), order="F")
    us = per_step(
        {
            "ours": Turn(ours.learn_one, *rest, 512),
            "published": Turn(published.learn, *rest, 16),
            "syrk": Turn(
                lambda x, label: blas.dsyrk(1.0, block.T, beta=1.0, c=scatter, overwrite_c=1),
                *rest,
                4,
            ),
        }
    )
    syrk_row = us["syrk"] / len(block)
    yield Line(
        "SLDA, learn one example, against the published form",
        f"{us['ours']:.1f} µs against {us['published']:.0f} µs: "
        f"{us['published'] / us['ours']:.0f}×",
        "≥ 20×",
    )
    yield Line(
        "SLDA, learn one example, against one row of a bare rank-100 dsyrk",
        f"{us['ours']:.1f} µs against {syrk_row:.1f} µs: {us['ours'] / syrk_row:.1f}×",
        "≤ 4×",
    )


def asking(
    name: str,
    ours: StreamingLDA | RecursiveRLSC,
    published: PublishedSLDA | PublishedRLSC,
    start: Rows,
    rest: Rows,
) -> Iterator[Line]:
    ours.fit(*start)
    published.start(*start)
    answers: dict[str, list[Any]] = {"ours": [], "published": []}

    def our_step(x: np.ndarray, label: int) -> None:
        answers["ours"].append(ours.predict_one(x))
        ours.learn_one(x, label)

    def published_step(x: np.ndarray, label: int) -> None:
        answers["published"].append(published.ask(x))
        published.learn(x, label)

    us = per_step({"ours": Turn(our_step, *rest, 60), "published": Turn(published_step, *rest, 2)})
    both = list(zip(answers["ours"], answers["published"], strict=False))
    same = sum(a == b for a, b in both)
    yield Line(
        f"{name}, ask then learn at every step, against the published form",
        f"{us['ours']:.0f} µs against {us['published'] / 1e3:.1f} ms: "
        f"{us['published'] / us['ours']:.0f}×, {same} of {len(both)} labels the same",
        "≥ 200×, same labels",
    )


def recoding_step(start: Rows, rest: Rows) -> Iterator[Line]:
    ours = RecursiveRLSC(regularization=1.0, recoding=RECODING).fit(*start)
    published = PublishedRLSC(N_FEATURES, N_CLASSES, 1.0, RECODING)
    published.start(*start)
    ours.predict_one(rest[0][0])

    def our_step(x: np.ndarray, label: int) -> None:
        ours.learn_one(x, label)
        ours.predict_one(x)

    us = per_step({"ours": Turn(our_step, *rest, 60), "published": Turn(published.learn, *rest, 2)})
    yield Line(
        "RLSC, learn with recoding until the next answer, against factor update and full solve",
        f"{us['ours']:.0f} µs against {us['published'] / 1e3:.1f} ms: "
        f"{us['published'] / us['ours']:.0f}×",
        "≥ 50×",
    )


def batches(start: Rows, rest: Rows) -> Iterator[Line]:
    """Ten rows at a time against one by one, and one large batch against a bare dsyrk."""
    rng = np.random.default_rng(1)
    many = rng.normal(size=(N_MANY, N_FEATURES)).astype(np.float32)
    labels = rng.integers(0, N_CLASSES, N_MANY)
    whole = many.astype(np.float64)
    scatter = np.zeros((N_FEATURES, N_FEATURES), order="F")

    def dsyrk() -> None:
        blas.dsyrk(1.0, whole.T, beta=1.0, c=scatter, overwrite_c=1)

    for name, make in OURS.items():
        learner = make().fit(*start)
        tens = [(rest[0][i : i + 10], rest[1][i : i + 10]) for i in range(0, 500, 10)]
        us = per_step({"one": Turn(learner.learn_one, *rest, 512)})
        ten = best_seconds({"ten": lambda: [learner.partial_fit(*b) for b in tens]}, rounds=12)  # noqa: B023
        per_row = 1e6 * ten["ten"] / 500
        yield Line(
            f"{name}, a row in a batch of ten, against learn_one",
            f"{per_row:.1f} µs against {us['one']:.1f} µs: {per_row / us['one']:.1f}×",
            "≤ 2×",
        )
        seconds = best_seconds({"ours": lambda: make().fit(many, labels), "dsyrk": dsyrk}, rounds=3)  # noqa: B023
        yield Line(
            f"{name}, one batch of {N_MANY:,} rows of float32, against one dsyrk of that size",
            f"{seconds['ours']:.2f} s against {seconds['dsyrk']:.2f} s: "
            f"{seconds['ours'] / seconds['dsyrk']:.2f}×",
            "≤ 1.8×",
        )


def beside_busy_cores(start: Rows, rest: Rows) -> Iterator[Line]:
    """Processor time, BLAS as it is by default and every core busy, against one quiet thread."""
    for name, make in OURS.items():
        learner = make().fit(*start)
        steps = {
            "learn one": lambda x, y: learner.learn_one(x, y),  # noqa: B023
            "ask one": lambda x, y: learner.predict_one(x),  # noqa: B023
            "ten at a time": lambda x, y: learner.partial_fit(rest[0][:10], rest[1][:10]),  # noqa: B023
        }
        for what, step in steps.items():
            turn = Turn(step, *rest, 40)
            turn()
            with threadpool_limits(limits=1):
                quiet = processor_time(turn)
            with busy_cores():
                busy = processor_time(turn)
            yield Line(
                f"{name}, {what}, default threads beside busy cores, against one quiet thread",
                f"{busy:.0f} µs against {quiet:.0f} µs: {busy / quiet:.1f}×",
                "≤ 1.3×",
            )


def processor_time(turn: Turn, rounds: int = 8) -> float:
    """Microseconds of processor time per step, all threads together; the best round."""
    best = float("inf")
    for _ in range(rounds):
        begin = time.process_time()
        turn()
        best = min(best, time.process_time() - begin)
    return 1e6 * best / turn.size


@contextlib.contextmanager
def busy_cores() -> Iterator[None]:
    """One busy process per core."""
    command = [sys.executable, "-c", "while True: pass"]
    others = [subprocess.Popen(command) for _ in range(os.cpu_count() or 1)]
    try:
        time.sleep(0.5)
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def the_whole_stream(X: np.ndarray, y: np.ndarray) -> Iterator[Line]:
    """All 20,000, asked and taught one by one from scratch; the published form on stretches."""
    for name, ours, make in (
        (
            "SLDA",
            StreamingLDA(),
            lambda: PublishedSLDA(N_FEATURES, N_CLASSES, shrinkage=0.1, exact=True),
        ),
        (
            "RLSC",
            RecursiveRLSC(regularization=1.0, recoding=RECODING),
            lambda: PublishedRLSC(N_FEATURES, N_CLASSES, 1.0, RECODING),
        ),
    ):
        answers: list[Any] = [None]
        ours.learn_one(X[0], int(y[0]))
        for x, label in zip(X[1:], y[1:].tolist(), strict=True):
            answers.append(ours.predict_one(x))
            ours.learn_one(x, label)
        different = compared = 0
        # The first 1,000 are one of each class: before that there is no scatter to invert.
        for at in (2000, 3000, 5000, 10_000, 19_000):
            published = make()
            published.start(X[:at], y[:at])
            for index in range(at, at + 8):
                different += answers[index] != published.ask(X[index])
                published.learn(X[index], int(y[index]))
                compared += 1
        hits = float(np.mean(np.array(answers[10_000:]) == y[10_000:]))
        yield Line(
            f"{name}, 20,000 examples asked and taught one by one, answers beside the published",
            f"{compared - different} of {compared} the same; {hits:.1%} of the last 10,000 right",
            "same labels",
        )


def other_libraries(start: Rows, rest: Rows) -> Iterator[Line]:
    """Ask then learn, beside other libraries; each rival in its own best form."""
    classes = np.arange(N_CLASSES)
    ours = StreamingLDA().fit(*start)
    ours.predict_one(rest[0][0])
    sgd = SGDClassifier(loss="log_loss", random_state=0).partial_fit(*start, classes=classes)
    bayes = GaussianNB().partial_fit(*start, classes=classes)
    every = np.concatenate([start[0], rest[0]]), np.concatenate([start[1], rest[1]])

    def our_step(x: np.ndarray, label: int) -> None:
        ours.predict_one(x)
        ours.learn_one(x, label)

    def partial(rival: Any) -> Step:
        def step(x: np.ndarray, label: int) -> None:
            rival.predict(x[None])
            rival.partial_fit(x[None], [label])

        return step

    def refit(rival: Any) -> Step:
        return lambda x, label: rival.fit(*every).predict(x[None])

    turns = {
        "ours": Turn(our_step, *rest, 60),
        "SGDClassifier.partial_fit": Turn(partial(sgd), *rest, 3),
        "GaussianNB.partial_fit": Turn(partial(bayes), *rest, 3),
    }
    turns |= river_turn(start, rest)
    us = per_step(turns, rounds=6)
    refits = {
        "LinearDiscriminantAnalysis refitted": Turn(
            refit(LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.1)), *rest, 1
        ),
        "RidgeClassifier refitted": Turn(refit(RidgeClassifier()), *rest, 1),
    }
    us |= {name: 1e6 * s for name, s in best_seconds(refits, rounds=2).items()}
    for name in us:
        if name != "ours":
            yield Line(
                f"ask then learn, SLDA, against {name}",
                f"{us['ours']:.0f} µs against {us[name] / 1e3:,.1f} ms: "
                f"{us[name] / us['ours']:,.0f}×",
                "faster",
            )


def river_turn(start: Rows, rest: Rows) -> dict[str, Turn]:
    try:
        from river import naive_bayes
    except ImportError:
        print("  River is not installed (extra `bench`), so it is left out")
        return {}
    rival = naive_bayes.GaussianNB()
    for x, label in zip(start[0][:N_CLASSES], start[1][:N_CLASSES].tolist(), strict=True):
        rival.learn_one(dict(enumerate(x.tolist())), label)

    def step(x: np.ndarray, label: int) -> None:
        features = dict(enumerate(x.tolist()))
        rival.predict_one(features)
        rival.learn_one(features, label)

    return {"River GaussianNB": Turn(step, *rest, 1)}
