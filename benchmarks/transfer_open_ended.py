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
from everlearn_papers.data import packs
from sklearn.preprocessing import normalize

from benchmarks.side_by_side import Line
from everlearn import NearestClassMean, PassiveAggressive, TransferClassifier
from everlearn.evaluation.metrics import accuracy
from everlearn.streams.examples import DataSet, Examples

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


def lines() -> Iterator[Line]:
    for name, data in (("Caltech-101", packs.caltech101()), ("CIFAR-100", packs.cifar100())):
        for count in COUNTS:
            yield Line(
                f"{name} one class after the other, {count} example{'s' * (count > 1)} each",
                ", ".join(
                    f"{who} {np.mean(each):.1f} %" for who, each in recognition(data, count).items()
                ),
                "above both PA; within 0.5 point of the nearest mean from 2 examples on",
            )


def recognition(data: DataSet, count: int) -> dict[str, list[float]]:
    """Percent right of all classes, for each contender and ordering; rows of unit length."""
    train, test = (
        Examples(normalize(part.X), part.y.astype(int)) for part in (data.train, data.test)
    )
    rates: dict[str, list[float]] = {name: [] for name in CONTENDERS}
    for seed in range(200, 200 + N_ORDERINGS):
        rng = np.random.default_rng(seed)
        shown = train.take(
            np.concatenate(
                [
                    rng.permutation(np.flatnonzero(train.y == label))[:count]
                    for label in rng.permutation(train.classes)
                ]
            )
        )
        for name, make in CONTENDERS.items():
            learner = make().partial_fit(shown.X, shown.y)
            rates[name].append(100 * accuracy(test.y, learner.predict(test.X)))
    return rates
