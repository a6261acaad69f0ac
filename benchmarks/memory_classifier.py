"""Chooses the default classifier of a Memory, on classes that its other figures do not use.

The 89 classes of Caltech-101 that the demo photographs are not from; features of EfficientNet-Lite0
at length one. Some classes are drawn, some of their examples taught, twenty others of each tested.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from everlearn_papers.data import packs
from everlearn_papers.data.catalogue import find

from benchmarks.side_by_side import Line
from everlearn import (
    NearestClassMean,
    PowerNormalizer,
    RecursiveRLSC,
    StreamingLDA,
    StreamPipeline,
)
from everlearn.memory.model.classifiers import default_classifier

DRAWS = 16
ASKED_EACH = 20
MANY, FEWEST, MOST_OF_FEW = 20, 1, 3


class Shelf(NamedTuple):
    """Number of classes, and examples of each (none: half few, half many)."""

    n_classes: int
    each: int | None

    def __str__(self) -> str:
        if self.each is None:
            return f"{self.n_classes} classes, half with {FEWEST}-{MOST_OF_FEW}, half with {MANY}"
        return f"{self.n_classes} classes, {self.each} each"


SHELVES = (Shelf(12, 1), Shelf(12, 5), Shelf(60, 5), Shelf(20, None))


def ridge(regularization: float, recoding: float) -> RecursiveRLSC:
    return RecursiveRLSC(regularization=regularization, recoding=recoding)


def rooted(classifier: Any) -> StreamPipeline:
    return StreamPipeline([("root", PowerNormalizer()), ("learn", classifier)])


CLASSIFIERS: dict[str, Callable[[], Any]] = {
    "nearest class mean": NearestClassMean,
    "streaming LDA, oas": lambda: StreamingLDA(shrinkage="oas"),
    "least squares, λ = 0.1, α = 0.5": lambda: ridge(0.1, 0.5),
    "least squares, λ = 0.3, α = 0.5": lambda: ridge(0.3, 0.5),
    "least squares, λ = 1, α = 0.5": lambda: ridge(1.0, 0.5),
    "least squares, λ = 0.3, α = 0.3": lambda: ridge(0.3, 0.3),
    "behind a signed root: nearest class mean": lambda: rooted(NearestClassMean()),
    "behind a signed root: streaming LDA, oas": lambda: rooted(StreamingLDA(shrinkage="oas")),
    "behind a signed root: λ = 0.1, α = 0.5": lambda: rooted(ridge(0.1, 0.5)),
    "behind a signed root: λ = 0.3, α = 0.5 (the default)": default_classifier,
    "behind a signed root: λ = 1, α = 0.5": lambda: rooted(ridge(1.0, 0.5)),
}


def lines() -> Iterator[Line]:
    X, labels = other_classes()
    for name, made in CLASSIFIERS.items():
        found = [
            np.mean([right(made, X, labels, shelf, seed) for seed in range(DRAWS)])
            for shelf in SHELVES
        ]
        yield Line(name, ", ".join(f"{accuracy:.3f}" for accuracy in found), "")
    yield Line("shelves, in this order", "; ".join(str(shelf) for shelf in SHELVES), "")


def other_classes() -> tuple[np.ndarray, np.ndarray]:
    """The examples of all classes that are in no demo photograph, at length one."""
    X, labels, names = packs.arrays(packs.CALTECH101, "features", "labels", "class_names")
    shown = {folder.name for folder in find("demo_photos").iterdir() if folder.is_dir()}
    kept = ~np.isin(labels, [k for k, name in enumerate(names) if str(name) in shown])
    rows = X[kept].astype(np.float64)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True), labels[kept]


def right(
    made: Callable[[], Any], X: np.ndarray, labels: np.ndarray, shelf: Shelf, seed: int
) -> float:
    """Accuracy on one draw of classes and examples."""
    rng = np.random.default_rng(seed)
    taught, asked = [], []
    for place, label in enumerate(rng.choice(np.unique(labels), shelf.n_classes, replace=False)):
        rows = rng.permutation(np.flatnonzero(labels == label))
        few_or_many = rng.integers(FEWEST, MOST_OF_FEW + 1) if place % 2 else MANY
        n = min(few_or_many if shelf.each is None else shelf.each, len(rows) - 5)
        taught += rows[:n].tolist()
        asked += rows[n : n + ASKED_EACH].tolist()
    classifier = made().fit(X[taught], labels[taught])
    return float(np.mean(classifier.predict(X[asked]) == labels[asked]))
