"""Forests trained and updated as in Ristin et al. (2015), for one order of the classes.

trained    Fig. 4, 5                all classes at once
grown      Fig. 6-14, Table 1, 2    class by class or several at a time, beside retrained forests
"""

from functools import cache
from itertools import product
from typing import Any

import numpy as np

from everlearn.forest.ncm_forest import NCMForest
from everlearn.forest.svm_forest import SVMForest
from everlearn_papers.forests.as_published import LeafAsGivenNCM, LeafAsGivenSVM
from everlearn_papers.forests.choosing import (
    CHOOSING_CLASSES,
    CHOOSING_TREES,
    EVERY_STEP,
    HOLD_OUT_EVERY,
    REGULARIZATIONS,
    best_svm,
)
from everlearn_papers.forests.protocol import (
    ClassStream,
    average_accuracy,
    cpu_seconds,
    data_set,
    memory_kept,
    retraining_seconds,
    sizes_of_updates,
)
from everlearn_papers.grid import FURTHER
from everlearn_papers.repeat import Result

LEAF_AS_GIVEN = ", μ as given"
FORESTS = {
    "NCMF": NCMForest,
    "SVMF": SVMForest,
    f"NCMF{LEAF_AS_GIVEN}": LeafAsGivenNCM,
    f"SVMF{LEAF_AS_GIVEN}": LeafAsGivenSVM,
}
RETRAINED = "retrained"
# Forest parameters that decide accuracy or time; an experiment that varies one names it.
PARAMETERS = ("class_subset", "n_candidates", "min_samples", "node_sampling", "update_fraction")
SVM_PARAMETERS = ("regularization", "epochs", "max_steps", "n_candidates")


def _defaults(forest: Any, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(forest, name) for name in names}


SETTINGS = {
    "defaults of NCMF": _defaults(NCMForest(), PARAMETERS),
    "defaults of SVMF": _defaults(SVMForest(), SVM_PARAMETERS),
    "λ of an SVM forest, where chosen": list(REGULARIZATIONS),
    "further values of a grid": FURTHER,
    "trees to choose it with": CHOOSING_TREES,
    "classes to choose it with": CHOOSING_CLASSES,
    "held out, one of": HOLD_OUT_EVERY,
}


def trained(
    seed: int,
    *,
    data: str,
    forests: list[str],
    sizes: list[int],
    n_trees: int,
    variants: dict[str, dict[str, Any]],
    per_class: int | None = None,
) -> Result:
    """Accuracy and times at several numbers of classes, trained at once.

    ``variants`` maps a name to forest settings; the result is by forest, then by variant.
    """
    stream = ClassStream.of(data_set(data), sizes[-1], seed).with_examples(per_class)
    result: Result = {kind: {name: _measures() for name in variants} for kind in forests}
    for size in sizes:
        part = stream.whitened(size)
        learned = part.between(0, size)
        for kind, (name, settings) in product(forests, variants.items()):
            made = _made(kind, n_trees, seed, settings)
            seconds = cpu_seconds(made.fit, learned.X, learned.y)
            _note(result[kind][name], part, made, size, seconds / n_trees)
    return result


