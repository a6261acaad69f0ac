"""Classes taught one after the other, 1 to 10 examples each, then all asked.

The constants of TransferClassifier were chosen on Caltech-101, on other orderings than these but
with the same pictures to ask about; CIFAR-100 had no part in choosing them.

The rivals get the same unit-length features and the same streams: nearest class mean (the better of
its two metrics), Passive-Aggressive one against the rest, and the same with the same memory: five
exemplars a class, fifty of them replayed after each example.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.accuracy import pack
from benchmarks.side_by_side import Line
from everlearn import NearestClassMean, PassiveAggressive, TransferClassifier
from everlearn.papers.transfer.tasks import unit_rows

PACKS = ("caltech101_effnetlite0.npz", "cifar100_small_effnetlite0.npz")
COUNTS = (1, 2, 5, 10)
N_ORDERINGS = 3


class OneAgainstRest:
    """Passive-Aggressive: every detector learns every example; exemplars replayed in turn."""

    def __init__(self, memory: int, replay: int) -> None:
        self.memory, self.replay = memory, replay
        self.labels: list[int] = []
        self.exemplars: list[tuple[Any, int]] = []
        self.cursor = 0

    def partial_fit(self, X: Any, y: Any) -> "OneAgainstRest":
        self.W = np.zeros((0, X.shape[1] + 1))
        for x, label in zip(X, y, strict=True):
            if label not in self.labels:
                self.labels.append(label)
                self.W = np.vstack([self.W, np.zeros(self.W.shape[1])])
            example = np.append(x, 1.0)
            self._step(example, label)
            if sum(kept == label for _, kept in self.exemplars) < self.memory:
                self.exemplars.append((example, label))
            for _ in range(min(self.replay, len(self.exemplars))):
                self.cursor = (self.cursor + 1) % len(self.exemplars)
                self._step(*self.exemplars[self.cursor])
        return self

    def _step(self, x: Any, label: int) -> None:
        signs = np.full(len(self.labels), -1.0)
        signs[self.labels.index(label)] = 1.0
        losses = np.maximum(0.0, 1.0 - signs * (self.W @ x))
        steps = np.minimum(1.0, losses / (x @ x)) * signs
        self.W[steps != 0] += steps[steps != 0, None] * x

    def predict(self, X: Any) -> Any:
        return np.array(self.labels)[(X @ self.W[:, :-1].T + self.W[:, -1]).argmax(axis=1)]


CONTENDERS: dict[str, Callable[[], Any]] = {
    "TransferClassifier": TransferClassifier,
    "from scratch": lambda: TransferClassifier(base=PassiveAggressive()),
    "PA one-vs-rest": lambda: OneAgainstRest(0, 0),
    "PA one-vs-rest, same memory": lambda: OneAgainstRest(5, 50),
    "nearest mean, euclidean": NearestClassMean,
    "nearest mean, cosine": lambda: NearestClassMean(metric="cosine"),
}


def caltech() -> tuple[Any, Any, Any]:
    data = pack("caltech101_effnetlite0.npz")
    return unit_rows(data["features"]), data["labels"].astype(int), data["is_train"]


def cifar() -> tuple[Any, Any, Any]:
    data = pack("cifar100_small_effnetlite0.npz")
    X = unit_rows(np.concatenate([data["features_train"], data["features_test"]]))
    labels = np.concatenate([data["labels_train"], data["labels_test"]]).astype(int)
    return X, labels, np.arange(len(X)) < len(data["features_train"])


def lines() -> Iterator[Line]:
    if any(pack(name) is None for name in PACKS):
        return
    for name, load in (("Caltech-101", caltech), ("CIFAR-100", cifar)):
        for count in COUNTS:
            rates = recognition(*load(), count)
            yield Line(
                f"{name} one class after the other, {count} example{'s' * (count > 1)} each",
                ", ".join(f"{who} {np.mean(each):.1f} %" for who, each in rates.items()),
                "above both PA; within 0.5 point of the nearest mean from 2 examples on",
            )


def recognition(X: Any, labels: Any, train: Any, count: int) -> dict[str, list[float]]:
    """Percent right of all classes, for each contender and ordering."""
    rates: dict[str, list[float]] = {name: [] for name in CONTENDERS}
    for seed in range(200, 200 + N_ORDERINGS):
        rng = np.random.default_rng(seed)
        shown = np.concatenate(
            [
                rng.permutation(np.flatnonzero(train & (labels == c)))[:count]
                for c in rng.permutation(np.unique(labels))
            ]
        )
        for name, make in CONTENDERS.items():
            learner = make().partial_fit(X[shown], labels[shown])
            rates[name].append(100 * float(np.mean(learner.predict(X[~train]) == labels[~train])))
    return rates
