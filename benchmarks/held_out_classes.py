"""Transfer from half of the classes to the other half: one, five and twenty examples of each.

A map is learned from all training examples of half of the classes, in closed form from their
moments, and fixed; then the other classes are learned behind it and tested with their test
examples. Features as in ``quality``; three ways to halve the classes.

    whitened      ClassWhitening: what varies within classes counts less
    projected     the K − 1 directions that separate the first classes (discriminant analysis)
    aligned       least squares onto their means made orthogonal, in the spirit of AnaCP
    shrunk        no map: new means moved towards the mean of all, as if by one more example there
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.quality import PACKS, drawn, prepared
from benchmarks.side_by_side import Line
from everlearn import AutoClassifier, ClassWhitening, NearestClassMean, RecursiveRLSC
from everlearn.arrays import unit_rows

SHOTS = (1, 5, 20)
SPLITS = 3
# ρ of (W + ρ ν I) where directions are projected onto, and λ of the alignment, of their mean.
PROJECTION_RIDGE, ALIGNMENT_RIDGE = 1.0, 1.0

Map = Callable[[Any], Any]


def lines() -> Iterator[Line]:
    for name in PACKS:
        found: dict[tuple[str, int], list[float]] = {}
        for split in range(SPLITS):
            for key, share in halved(name, split):
                found.setdefault(key, []).append(share)
        for shots in SHOTS:
            means = {who: 100 * np.mean(v) for (who, n), v in found.items() if n == shots}
            measured = ", ".join(f"{who} {mean:.1f}" for who, mean in means.items())
            gain = means["whitened, auto"] - means["auto"]
            yield Line(
                f"{name}, {shots} of each new class", f"{measured}; whitened {gain:+.1f}", "≥ 0"
            )


def halved(name: str, split: int) -> Iterator[tuple[tuple[str, int], float]]:
    """Shares of right answers about the new half of the classes, for every way and shots."""
    X, y, X_test, y_test = prepared(name)
    classes = np.random.default_rng(split).permutation(np.unique(y))
    known = np.isin(y, classes[: len(classes) // 2])
    asked = np.isin(y_test, classes[len(classes) // 2 :])
    maps = {
        "whitened": ClassWhitening().fit(X[known], y[known]).transform,
        "projected": projected(X[known], y[known]),
        "aligned": aligned(X[known], y[known]),
    }
    asked_rows, asked_labels = X_test[asked], y_test[asked]
    new_X, new_y = X[~known], y[~known]
    centre = X[known].mean(axis=0)
    for shots in SHOTS:
        taught = drawn(new_y, shots, split)
        rows, labels = new_X[taught], new_y[taught]
        plain = {
            "nearest mean": NearestClassMean().fit(rows, labels),
            "shrunk": _shrunk(rows, labels, centre),
            "ridge": RecursiveRLSC(regularization="auto", fit_intercept=True).fit(rows, labels),
            "auto": AutoClassifier().fit(rows, labels),
        }
        for who, learner in plain.items():
            yield (who, shots), learner.score(asked_rows, asked_labels)
        for way, see in maps.items():
            for who, learner in (("nearest mean", NearestClassMean()), ("auto", AutoClassifier())):
                learner.fit(see(rows), labels)
                yield (f"{way}, {who}", shots), learner.score(see(asked_rows), asked_labels)


def _shrunk(rows: Any, labels: Any, centre: Any) -> NearestClassMean:
    """Nearest means, of each class with one example more that lies in the centre of all."""
    classes = np.unique(labels)
    centres = np.tile(centre, (len(classes), 1))
    return NearestClassMean().fit(rows, labels).partial_fit(centres, classes)


def projected(X: Any, y: Any) -> Map:
    """Onto the directions of discriminant analysis, whitened within classes; length one."""
    mean, means, members = _classes(X, y)
    within = (X - means[members]).T @ (X - means[members]) / len(X)
    variances, Q = np.linalg.eigh(within / (np.trace(within) / len(within)))
    white = (Q / np.sqrt(np.maximum(variances, 0.0) + PROJECTION_RIDGE)) @ Q.T
    between = (means - mean) @ white
    _, _, axes = np.linalg.svd(between, full_matrices=False)
    directions = white @ axes[: len(means) - 1].T
    return lambda rows: unit_rows((rows - mean) @ directions)


def aligned(X: Any, y: Any) -> Map:
    """Least squares onto class means made orthogonal; length one."""
    mean, means, members = _classes(X, y)
    left, _, right = np.linalg.svd(means - mean, full_matrices=False)
    targets = left[:, : len(means) - 1] @ right[: len(means) - 1]
    scatter = (X - mean).T @ (X - mean)
    ridge = ALIGNMENT_RIDGE * np.trace(scatter) / len(scatter)
    weights = np.linalg.solve(
        scatter + ridge * np.eye(len(scatter)), (X - mean).T @ targets[members]
    )
    return lambda rows: unit_rows((rows - mean) @ weights)


def _classes(X: Any, y: Any) -> tuple[Any, Any, Any]:
    """The mean of all, of every class, and which class each example is of."""
    names, members = np.unique(y, return_inverse=True)
    means = np.array([X[members == k].mean(axis=0) for k in range(len(names))])
    return X.mean(axis=0), means, members
