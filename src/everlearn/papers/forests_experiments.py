"""What is run for Ristin et al. (2015): each function is one experiment for one order of classes.

    trained        Fig. 4, 5                  forests trained on all classes at once
    grown          Fig. 6-14, Table 1, 2      forests updated, beside retrained ones
    rivals         Table 1a                   other classifiers on the same features
    metrics        Table 1, Fig. 14           nearest class means in a learned metric
    least_squares  Fig. 13                    LS-SVM and MULTIpLE

A rival's settings are chosen on training examples held out, of at most the first 50 classes, as in
the paper; the test set has no say.
"""

import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC

from everlearn.evaluation.repeat import Result
from everlearn.learners.forest.conventional import ConventionalForest
from everlearn.learners.forest.ncm_forest import NCMForest
from everlearn.learners.forest.svm_forest import SVMForest
from everlearn.learners.lssvm import IncrementalLSSVM
from everlearn.learners.ncm import NearestClassMean
from everlearn.papers.forests_protocol import (
    ClassStream,
    average_accuracy,
    batches,
    cpu_seconds,
    data_set,
    retraining_seconds,
    sizes_of_updates,
)
from everlearn.streams.examples import Examples

FORESTS = {"NCMF": NCMForest, "SVMF": SVMForest}
RETRAINED = "retrained"
# To choose a setting, every this-many-th training example of at most so many classes is held out.
HOLD_OUT_EVERY, CHOOSING_CLASSES = 4, 50
# Candidates for the settings of rivals.
NEIGHBOURS = (1, 5, 10, 20)
PENALTIES = (1e-4, 1e-3, 1e-2)
RANKS = (32, 128)
SMALLEST_LEAVES = (1, 5)
AXIS_CANDIDATES = (100, 300)
LEAST_SQUARES = (1e-5, 1e-4, 1e-3, 1e-2)
SVM_PASSES = 100
# A metric takes the place of whitening.
NOT_WHITENED = ("MET+NCM", "NCM, not whitened")


def trained(
    seed: int,
    *,
    data: str,
    forest: str,
    sizes: list[int],
    n_trees: int,
    variants: dict[str, dict[str, Any]],
) -> Result:
    """Accuracy and times at several numbers of classes, all of them known from the start."""
    result: Result = {name: _measures() for name in variants}
    stream = ClassStream.of(data_set(data), sizes[-1], seed)
    for size in sizes:
        part = stream.whitened(size)
        for name, settings in variants.items():
            made = FORESTS[forest](
                n_estimators=n_trees, whiten=False, random_state=seed, **settings
            )
            learned = part.between(0, size)
            seconds = cpu_seconds(made.fit, learned.X, learned.y)
            _note(result[name], part, made, size, seconds / n_trees)
    return result


def grown(
    seed: int,
    *,
    data: str,
    forest: str,
    initial: int,
    steps: list[int],
    checkpoints: list[int],
    n_trees: int,
    arms: dict[str, dict[str, Any]],
    n_features: int | None = None,
    per_class: int | None = None,
) -> Result:
    """Forests updated in several ways, and retrained ones, at some numbers of classes.

    ``arms`` names what is compared: the settings of a forest each. ``steps`` are numbers of classes
    per update; the result has one entry for each. Training times add up from the first update on;
    of retraining, as if it were done at every update.
    """
    stream = ClassStream.of(data_set(data), checkpoints[-1], seed)
    stream = stream.with_examples(per_class).with_features(n_features).whitened(initial)
    common = {"n_estimators": n_trees, "whiten": False, "random_state": seed}

    def make(**settings: Any) -> Any:
        return FORESTS[forest](**common, **settings)

    retrained = _measures()
    once = {}
    for size in checkpoints:
        everything, fresh = stream.between(0, size), make()
        once[size] = cpu_seconds(fresh.fit, everything.X, everything.y) / n_trees
        _note(retrained, stream, fresh, size, once[size])
    result: Result = {}
    for step in steps:
        sizes = sizes_of_updates(initial, step, checkpoints[-1])
        forests = {name: make(**arm) for name, arm in arms.items()}
        result[str(step)] = _updated(stream, forests, sizes, checkpoints)
        every = {"training": retraining_seconds(once, sizes), "once": list(once.values())}
        result[str(step)][RETRAINED] = retrained | every
    return result


def _updated(
    stream: ClassStream, forests: dict[str, Any], sizes: list[int], checkpoints: list[int]
) -> Result:
    """What forests reach, and what they spent, when taught in turn at every update."""
    result: Result = {name: _measures() for name in forests}
    spent = dict.fromkeys(forests, 0.0)
    first = stream.between(0, sizes[0])
    for made in forests.values():
        made.fit(first.X, first.y)
    for size, batch in zip(sizes, (None, *batches(stream, sizes)), strict=True):
        for name, made in forests.items():
            if batch is not None:
                spent[name] += cpu_seconds(made.partial_fit, batch.X, batch.y) / made.n_trees_
            if size in checkpoints:
                _note(result[name], stream, made, size, spent[name])
    return result


def rivals(seed: int, *, data: str, sizes: list[int], n_trees: int, most: dict[str, int]) -> Result:
    """Average accuracy of classifiers that know all classes from the start.

    ``most`` names the rivals and the number of classes beyond which each takes too long.
    """
    stream = ClassStream.of(data_set(data), sizes[-1], seed)
    result: Result = {"accuracy": {}, "seconds": {}, "setting": {}}
    for name, limit in most.items():
        raw = name in NOT_WHITENED
        choices = RIVALS[name]

        def make(setting: Any, choices: Any = choices) -> Any:
            return choices[0](setting, seed, n_trees)

        chosen = _best(make, choices[1], stream if raw else stream.whitened(sizes[0]), sizes[-1])
        accuracies, seconds = [], []
        for size in (size for size in sizes if size <= limit):
            part = stream if raw else stream.whitened(size)
            made, learned = make(chosen), part.between(0, size)
            seconds.append(cpu_seconds(_fit, made, learned))
            accuracies.append(part.accuracy(made, size))
        result["accuracy"][name] = accuracies
        result["seconds"][name] = seconds
        result["setting"][name] = chosen
    return result


