"""Accuracy over packs × shots × learners × orderings, beside offline references.

One pass over features of a frozen network, signed root and length one (``PowerNormalizer``) for all
methods, including references. Shots are examples per class, drawn again for every seed; "all" is
every training example of the pack; "uneven" leaves every second class a tenth of them. Learners are
taught class by class.

References see all examples at once, as often as they like: multinomial logistic regression (L-BFGS)
and a linear support vector machine. C of each is chosen on a fifth of the training examples, then
they are fitted to all of them. Nothing is chosen on test examples. The support vector machine is
only run with few examples; with many, the logistic layer is the reference.

Ω is the mean of a learner's accuracy over that of the logistic layer trained on the same examples,
half-way and at the end, tested on the classes seen so far. The closed forms do not depend on the
order of the examples (a test shows it to 1e-8): an ordering only determines what was seen half-way.

Every part is cached as a file as soon as it is measured; an interrupted run resumes. Remove the
folder to measure again.
"""

import os
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache
from typing import Any

import numpy as np
from everlearn_papers.data import packs
from everlearn_papers.data.catalogue import cache_folder
from everlearn_papers.repeat import repeat
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from sklearn.svm import LinearSVC

from benchmarks.side_by_side import Line
from everlearn import (
    AutoClassifier,
    NearestClassMean,
    PowerNormalizer,
    RecursiveRLSC,
    StreamingLDA,
)
from everlearn.errors import MissingData
from everlearn.streams import orderings
from everlearn.streams.examples import DataSet

PACKS = ("CIFAR-100", "Caltech-101", "turntable")
ALL, UNEVEN = "all", "uneven"
DRAWS = (1, 5, 20, ALL, UNEVEN)
SEEDS = {1: 3, 5: 3, 20: 3, ALL: 1, UNEVEN: 1}
ORDERINGS = ("shuffled", "class by class", "video by video")
RARE = 10
LEARNERS = ("nearest mean", "LDA", "ridge", "auto")
LOGISTIC, SVM = "logistic", "SVM"
# C increases while held-out accuracy improves; the first value is used without evidence.
CANDIDATES = {LOGISTIC: (10.0, 30.0, 100.0, 300.0, 1000.0), SVM: (1.0, 3.0, 10.0)}
# liblinear takes half a minute for every C where there are ten times as many.
MOST_FOR_SVM = 1200
WEAKER = {LOGISTIC: (3.0, 1.0), SVM: (0.3, 0.1)}

Part = dict[str, Any]


@cache
def pack(name: str) -> DataSet:
    sets: dict[str, Callable[[], DataSet]] = {
        "CIFAR-100": packs.cifar100,
        "Caltech-101": packs.caltech101,
        "turntable": lambda: packs.turntable("arc"),
    }
    return sets[name]()


@cache
def prepared(name: str) -> tuple[Any, Any, Any, Any]:
    """Training and test examples, normalised."""
    data = pack(name)
    root = PowerNormalizer().fit(data.train.X[:1])
    y, y_test = (np.asarray(part.y).astype(str) for part in (data.train, data.test))
    return root.transform(data.train.X), y, root.transform(data.test.X), y_test