@memory_kept()
def grown(
    seed: int,
    *,
    data: str,
    forests: list[str],
    initials: list[int],
    steps: list[int],
    checkpoints: list[int],
    n_trees: int,
    arms: dict[str, dict[str, Any]],
    n_features: int | None = None,
    per_class: int | None = None,
    chosen: bool = False,
) -> Result:
    """Forests updated in several ways, and retrained ones, at some numbers of classes.

    ``arms`` maps the name of an update method to forest settings. With ``chosen`` an SVM forest has
    all its passes and the λ with the best held-out accuracy. Every forest is grown from every
    number of ``initials`` by every number of ``steps``; the result is by :func:`growth`, then by
    arm. Training times accumulate from the first update; for retraining, as if done at every
    update.
    """
    stream = ClassStream.of(data_set(data), checkpoints[-1], seed)
    stream = stream.with_examples(per_class).with_features(n_features)
    result: Result = {}
    for kind, initial in product(forests, initials):
        part = stream.whitened(initial)
        asked_at = [size for size in checkpoints if size >= initial]
        is_svm = issubclass(FORESTS[kind], SVMForest)
        own, searched = {}, None
        if chosen and is_svm:
            best = best_svm(part, checkpoints[-1], seed)
            own = {"regularization": best.setting, "max_steps": EVERY_STEP}
            searched = best.as_result()
        # Untimed warm-up: the process gets its memory from the system.
        _made(kind, n_trees, seed, own).fit(part.train.X, part.train.y)
        retrained, once = _retrained(part, kind, asked_at, n_trees, seed, own)
        for step in steps:
            sizes = sizes_of_updates(initial, step, checkpoints[-1])
            found = {
                name: _updated(
                    part, _made(kind, n_trees, seed, own | arm), (initial, step), asked_at
                )
                for name, arm in arms.items()
            }
            found[RETRAINED] = retrained | {"training": retraining_seconds(once, sizes)}
            result[growth(kind, initial, step)] = found | {"search": searched}
    return result


def in_the_third_order(seed: int, **settings: Any) -> Result:
    """:func:`grown` with a class order that no other experiment uses."""
    return grown(seed + 2, **settings)


def growth(forest: str, initial: int, step: int) -> str:
    """Result key of a forest grown from ``initial`` classes, ``step`` at a time."""
    return f"{forest} {initial}+{step}"


def _retrained(
    stream: ClassStream,
    kind: str,
    checkpoints: list[int],
    n_trees: int,
    seed: int,
    settings: dict[str, Any],
) -> tuple[Result, dict[int, float]]:
    """Measures of retrained forests, and CPU seconds per tree by the number of classes."""
    result, once = _measures(), {}
    for size in checkpoints:
        everything, fresh = stream.between(0, size), _made(kind, n_trees, seed, settings)
        once[size] = cpu_seconds(fresh.fit, everything.X, everything.y) / n_trees
        _note(result, stream, fresh, size, once[size])
    return result, once


def _updated(
    stream: ClassStream, forest: Any, grown: tuple[int, int], checkpoints: list[int]
) -> Result:
    """Measures of an updated forest; training time is that of its updates."""
    result = _measures()
    spent, size = 0.0, 0
    for batch in stream.batches(*grown):
        used = cpu_seconds(forest.partial_fit, batch.X, batch.y) / forest.n_trees_
        spent, size = spent + used if size else 0.0, size + len(batch.classes)
        if size in checkpoints:
            _note(result, stream, forest, size, spent)
    return result


def _made(kind: str, n_trees: int, seed: int, settings: dict[str, Any]) -> Any:
    _compile(kind)
    return FORESTS[kind](n_estimators=n_trees, whiten=False, random_state=seed, **settings)


@cache
def _compile(kind: str) -> None:
    """Compile once before timing, so that no measured time includes compilation."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((120, 4)), np.repeat(np.arange(6), 20)
    X += y[:, None]
    for update in ("uls", "igt", "rust", "rtst", "auto"):
        made = FORESTS[kind](n_estimators=1, update=update, update_fraction=1.0, random_state=0)
        made.fit(X[:80], y[:80]).partial_fit(X[80:], y[80:]).predict(X)


def _measures() -> Result:
    return {"accuracy": [], "training": [], "asking": [], "nodes": [], "stored": []}


def _note(result: Result, stream: ClassStream, forest: Any, size: int, seconds: float) -> None:
    asked = stream.asked(size)
    answers: list[Any] = []
    asking = cpu_seconds(lambda: answers.append(forest.predict(asked.X)))
    result["accuracy"].append(average_accuracy(asked.y, answers[0]))
    result["training"].append(seconds)
    result["asking"].append(1e6 * asking / len(asked) / forest.n_trees_)
    result["nodes"].append(float(np.mean(forest.n_nodes_)))
    result["stored"].append(float(forest.n_stored_))
