"""How well everything answers: packs × shots × learners, beside offline references.

One pass over features of a frozen network, signed root and length one (``PowerNormalizer``) for
everybody, references included. Shots are examples of each class, drawn anew for every seed; "all"
is every training example of the pack. References see all examples at once, as often as they like:
multinomial logistic regression (L-BFGS) and a linear support vector machine, C of each chosen on a
fifth of the training examples, then fitted to all of them. Nothing is chosen on test examples.

The closed-form learners do not depend on the order of the examples, so one order stands for all.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from typing import Any

import numpy as np
from everlearn_papers.data import packs

from benchmarks.side_by_side import Line
from everlearn import (
    AutoClassifier,
    NearestClassMean,
    PowerNormalizer,
    RecursiveRLSC,
    StreamingLDA,
)
from everlearn.errors import MissingData
from everlearn.streams.examples import DataSet

SEEDS = 3
SHOTS = (1, 5, 20, None)
# C of logistic regression and of the support vector machine.
CANDIDATES = np.logspace(-1, 4, 6)
LEARNERS = ("nearest mean", "LDA", "ridge", "auto")
REFERENCES = ("logistic", "SVM")


@cache
def pack(name: str) -> DataSet:
    sets = {
        "CIFAR-100": packs.cifar100,
        "Caltech-101": packs.caltech101,
        "turntable": lambda: packs.turntable("arc"),
    }
    return sets[name]()


def drawn(name: str, shots: int | None, seed: int) -> tuple[Any, Any, Any, Any]:
    """Training and test examples, normalised."""
    data = pack(name)
    rng = np.random.default_rng(seed)
    members = [np.flatnonzero(data.train.y == label) for label in data.train.classes]
    chosen = np.concatenate([rng.permutation(each)[:shots] for each in members])
    root = PowerNormalizer().fit(data.train.X[:1])
    y, y_test = (np.asarray(part.y).astype(str) for part in (data.train, data.test))
    return root.transform(data.train.X[chosen]), y[chosen], root.transform(data.test.X), y_test


def accuracy(name: str, shots: int | None, seed: int, who: str) -> float:
    """Share of test examples answered rightly."""
    X, y, X_test, y_test = drawn(name, shots, seed)
    return float(np.mean(fitted(who, X, y, seed).predict(X_test) == y_test))


def fitted(who: str, X: Any, y: Any, seed: int) -> Any:
    if who in REFERENCES:
        return _best_reference(who, X, y, seed)
    learner = {
        "nearest mean": NearestClassMean(),
        "LDA": StreamingLDA(),
        "ridge": RecursiveRLSC(regularization="auto", recoding=0.0, fit_intercept=True),
        "auto": AutoClassifier(),
    }[who]
    order = np.argsort(y, kind="stable")  # class by class
    return learner.partial_fit(X[order], y[order])


def _best_reference(who: str, X: Any, y: Any, seed: int) -> Any:
    held_out = np.zeros(len(y), dtype=bool)
    rng = np.random.default_rng(seed)
    for label in np.unique(y):
        own = rng.permutation(np.flatnonzero(y == label))
        held_out[own[: len(own) // 5]] = True
    if not held_out.any():  # one shot: nothing to choose by
        return _reference(who, 10.0).fit(X, y)
    hits = [
        np.mean(
            _reference(who, C).fit(X[~held_out], y[~held_out]).predict(X[held_out]) == y[held_out]
        )
        for C in CANDIDATES
    ]
    return _reference(who, float(CANDIDATES[int(np.argmax(hits))])).fit(X, y)


def _reference(who: str, C: float) -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import LinearSVC

    if who == "SVM":
        return LinearSVC(C=C, max_iter=3000)
    return LogisticRegression(C=C, max_iter=1000)


def lines() -> Iterator[Line]:
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # one process a core
    jobs = []
    for name in ("CIFAR-100", "Caltech-101", "turntable"):
        try:
            pack(name)
        except MissingData:
            continue
        pack.cache_clear()
        for shots in SHOTS:
            for who in LEARNERS + REFERENCES:
                jobs += [(name, shots, seed, who) for seed in range(SEEDS if shots else 1)]
    # The slow ones first, so that no core waits for one of them at the end.
    jobs.sort(key=lambda job: (job[3] not in REFERENCES, -(job[1] or 1000)))
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        found = dict(zip(jobs, pool.map(_quietly, jobs), strict=True))
    for name, shots in sorted({job[:2] for job in jobs}, key=lambda row: (row[0], row[1] or 1000)):
        shares = {
            who: [found[job] for job in jobs if job[:2] == (name, shots) and job[3] == who]
            for who in LEARNERS + REFERENCES
        }
        measured = ", ".join(f"{who} {_interval(values)}" for who, values in shares.items())
        examples = "all examples" if shots is None else f"{shots} shots"
        best = max(np.mean(shares[who]) for who in LEARNERS[:-1])
        gap = 100.0 * (np.mean(shares["auto"]) - best)
        yield Line(f"{name}, {examples}", f"{measured}; auto {gap:+.1f} of the best", "auto ≥ −0.5")


def _interval(values: list[float]) -> str:
    if len(values) == 1:
        return f"{100 * values[0]:.1f}"
    return f"{100 * np.mean(values):.1f} ± {196 * np.std(values) / np.sqrt(len(values)):.1f}"


def _quietly(job: tuple[str, int | None, int, str]) -> float:
    import warnings

    from threadpoolctl import threadpool_limits

    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a reference that has not converged is said to in words
        return accuracy(*job)
