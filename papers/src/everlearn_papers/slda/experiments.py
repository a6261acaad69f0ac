"""The experiments of Hayes and Kanan (2020): accuracy and cost of each row of their tables.

    stream      Table 1, 2, Fig. 1    all rows in one ordering, at every checkpoint
    starts      Table 3               streaming LDA by source of its initial covariance
    cost        Sec. 4.5              time per example and memory

The base batch, from which the fixed covariance of SLDA is estimated, consists of the examples
before the first checkpoint.
"""

from collections.abc import Callable
from functools import cache
from time import perf_counter, thread_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everlearn.evaluation.estimators import adapted
from everlearn.evaluation.metrics import accuracy
from everlearn.evaluation.protocols import checkpointed
from everlearn.learners.exstream import ExStream
from everlearn.size import size_in_bytes
from everlearn.streams import orderings
from everlearn.streams.examples import DataSet, Examples, Indices
from everlearn_papers.data import embedded, packs
from everlearn_papers.grid import FURTHER, Found, search
from everlearn_papers.repeat import Result
from everlearn_papers.slda.last_layer import (
    BASE_RATES,
    BATCH,
    CHOOSING_CLASSES,
    DECAY_AT,
    EPOCHS,
    INVERSE_DECAYS,
    LARGEST_BASE_RATE,
    MOMENTUM,
    RATES,
    STREAM_RATES,
    WEIGHT_DECAY,
    LastLayer,
    OfflineLayer,
    fine_tuning_rates,
    held_out,
    hit_rate,
)
from everlearn_papers.slda.learners import SHRINKAGE, FixedLDA, PlasticLDA, PublishedLDA
from everlearn_papers.slda.start import begun, pooled

FINE, EXSTREAM, FIXED, PLASTIC, OFFLINE = (
    "Fine-Tuning",
    "ExStream",
    "SLDA (fixed)",
    "SLDA (plastic)",
    "Offline (last layer)",
)
AS_PUBLISHED = "SLDA (plastic, published rule)"
ROWS = (FINE, EXSTREAM, FIXED, PLASTIC, AS_PUBLISHED, OFFLINE)
STEPS = f"{FINE}, stream"  # learning rate of its single steps
TOP = 5
STARTS = ("ones", "another data set", "base")
PROTOTYPES = 20
SETTINGS = {
    "shrinkage ε of SLDA": SHRINKAGE,
    "prototypes a class of ExStream": PROTOTYPES,
    "epochs over the base": EPOCHS,
    "rate divided by ten after": list(DECAY_AT),
    "batch": BATCH,
    "momentum": MOMENTUM,
    "weight decay": WEIGHT_DECAY,
    "base rates": list(BASE_RATES),
    "largest base rate": LARGEST_BASE_RATE,
    "stream rates": list(STREAM_RATES),
    "ExStream's rates": list(RATES),
    "1 / weight decay offline": list(INVERSE_DECAYS),
    "further values of a grid": FURTHER,
}


def stream(seed: int, *, data: str, ordering: str, n_classes: int, step: int) -> Result:
    """Run all rows of Table 1 on one stream and return their accuracies at every checkpoint.

    A checkpoint follows every ``step`` classes' worth of examples; the base batch has that size.
    Accuracies restricted to the classes of each task are returned under ``masked``.
    """
    source = _data(data, n_classes)
    order = in_order(source.train, ordering, seed)
    every = len(order) * step // n_classes
    in_tasks = ordering.startswith("class")
    top = TOP if data == "cifar" else 1
    return streamed(source, order, every, seed, in_tasks=in_tasks, top=top)


def streamed(
    source: DataSet, order: Indices, every: int, seed: int, *, in_tasks: bool, top: int = 1
) -> Result:
    """Run all rows on any data set in any order; with ``in_tasks`` each checkpoint ends a task.

    ``top`` is the k of top-k accuracy, also when choosing learning rates. With ``top`` > 1 only
    classes seen so far are tested.
    """
    tasks = _tasks(source.train, order, every) if in_tasks else None
    result: Result = {"accuracies": {}, "masked": {}, "learning": {}, "MB": {}}
    learners, rates = _learners(source.train, order, every, seed, top)
    result |= rates
    for name, make in learners.items():
        masked: list[float] = []
        estimator = make()
        curve = checkpointed(
            estimator,
            source.train,
            source.test,
            order,
            every=every,
            base=every,
            batch=every,
            only_seen=top > 1,
            score=_score(masked, tasks, top),
        )
        _record(result, name, curve.accuracies, masked, sum(curve.learning), estimator)
        result["seen"] = curve.seen
    accuracies, masked, seconds = [], [], 0.0
    chosen: list[list[float]] = []
    tried: list[list[float]] = []
    for stop in result["seen"]:
        begin = perf_counter()
        learned = source.train.take(order[:stop])
        estimator = OfflineLayer(top).fit(learned.X, learned.y)
        seconds += perf_counter() - begin
        chosen.append([estimator.layer_.C, float(estimator.converged_)])
        tried.append(_ends(estimator.found_))
        asked = source.test
        if top > 1:
            asked = asked.take(np.isin(asked.y, learned.y))
        accuracies.append(_score(masked, tasks, top)(estimator, asked))
    _record(result, OFFLINE, accuracies, masked, seconds, estimator)
    result["offline"] = chosen
    least, most, at_end = zip(*tried, strict=True)
    result["tried"][OFFLINE] = [min(least), max(most), max(at_end)]
    result["classes seen"] = [len(np.unique(source.train.y[order[:s]])) for s in result["seen"]]
    return result


