"""A million single examples, d = 128: the same cost at the end as at the start, without drift."""

import time
from collections.abc import Iterator

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.side_by_side import Line
from everlearn import RecursiveRLSC, StreamingLDA

N_FEATURES, N_CLASSES, N_EXAMPLES, BLOCK = 128, 20, 1_000_000, 10_000
WINDOW = 1000
CONDITION = 1e4
RIDGE = 100.0


class Examples:
    """A million examples generated block by block, the same in every pass."""

    def __init__(self) -> None:
        rng = np.random.default_rng(1)
        # Standard deviations from 1 to 1/√CONDITION make a Gram matrix of that condition number.
        axes, _ = np.linalg.qr(rng.normal(size=(N_FEATURES, N_FEATURES)))
        self.shape = axes * np.logspace(0, -0.5 * np.log10(CONDITION), N_FEATURES)
        self.centres = rng.normal(size=(N_CLASSES, N_FEATURES)) @ self.shape.T

    def block(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng([2, number])
        y = rng.integers(0, N_CLASSES, BLOCK)
        return self.centres[y] + rng.normal(size=(BLOCK, N_FEATURES)) @ self.shape.T, y


def lines() -> Iterator[Line]:
    with threadpool_limits(limits=1):
        examples = Examples()
        rlsc = RecursiveRLSC(regularization=RIDGE, recoding=0.0)
        learners: dict[str, StreamingLDA | RecursiveRLSC] = {"SLDA": StreamingLDA(), "RLSC": rlsc}
        for name, learner in learners.items():
            early, late = run(learner, examples)
            yield Line(
                f"{name}, ask then learn, example 1,000,000 against example 1,000 (d=128)",
                f"{late:.1f} µs against {early:.1f} µs: {late / early - 1:+.0%}",
                "within 10 %",
            )
        yield drift(rlsc, examples)


def run(learner: StreamingLDA | RecursiveRLSC, examples: Examples) -> tuple[float, float]:
    """Ask and teach all; microseconds per step after the first 1,000 and at the end."""
    warm_up(type(learner)(**learner.get_params()), examples)
    early = late = float("inf")
    for number in range(N_EXAMPLES // BLOCK):
        X, y = examples.block(number)
        labels = y.tolist()
        for start in range(0, BLOCK, WINDOW):
            clock = time.perf_counter()
            for index in range(start, start + WINDOW):
                if number or index:
                    learner.predict_one(X[index])
                learner.learn_one(X[index], labels[index])
            us = 1e6 * (time.perf_counter() - clock) / WINDOW
            if number == 0 and start:
                early = min(early, us)
            if number == N_EXAMPLES // BLOCK - 1 and start:
                late = min(late, us)
    return early, late


def warm_up(learner: StreamingLDA | RecursiveRLSC, examples: Examples) -> None:
    X, y = examples.block(0)
    for index in range(300):
        learner.learn_one(X[index], int(y[index]))
        learner.predict_one(X[index])


def drift(learner: RecursiveRLSC, examples: Examples) -> Line:
    """W after a million rank-one updates, against the solution of the batch formula."""
    gram = np.zeros((N_FEATURES, N_FEATURES))
    targets = np.zeros((N_FEATURES, N_CLASSES))
    for number in range(N_EXAMPLES // BLOCK):
        X, y = examples.block(number)
        gram += X.T @ X
        np.add.at(targets.T, y, X)
    A = gram + RIDGE * np.eye(N_FEATURES)
    batch = np.linalg.solve(A, targets)
    solution = learner._running.solution
    assert solution is not None  # it was asked a million times
    error = np.linalg.norm(learner.coef_.T - batch) / np.linalg.norm(batch)
    return Line(
        "RLSC, 1,000,000 single updates against the batch solution in float64 "
        f"(d=128, condition number {np.linalg.cond(A):.0e})",
        f"{error:.0e} relative, {solution._factor.rebuilds - 1} rebuilds on the way",
        "≤ 1e-10",
    )