def drawn(y: Any, draw: Any, seed: int) -> Any:
    """Positions of the examples taught, class by class."""
    rng = np.random.default_rng(seed)
    members = [rng.permutation(np.flatnonzero(y == label)) for label in np.unique(y)]
    if draw == UNEVEN:
        return np.concatenate(
            [own[: max(1, len(own) // RARE)] if i % 2 else own for i, own in enumerate(members)]
        )
    return np.concatenate([own[: None if draw == ALL else draw] for own in members])


def shots(seed: int, *, name: str, draw: Any) -> Part:
    """Accuracy and balanced accuracy of every learner and reference after one draw."""
    X, y, X_test, y_test = prepared(name)
    taught = drawn(y, draw, seed)
    found = {}
    for who in (*LEARNERS, LOGISTIC, SVM):
        if who == SVM and len(taught) > MOST_FOR_SVM:
            continue
        answers = fitted(who, X[taught], y[taught], seed).predict(X_test)
        balanced = balanced_accuracy_score(y_test, answers)
        found[who] = [float(np.mean(answers == y_test)), float(balanced)]
    return found


def half_way(seed: int, *, name: str, ordering: str) -> Part:
    """Accuracy on the classes seen so far, when half of the stream was taught."""
    X, y, X_test, y_test = prepared(name)
    instances = pack(name).train.instances
    order = {
        "shuffled": lambda: orderings.iid(y, seed),
        "class by class": lambda: orderings.class_iid(y, seed),
        "video by video": lambda: orderings.instance(y, instances, seed),
    }[ordering]()
    taught = order[: len(order) // 2]
    asked = np.isin(y_test, y[taught])
    return {
        who: float(
            np.mean(fitted(who, X[taught], y[taught], seed).predict(X_test[asked]) == y_test[asked])
        )
        for who in (*LEARNERS, LOGISTIC)
    }


def fitted(who: str, X: Any, y: Any, seed: int) -> Any:
    if who in CANDIDATES:
        return _reference(who, X, y, seed)
    learner = {
        "nearest mean": NearestClassMean(),
        "LDA": StreamingLDA(),
        "ridge": RecursiveRLSC(regularization="auto", recoding=0.0, fit_intercept=True),
        "auto": AutoClassifier(),
    }[who]
    return learner.partial_fit(X, y)


def _reference(who: str, X: Any, y: Any, seed: int) -> Any:
    held_out = np.zeros(len(y), dtype=bool)
    rng = np.random.default_rng(seed)
    for label in np.unique(y):
        own = rng.permutation(np.flatnonzero(y == label))
        held_out[own[: len(own) // 5]] = True
    X = X.astype(np.float32)
    classifier = _classifier(who).set_params(C=CANDIDATES[who][0])
    if held_out.any():
        _choose(classifier, who, X[~held_out], y[~held_out], X[held_out], y[held_out])
    return classifier.fit(X, y)


def _choose(classifier: Any, who: str, X: Any, y: Any, X_held_out: Any, y_held_out: Any) -> None:
    """Set C: from the usual value upwards, else downwards, while accuracy improves."""

    def right(C: float) -> float:
        return float(classifier.set_params(C=C).fit(X, y).score(X_held_out, y_held_out))

    usual, *stronger = CANDIDATES[who]
    best, most = usual, right(usual)
    for ways in (stronger, WEAKER[who]):
        for C in ways:
            found = right(C)
            if found <= most:
                break
            best, most = C, found
        if best != usual:
            break
    classifier.set_params(C=best)


def _classifier(who: str) -> Any:
    """Logistic regression starts each fit where the last one ended: the same optimum, sooner."""
    if who == SVM:
        return LinearSVC(max_iter=3000)
    return LogisticRegression(max_iter=2000, tol=1e-5, warm_start=True)


def part(what: str, name: str, which: Any, seed: int) -> Part:
    """One part, from its file or measured now."""
    folder = cache_folder() / "quality" / f"{what} {name} {which}"
    experiments: dict[str, tuple[Callable[..., Part], str]] = {
        "shots": (shots, "draw"),
        "half-way": (half_way, "ordering"),
    }
    experiment, key = experiments[what]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # L-BFGS that has not converged after 2,000 steps
        return repeat(experiment, [seed], settings={"name": name, key: which}, folder=folder)[0]


def lines() -> Iterator[Line]:
    jobs: list[tuple[str, str, Any, int]] = []
    here = [name for name in PACKS if _is_here(name)]
    for name in here:
        jobs += [("shots", name, draw, seed) for draw in DRAWS for seed in range(SEEDS[draw])]
        jobs += [("half-way", name, ordering, 0) for ordering in _orderings(name)]
    if not here:
        raise MissingData(f"none of the packs {', '.join(PACKS)} is here; set EVERLEARN_DATA")
    # Long ones first, so that no core waits for one of them at the end.
    jobs.sort(key=lambda job: (str(job[2]).isdigit(), job[2] == 1))
    found = {}
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        waiting = {pool.submit(part, *job): job for job in jobs}
        for done in as_completed(waiting):
            found[waiting[done]] = done.result()
            print(f"  {len(found)} of {len(jobs)}: {waiting[done]}", flush=True)
    gaps: list[float] = []
    for name in here:
        yield from _of_shots(name, found, gaps)
    yield Line(
        "auto against the best single learner, mean of all these", f"{np.mean(gaps):+.2f}", "> 0"
    )
    for name in here:
        yield _of_uneven(name, found)
    for name in here:
        yield from _of_orderings(name, found)


def _is_here(name: str) -> bool:
    try:
        pack(name)
    except MissingData as missing:
        print(f"  left out: {missing}")
        return False
    return True


def _orderings(name: str) -> tuple[str, ...]:
    return ORDERINGS if pack(name).train.instances is not None else ORDERINGS[:2]


def _values(found: dict[Any, Part], name: str, draw: Any, who: str, place: int) -> list[float]:
    return [found["shots", name, draw, seed][who][place] for seed in range(SEEDS[draw])]


def _of_shots(name: str, found: dict[Any, Part], gaps: list[float]) -> Iterator[Line]:
    for draw in DRAWS[:-1]:
        asked = [who for who in (*LEARNERS, LOGISTIC, SVM) if who in found["shots", name, draw, 0]]
        shares = {who: _values(found, name, draw, who, 0) for who in asked}
        measured = ", ".join(f"{who} {_interval(values)}" for who, values in shares.items())
        best = max(np.mean(shares[who]) for who in LEARNERS[:-1])
        gaps.append(100.0 * float(np.mean(shares["auto"]) - best))
        examples = "all examples" if draw == ALL else f"{draw} of each class"
        yield Line(
            f"{name}, {examples}", f"{measured}; auto {gaps[-1]:+.1f} of the best", "auto ≥ −0.5"
        )


def _of_uneven(name: str, found: dict[Any, Part]) -> Line:
    both = ", ".join(
        f"{who} {_interval(_values(found, name, UNEVEN, who, 0))} and "
        f"{_interval(_values(found, name, UNEVEN, who, 1))}"
        for who in (*LEARNERS, LOGISTIC)
    )
    claim = f"{name}, every second class with a tenth of its examples: accuracy and balanced"
    return Line(claim, both, "auto above the others")


def _of_orderings(name: str, found: dict[Any, Part]) -> Iterator[Line]:
    end = found["shots", name, ALL, 0]
    for ordering in _orderings(name):
        middle = found["half-way", name, ordering, 0]
        omegas = {
            who: 0.5 * (middle[who] / middle[LOGISTIC] + end[who][0] / end[LOGISTIC][0])
            for who in LEARNERS
        }
        measured = ", ".join(f"{who} {omega:.3f}" for who, omega in omegas.items())
        yield Line(f"{name}, {ordering}: Ω against the logistic layer", measured, "auto ≥ 1.00")


def _interval(values: list[float]) -> str:
    """The mean in per cent, and 95 % of it by the deviation over seeds."""
    mean = f"{100 * np.mean(values):.1f}"
    if len(values) < 3:
        return mean
    return f"{mean} ± {196 * np.std(values, ddof=1) / np.sqrt(len(values)):.1f}"