def starts(seed: int, *, ordering: str, n_classes: int, step: int) -> Result:
    """Return accuracies at every checkpoint by source of the initial Σ, fixed and plastic."""
    source = _data(video_data(), n_classes)
    order = in_order(source.train, ordering, seed)
    every = len(order) * step // n_classes
    other = packs.cifar100().train
    width = other.X.shape[1]
    # Σ_0 and its weight in examples; None estimates both from the base batch.
    begins: dict[str, tuple[NDArray[np.float64], float] | None] = {
        "ones": (np.ones((width, width)), 0),
        "another data set": (pooled(other.X, other.y), len(other)),
        "base": None,
    }
    result: Result = {start: {"fixed": [], "plastic": []} for start in STARTS}
    for start, begin in begins.items():
        for kind, accuracies in result[start].items():
            learner = begun(begin, kind)
            for place in range(0, len(order), every):
                part = source.train.take(order[place : place + every])
                learner.partial_fit(part.X, part.y)
                accuracies.append(accuracy(source.test.y, learner.predict(source.test.X)))
    return result


def cost(seed: int, *, quick: bool) -> Result:
    """Return milliseconds of processor time per example learned singly, and the final memory."""
    n_classes, step = (10, 5) if quick or video_data() == "core50" else (50, 5)
    source = _data(video_data(), n_classes)
    order = orderings.class_iid(source.train.y, seed)
    every = len(order) * step // n_classes
    result: Result = {"ms": {}, "MB": {}, "accuracy": {}}
    learners, _ = _learners(source.train, order, every, seed)
    base, stream = source.train.take(order[:every]), source.train.take(order[every:])
    for name, make in learners.items():
        estimator = make()
        learner = adapted(estimator, source.train.classes.tolist())
        learner.learn(base.X, base.y)
        learner.learn_one(stream.X[0], stream.y[0].item())  # compiles; not timed
        begin = thread_time()
        for x, label in zip(stream.X[1:], stream.y[1:].tolist(), strict=True):
            learner.learn_one(x, label)
        result["ms"][name] = 1e3 * (thread_time() - begin) / (len(stream) - 1)
        result["MB"][name] = size_in_bytes(estimator) / 1e6
        result["accuracy"][name] = accuracy(source.test.y, estimator.predict(source.test.X))
    return result


def _learners(
    train: Examples, order: Indices, every: int, seed: int, top: int = 1
) -> tuple[dict[str, Callable[[], Any]], Result]:
    """Return a factory for each row's learner, and the learning rates chosen and searched.

    The base batch holds the examples before the first checkpoint. Learners for which a batch is
    equivalent to its rows one by one are given it at once.
    """

    def exstream(rate: float) -> ExStream:
        return ExStream(n_prototypes=PROTOTYPES, learning_rate=rate, random_state=seed)

    def rehearsing(rate: float) -> float:
        few = CHOOSING_CLASSES
        return held_out(exstream(rate), train, order, base=0, every=every, n_classes=few, top=top)

    tuned, steps = fine_tuning_rates(train, order, every=every, seed=seed, top=top)
    rehearsed = search(RATES, rehearsing)
    learners: dict[str, Callable[[], Any]] = {
        FINE: lambda: LastLayer(tuned.best, steps.best, seed),
        EXSTREAM: lambda: exstream(rehearsed.best),
        FIXED: FixedLDA,
        PLASTIC: PlasticLDA,
        AS_PUBLISHED: PublishedLDA,
    }
    rates = {FINE: [tuned.best, steps.best], EXSTREAM: [rehearsed.best]}
    searches = {FINE: tuned, STEPS: steps, EXSTREAM: rehearsed}
    return learners, {"rates": rates, "tried": {name: _ends(f) for name, f in searches.items()}}


def _ends(found: Found) -> list[float]:
    """Return the smallest and largest candidate tried, and 1 if the best is at an end of them."""
    return [min(found.tried), max(found.tried), float(found.at_end)]


def _record(
    result: Result,
    name: str,
    accuracies: list[float],
    masked: list[float],
    seconds: float,
    estimator: Any,
) -> None:
    result["accuracies"][name] = accuracies
    result["masked"][name] = masked
    result["learning"][name] = seconds
    result["MB"][name] = size_in_bytes(estimator) / 1e6


def _score(
    masked: list[float], tasks: list[NDArray[Any]] | None, top: int
) -> Callable[[Any, Examples], float]:
    """Return a scorer of the hit rate; with tasks it appends task-aware accuracy to ``masked``."""

    def score(estimator: Any, asked: Examples) -> float:
        if tasks is not None and top == 1:
            hits = []
            for task in tasks[: len(masked) + 1]:  # one more at every checkpoint
                part = asked.take(np.isin(asked.y, task))
                hits.append(accuracy(part.y, estimator.predict(part.X, among=task)))
            masked.append(float(np.mean(hits)))
        return hit_rate(estimator, asked, top)

    return score


def _tasks(train: Examples, order: Indices, every: int) -> list[NDArray[Any]]:
    labels = train.y[order]
    return [np.unique(labels[start : start + every]) for start in range(0, len(order), every)]


def in_order(train: Examples, ordering: str, seed: int) -> Indices:
    """Return the indices of the examples in one of the four orderings."""
    if ordering == "iid":
        return orderings.iid(train.y, seed)
    if ordering == "class iid":
        return orderings.class_iid(train.y, seed)
    if ordering == "instance":
        return orderings.instance(train.y, train.instances, seed)
    return orderings.class_instance(train.y, train.instances, seed)


@cache
def _data(name: str, n_classes: int) -> DataSet:
    sources = {
        "turntable": lambda: packs.turntable("arc"),
        "core50": embedded.core50,
        "cifar": packs.cifar100,
    }
    return sources[name]().only(np.arange(n_classes))


def video_data() -> str:
    """Return "core50" if that data set is installed, else its substitute, "turntable"."""
    return "core50" if embedded.is_there("core50") else "turntable"