RIVALS: dict[str, tuple[Callable[[Any, int, int], Any], Iterable[Any]]] = {
    "NCM": (lambda _, seed, n_trees: NearestClassMean(), (None,)),
    "NCM, not whitened": (lambda _, seed, n_trees: NearestClassMean(), (None,)),
    "MET+NCM": (
        lambda rank, seed, n_trees: NearestClassMean(metric="learned", rank=rank),
        RANKS,
    ),
    "MC SVM": (
        lambda C, seed, n_trees: LinearSVC(
            multi_class="crammer_singer", C=C, max_iter=SVM_PASSES, random_state=seed
        ),
        PENALTIES,
    ),
    "KNN": (lambda k, seed, n_trees: KNeighborsClassifier(k), NEIGHBOURS),
    "RF": (
        lambda smallest, seed, n_trees: RandomForestClassifier(
            n_trees, min_samples_leaf=smallest, random_state=seed
        ),
        SMALLEST_LEAVES,
    ),
    "RF, axis splits in our trees": (
        lambda tried, seed, n_trees: ConventionalForest(
            n_estimators=n_trees, n_candidates=tried, whiten=False, random_state=seed
        ),
        AXIS_CANDIDATES,
    ),
}


def metrics(
    seed: int,
    *,
    data: str,
    initial: list[int],
    checkpoints: list[int],
    n_features: int | None = None,
) -> Result:
    """MET_k+NCM: a metric of the first k classes, to which the others are only added.

    ``"all"`` learns a metric anew at every checkpoint.
    """
    stream = ClassStream.of(data_set(data), checkpoints[-1], seed).with_features(n_features)
    rank = _best(lambda r: NearestClassMean(metric="learned", rank=r), RANKS, stream, initial[-1])
    result: Result = {"rank": rank, "all": []}
    for k in initial:
        made = NearestClassMean(metric="learned", rank=rank)
        result[str(k)], known = [], 0
        for size in sorted({k, *checkpoints}):
            more = stream.between(known, size)
            made.partial_fit(more.X, more.y)
            known = size
            if size in checkpoints:
                result[str(k)].append(stream.accuracy(made, size))
    for size in checkpoints:
        learned = stream.between(0, size)
        made = NearestClassMean(metric="learned", rank=rank).fit(learned.X, learned.y)
        result["all"].append(stream.accuracy(made, size))
    return result


def least_squares(
    seed: int, *, data: str, initial: int, checkpoints: list[int], per_class: int
) -> Result:
    """LS-SVMs updated one class at a time by MULTIpLE, and trained on all classes at once."""
    sizes = sizes_of_updates(initial, 1, checkpoints[-1])
    stream = ClassStream.of(data_set(data), sizes[-1], seed)
    stream = stream.with_examples(per_class).whitened(initial)
    chosen = _best(lambda C: IncrementalLSSVM(C=C), LEAST_SQUARES, stream, sizes[-1])
    result: Result = {"C": chosen, "MULTIpLE": [], "LSSVM": [], "seconds": []}
    made, first, spent = IncrementalLSSVM(C=chosen), stream.between(0, initial), 0.0
    made.fit(first.X, first.y)
    for size, batch in zip(sizes[1:], batches(stream, sizes), strict=True):
        spent += cpu_seconds(made.partial_fit, batch.X, batch.y)
        if size in checkpoints:
            everything = stream.between(0, size)
            fresh = IncrementalLSSVM(C=chosen).fit(everything.X, everything.y)
            result["LSSVM"].append(stream.accuracy(fresh, size))
            result["MULTIpLE"].append(stream.accuracy(made, size))
            result["seconds"].append(spent)
    return result


def _measures() -> Result:
    return {"accuracy": [], "training": [], "asking": [], "nodes": []}


def _note(result: Result, stream: ClassStream, forest: Any, size: int, seconds: float) -> None:
    asked = stream.asked(size)
    answers: list[Any] = []
    asking = cpu_seconds(lambda: answers.append(forest.predict(asked.X)))
    result["accuracy"].append(average_accuracy(asked.y, answers[0]))
    result["training"].append(seconds)
    result["asking"].append(1e6 * asking / len(asked) / forest.n_trees_)
    result["nodes"].append(float(np.mean(forest.n_nodes_)))


def _best(
    make: Callable[[Any], Any], settings: Iterable[Any], stream: ClassStream, n_classes: int
) -> Any:
    """The setting that does best on training examples held out; the first among equals."""
    candidates = list(settings)
    if len(candidates) == 1:
        return candidates[0]
    known = stream.between(0, min(n_classes, CHOOSING_CLASSES))
    order = np.argsort(known.y, kind="stable")  # so that every class is held out from
    held = known.take(order[::HOLD_OUT_EVERY])
    learned = known.take(np.delete(order, np.s_[::HOLD_OUT_EVERY]))

    def hits(setting: Any) -> float:
        made = make(setting)
        _fit(made, learned)
        return average_accuracy(held.y, made.predict(held.X))

    return max(candidates, key=hits)


def _fit(estimator: Any, examples: Examples) -> None:
    with warnings.catch_warnings():
        # Few passes are enough for a linear SVM, and the number of classes is what it is.
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", category=FutureWarning, module="sklearn")
        warnings.filterwarnings("ignore", message="The number of unique classes is greater")
        estimator.fit(examples.X, examples.y)
