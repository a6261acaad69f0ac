"""The data packs the forests are measured on, and the protocol of Ristin et al. (Sec. 5.1.2).

Classes arrive in a random order: ten at first, then the rest in batches of one or ten. Features
are whitened by the mean and deviation of the initial classes, for the forest that is updated and
for the one that is retrained.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everlearn.learners.whitening import Whitening

N_INITIAL = 10


@dataclass(frozen=True)
class Data:
    """Features and labels, for learning and for testing."""

    X: NDArray[Any]
    y: NDArray[Any]
    X_test: NDArray[Any]
    y_test: NDArray[Any]

    def whitened_by(self, classes: NDArray[Any]) -> "Data":
        """Both parts at the mean and deviation that the training examples of some classes have."""
        whitening = Whitening.of(self.X[np.isin(self.y, classes)], None)
        return Data(
            whitening(self.X).astype(float),
            self.y,
            whitening(self.X_test).astype(float),
            self.y_test,
        )

    def of(self, classes: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """The training examples of some classes."""
        chosen = np.isin(self.y, classes)
        return self.X[chosen], self.y[chosen]

    def accuracy(self, learner: Any) -> float:
        """On the test examples of the classes the learner knows."""
        known = np.isin(self.y_test, learner.classes_)
        return float(np.mean(learner.predict(self.X_test[known]) == self.y_test[known]))

    def batches(self, seed: int, step: int) -> Iterator[NDArray[Any]]:
        """The classes in a random order: the initial ones, then ``step`` at a time."""
        order = np.random.default_rng(seed).permutation(np.unique(self.y))
        yield order[:N_INITIAL]
        for start in range(N_INITIAL, len(order), step):
            yield order[start : start + step]


def _pack(name: str) -> Any:
    folder = os.environ.get("EVERLEARN_DATA")
    if not folder or not (Path(folder) / name).exists():
        raise SystemExit(f"data pack {name} is missing; set EVERLEARN_DATA to the folder with it")
    return np.load(Path(folder) / name, allow_pickle=False)


def cifar100() -> Data:
    """CIFAR-100 features, 100 images a class: a substitute for ILSVRC10."""
    pack = _pack("cifar100_small_effnetlite0.npz")
    return Data(
        pack["features_train"].astype(float),
        pack["labels_train"],
        pack["features_test"].astype(float),
        pack["labels_test"],
    )


def caltech101() -> Data:
    """Caltech-101 features, the pack's own split."""
    pack = _pack("caltech101_effnetlite0.npz")
    features, labels, train = pack["features"].astype(float), pack["labels"], pack["is_train"]
    train = train.astype(bool)
    return Data(features[train], labels[train], features[~train], labels[~train])


def omniglot() -> Data:
    """Omniglot pixels: 1,623 characters, drawers 0-14 to learn from and 15-19 to test."""
    pack = _pack("omniglot_28.npz")
    images = pack["images"].reshape(len(pack["labels"]), -1).astype(float) / 255.0
    train = pack["drawer"] < np.sort(np.unique(pack["drawer"]))[15]
    labels = pack["labels"]
    return Data(images[train], labels[train], images[~train], labels[~train])
