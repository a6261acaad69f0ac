"""How much accuracy the updates keep of a retrained forest, and how much time they save.

Accuracy: 50 trees. Time: CPU seconds of one thread, 10 trees; at every step the forest is retrained
and then updated in each way, in turn. Both at three orders of the classes.
"""

import time
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.forest_packs import Data, cifar100
from benchmarks.side_by_side import Line
from everlearn import NCMForest, SVMForest

ORDERS = (0, 1, 2)
FOREST = {"whiten": False, "random_state": 0}


def lines() -> Iterator[Line]:
    for update in ("igt", "rust", "rtst", "auto"):
        update_seconds(NCMForest, 45, (update,), n_trees=1)  # compiles what is not compiled yet
    yield from accuracy_lines(
        NCMForest, 10, {"uls": 27, "igt": 86, "rtst": 95, "rust": 89, "auto": 95}
    )
    yield from accuracy_lines(
        SVMForest, 10, {"uls": 14, "igt": 80, "rtst": 91, "rust": 85, "auto": None}
    )
    yield from accuracy_lines(NCMForest, 1, {"igt": 82, "rtst": 97, "rust": 89, "auto": None})
    yield from time_lines(10, {"igt": 5, "rust": 3, "rtst": 2.5, "auto": 3})
    yield from time_lines(1, {"igt": 25, "rust": 9, "rtst": 4, "auto": None})


def accuracy_lines(learner: Any, step: int, wanted: dict[str, float | None]) -> Iterator[Line]:
    runs = [relative_accuracies(learner, step, seed, tuple(wanted)) for seed in ORDERS]
    for update, least in wanted.items():
        each = [100 * run[update] for run in runs]
        yield Line(
            f"{learner.__name__} {update.upper()} +{step}: accuracy relative to a retrained forest",
            f"{np.mean(each):.1f} % ({', '.join(f'{share:.1f}' for share in each)})",
            "–" if least is None else f"≥ {least} %",
        )
    ranked = [u for u in ("rtst", "rust", "igt", "uls") if u in wanted]
    held = sum(all(run[a] > run[b] for a, b in pairwise(ranked)) for run in runs)
    yield Line(
        f"{learner.__name__} +{step}: {' > '.join(ranked).upper()} in accuracy",
        f"at {held} of {len(ORDERS)} orders",
        "at every order",
    )


def relative_accuracies(
    learner: Any, step: int, seed: int, updates: tuple[str, ...], n_trees: int = 50
) -> dict[str, float]:
    """Accuracy after the last class, divided by that of a forest trained on all classes at once."""
    data = whitened(seed)
    retrained = learner(n_estimators=n_trees, n_jobs=-1, **FOREST).fit(data.X, data.y)
    whole = data.accuracy(retrained)
    found = {"retrained": whole}
    for update in updates:
        forest = learner(n_estimators=n_trees, update=update, n_jobs=-1, **FOREST)
        for classes in data.batches(seed, step):
            forest.partial_fit(*data.of(classes))
        found[update] = data.accuracy(forest) / whole
    return found


@lru_cache(maxsize=1)
def whitened(seed: int) -> Data:
    data = cifar100()
    return data.whitened_by(next(data.batches(seed, 1)))


def time_lines(step: int, wanted: dict[str, float | None]) -> Iterator[Line]:
    runs = [update_seconds(NCMForest, step, tuple(wanted), seed=seed) for seed in ORDERS]
    for update, least in wanted.items():
        each = [run["retrain"] / run[update] for run in runs]
        yield Line(
            f"NCMForest {update.upper()} +{step}: training time of all updates against retraining",
            f"{np.mean(each):.1f}× ({', '.join(f'{ratio:.1f}' for ratio in each)})",
            "–" if least is None else f"≥ {least}×",
        )
    held = sum(all(run[a] < run[b] for a, b in pairwise(("igt", "rust", "rtst"))) for run in runs)
    yield Line(
        f"NCMForest +{step}: IGT < RUST < RTST in cost",
        f"at {held} of {len(ORDERS)} orders",
        "at every order",
    )


def update_seconds(
    learner: Any, step: int, updates: tuple[str, ...], n_trees: int = 10, seed: int = 0
) -> dict[str, float]:
    """CPU seconds of all updates, and of retraining at every step; the first fit is not counted."""
    data = whitened(seed)
    forests = {u: learner(n_estimators=n_trees, update=u, **FOREST) for u in updates}
    spent = dict.fromkeys(("retrain", *updates), 0.0)
    known = np.empty(0, dtype=data.y.dtype)
    for classes in data.batches(seed, step):
        first = not len(known)
        known = np.concatenate([known, classes])
        everything, batch = data.of(known), data.of(classes)
        if not first:
            fresh = learner(n_estimators=n_trees, **FOREST)
            spent["retrain"] += cpu_seconds(fresh.fit, *everything)
        for update, forest in forests.items():
            used = cpu_seconds(forest.partial_fit, *batch)
            spent[update] += 0.0 if first else used
    return spent


def cpu_seconds(work: Any, *arguments: Any) -> float:
    start = time.thread_time()
    work(*arguments)
    return time.thread_time() - start
