"""Streams with concept drift, beside River's best: each example is predicted, then learned.

Three streams in which the meaning of names changes:

*a flip*       ten classes of CIFAR-100 features, whose names all move on by one at example 3,000
*a turn*       the centres of ten classes in 16 dimensions move along circles, all the time
*seasons*      SEA's four concepts one after the other, 10 % of the labels wrong (River's)

Rivals: River's forests and naive Bayes for drift, and a k-NN window, with their defaults. On the
image features, which have too many dimensions for them, they get a ten-dimensional projection
learned from the first 500 examples.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from everlearn_papers.data import packs

from benchmarks.side_by_side import Line
from everlearn import NearestClassMean, PowerNormalizer, RecursiveRLSC, SlidingWindow, StreamingLDA
from everlearn.errors import MissingData

HALF_LIFE = 500
FLIP, END = 3_000, 6_000
Stream = tuple[np.ndarray, np.ndarray]


def flip() -> Stream:
    """The names of ten classes are shifted by one in the middle."""
    data = packs.cifar100()
    root = PowerNormalizer().fit(data.train.X[:1])
    rows = np.flatnonzero(data.train.y < 10)
    rng = np.random.default_rng(0)
    # A thousand pictures: each is seen six times, with a little noise.
    chosen = np.concatenate([rng.permutation(rows) for _ in range(END // len(rows) + 1)])[:END]
    X = root.transform(data.train.X[chosen])
    X += 0.3 * X.std() * rng.normal(size=X.shape)
    y = data.train.y[chosen]
    return X, np.where(np.arange(END) < FLIP, y, (y + 1) % 10)


def turn() -> Stream:
    """Centres of classes move along circles, once around in 8,000 examples."""
    rng = np.random.default_rng(1)
    n, d, k = 12_000, 16, 10
    first, second = (2.5 * rng.normal(size=(k, d)) for _ in range(2))
    angle = 2.0 * np.pi * np.arange(n) / 8_000
    y = rng.integers(0, k, n)
    centres = np.cos(angle)[:, None] * first[y] + np.sin(angle)[:, None] * second[y]
    return centres + rng.normal(size=(n, d)), y


def seasons() -> Stream:
    """SEA: three features, two of which matter; the threshold changes every 3,000 examples."""
    from river.datasets.synth import SEA

    X, y = [], []
    for variant in (0, 1, 2, 3):
        for features, label in SEA(variant=variant, noise=0.1, seed=variant).take(3_000):
            X.append(list(features.values()))
            y.append(int(label))
    return np.array(X), np.array(y)


def ours() -> dict[str, Callable[[], Any]]:
    return {
        "NCM": lambda: NearestClassMean(),
        "LDA": lambda: StreamingLDA(),
        "NCM fading": lambda: NearestClassMean(half_life=HALF_LIFE),
        "LDA fading": lambda: StreamingLDA(half_life=HALF_LIFE),
        "RLSC fading": lambda: RecursiveRLSC(
            half_life=HALF_LIFE, fit_intercept=True, recoding=0.0, regularization=0.1
        ),
        "LDA window": lambda: SlidingWindow(learner=StreamingLDA(), size=2 * HALF_LIFE),
    }


def rivals() -> dict[str, Callable[[], Any]]:
    from river import forest, naive_bayes, neighbors, tree

    return {
        "adaptive random forest": lambda: forest.ARFClassifier(seed=0),
        "adaptive Hoeffding tree": lambda: tree.HoeffdingAdaptiveTreeClassifier(seed=0),
        "naive Bayes": lambda: naive_bayes.GaussianNB(),
        "k-NN window": lambda: neighbors.KNNClassifier(),
    }


def asked_then_learned(learner: Any, X: np.ndarray, y: np.ndarray, step: int = 10) -> np.ndarray:
    """Which answers were correct; a few examples are predicted before they are learned."""
    right = np.zeros(len(y), dtype=bool)
    for start in range(0, len(y), step):
        part = slice(start, start + step)
        if start:
            right[part] = learner.predict(X[part]) == y[part]
        learner.partial_fit(X[part], y[part])
    return right


def asked_then_learned_by_river(model: Any, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    right = np.zeros(len(y), dtype=bool)
    for row, (x, label) in enumerate(zip(X.tolist(), y.tolist(), strict=True)):
        features = dict(enumerate(x))
        right[row] = model.predict_one(features) == label
        model.learn_one(features, label)
    return right


def projected(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """River's input: the discriminant axes of the first 500 examples."""
    if X.shape[1] <= 50:
        return X
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    axes = LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto").fit(X[:500], y[:500])
    return axes.transform(X)


def lines() -> Iterator[Line]:
    for name, stream in (("a flip", flip), ("a turn", turn), ("seasons", seasons)):
        try:
            X, y = stream()
        except MissingData:
            continue
        few = projected(X, y)
        found = {who: asked_then_learned(make(), X, y) for who, make in ours().items()}
        found |= {
            who: asked_then_learned_by_river(make(), few, y) for who, make in rivals().items()
        }
        shares = {who: float(np.mean(right[500:])) for who, right in found.items()}
        measured = ", ".join(f"{who} {share:.1%}" for who, share in shares.items())
        best = max(shares[who] for who in rivals())
        yield Line(
            f"progressive validation, {name}, {X.shape[1]} features",
            measured,
            f"fading at least River's best, {best:.1%}",
        )
        if name == "a flip":
            later = {who: float(np.mean(right[-1000:])) for who, right in found.items()}
            yield Line(
                f"right answers 2,000 to 3,000 examples after the flip, half_life={HALF_LIFE}",
                ", ".join(f"{who} {share:.1%}" for who, share in later.items()),
                "≥ 90 %",
            )
