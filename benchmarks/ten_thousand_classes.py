"""Forests and transfer with 100, 1,000 and 10,000 classes: what learning and asking cost.

    python -m benchmarks ten_thousand_classes
    EVERLEARN_CLASSES=100,1000 python -m benchmarks ten_thousand_classes

Every picture of CIFAR-100 is a class of its own: its features, each time with half as much of
another picture of the same kind added. Four are taught and a fifth is asked about. Features are
brought to 128 by a random rotation. Processor time; memory is what the learner holds.
"""

import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from everlearn_papers.data.packs import CIFAR100, arrays

from benchmarks.side_by_side import Line
from everlearn import NCMForest, NearestClassMean, SVMForest, TransferClassifier
from everlearn.arrays import unit_rows
from everlearn.size import size_in_bytes

CLASSES = [int(n) for n in os.environ.get("EVERLEARN_CLASSES", "100,1000,10000").split(",")]
WIDTH, EACH = 128, 5
# So many single examples and questions are timed, at most.
SINGLE = 20
LEARNERS: dict[str, Callable[[], Any]] = {
    "NearestClassMean": NearestClassMean,
    "NCMForest, 10 trees": lambda: NCMForest(n_estimators=10, random_state=0),
    "SVMForest, 10 trees": lambda: SVMForest(n_estimators=10, random_state=0),
    "TransferClassifier": TransferClassifier,
}


def lines() -> Iterator[Line]:
    rows = groups(max(CLASSES))
    for n_classes in CLASSES:
        for name, make in LEARNERS.items():
            yield measured(name, make(), rows[:n_classes])


def groups(n_classes: int) -> np.ndarray:
    """(n_classes, EACH, WIDTH): a picture mixed with others of its kind."""
    features, labels = arrays(CIFAR100, "features_train", "labels_train")
    rng = np.random.default_rng(0)
    turned = np.linalg.qr(rng.normal(size=(features.shape[1], WIDTH)))[0]
    rows = unit_rows(features.astype(np.float64) @ turned)
    chosen = rng.permutation(len(rows))[:n_classes]
    kinds = [np.flatnonzero(labels == label) for label in range(int(labels.max()) + 1)]
    others = np.stack([rng.choice(kinds[labels[one]], EACH) for one in chosen])
    mixed = rows[chosen][:, None] + 0.5 * rows[others]
    return unit_rows(mixed.reshape(-1, WIDTH)).reshape(mixed.shape)


def measured(name: str, learner: Any, rows: np.ndarray) -> Line:
    n_classes = len(rows)
    X, y = rows[:, :-1].reshape(-1, WIDTH), np.repeat(np.arange(n_classes), EACH - 1)
    asked = rows[:, -1]
    warm = np.arange(8)
    type(learner)().fit(X[:32], y[:32]).predict(asked[warm])  # compiles
    spent = seconds(lambda: learner.fit(X, y))
    some = min(SINGLE, n_classes)
    answers = seconds(lambda: learner.predict(asked[:1000])) / min(1000, n_classes)
    right = float(np.mean(learner.predict(asked[:1000]) == np.arange(n_classes)[:1000]))
    one = seconds(lambda: [learner.learn_one(asked[k], k) for k in range(some)]) / some
    new = seconds(lambda: [learner.learn_one(-asked[k], n_classes + k) for k in range(some)]) / some
    return Line(
        f"{name}, {n_classes:,} classes of four pictures (d={WIDTH})",
        f"fit {spent:.1f} s; learn one {1e3 * one:.1f} ms, a new class {1e3 * new:.1f} ms; ask "
        f"{1e3 * answers:.2f} ms in a batch; {size_in_bytes(learner) / 1e6:.0f} MB; {right:.1%} "
        "of new pictures right",
        "reported",
    )


def seconds(action: Callable[[], object]) -> float:
    clock = time.process_time()
    action()
    return time.process_time() - clock
