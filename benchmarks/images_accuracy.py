"""Accuracy of a Memory after a few photographs, without tuning on the test photographs.

The photographs are twelve classes of Caltech-101; the network was trained on ImageNet, whose
classes overlap them, so the figures show that the chain works, not that unseen categories are easy.
"""

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from everlearn_papers.data import packs
from everlearn_papers.data.catalogue import find

from benchmarks.images_speed import Precision
from benchmarks.side_by_side import Line
from benchmarks.unknown import CHOICES as CHOICES_OF_NAMES
from benchmarks.unknown import choice
from everlearn import Memory
from everlearn.images.batches import Unreadable, embed_sources
from everlearn.images.decode import decode
from everlearn.images.embedders import EfficientNetLite0
from everlearn.memory.model.classifiers import default_classifier

CHOICES = 10
TAUGHT_EACH = 5
N_KNOWN = 8
TURNTABLE_EVERY = 3
CIFAR_EACH = 30


def photographs(precision: Precision = "float32") -> tuple[np.ndarray, np.ndarray]:
    """The vector and the name of every demo photograph, through decoder and network."""
    paths = sorted(find("demo_photos").glob("*/*.jpg"))
    vectors = []
    for found in embed_sources(EfficientNetLite0(precision=precision), paths):
        if isinstance(found, Unreadable):
            raise found.error
        vectors.append(found.vector)
    return np.array(vectors), np.array([path.parent.name for path in paths])


def split(
    names: np.ndarray, rng: np.random.Generator, each: int = TAUGHT_EACH
) -> tuple[np.ndarray, np.ndarray]:
    """Some of every class to teach, the others to ask."""
    taught = np.concatenate(
        [
            rng.choice(np.flatnonzero(names == name), each, replace=False)
            for name in np.unique(names)
        ]
    )
    return taught, np.setdiff1d(np.arange(len(names)), taught)


@dataclass(frozen=True)
class Named:
    """Shares of the pictures asked about, all of taught names; means over random choices."""

    right: float  # the answer is the right name; "unknown" is not
    called_unknown: float
    first_guess: float  # the most probable name is right, whether or not it was called unknown
    confidence: float  # mean probability of the most probable name


def named(
    X: np.ndarray,
    names: np.ndarray,
    each: int = TAUGHT_EACH,
    classifier: Any = None,
) -> Named:
    """Teach some pictures of every name, ask about the others, ten times."""
    found = []
    for seed in range(CHOICES):
        taught, asked = split(names, np.random.default_rng(seed), each)
        with (
            tempfile.TemporaryDirectory() as folder,
            Memory(folder, classifier=classifier) as memory,
        ):
            memory.teach_many(zip(X[taught], names[taught].tolist(), strict=True))
            answers = [memory.ask(x) for x in X[asked]]
        first = np.array([answer[0].name for answer in answers]) == names[asked]
        strange = np.array([answer.unknown for answer in answers])
        confidence = np.mean([answer[0].probability for answer in answers])
        found.append((np.mean(first & ~strange), np.mean(strange), np.mean(first), confidence))
    return Named(*(float(share) for share in np.mean(found, axis=0)))


def unknown(X: np.ndarray, names: np.ndarray, n_known: int = N_KNOWN) -> tuple[float, float]:
    """The share of unknown classes' photographs flagged, and of known ones accepted."""
    flagged, accepted = [], []
    for seed in range(CHOICES_OF_NAMES):
        known, taught, asked = choice(names, TAUGHT_EACH, n_known, seed)
        with tempfile.TemporaryDirectory() as folder, Memory(folder) as memory:
            memory.teach_many(((X[i], str(names[i])) for i in taught), again=True)
            verdicts = np.array([memory.ask(x).unknown for x in X[asked]])
        of_known = np.isin(names[asked], known)
        flagged.append(verdicts[~of_known].mean())
        accepted.append(1.0 - verdicts[of_known].mean())
    return float(np.mean(flagged)), float(np.mean(accepted))


def caltech() -> float:
    """Accuracy on the pack's split, vectors through a Memory."""
    X, labels, train, known = packs.arrays(
        packs.CALTECH101, "features", "labels", "is_train", "class_names"
    )
    names = known[labels]
    with tempfile.TemporaryDirectory() as folder, Memory(Path(folder)) as memory:
        memory.teach_many(zip(X[train], names[train].tolist(), strict=True), again=True)
        answers = [memory.ask(x)[0].name for x in X[~train]]
    return float(np.mean(np.array(answers) == names[~train]))


def turntable_at(precision: Precision) -> tuple[np.ndarray, np.ndarray]:
    images, labels, frame = packs.arrays("icub_camera50.npz", "images", "labels", "frame")
    rows = np.flatnonzero(frame % TURNTABLE_EVERY == 0)
    vectors = EfficientNetLite0(precision=precision).embed(list(images[rows]))
    return vectors, np.array([f"{label:02d}" for label in labels[rows]])


def cifar_at(precision: Precision) -> tuple[np.ndarray, np.ndarray]:
    """The first pictures of every class, from the test mosaics."""
    tiles, names = [], []
    for path in sorted(find("cifar100_32x32").glob("test_*.jpg")):
        mosaic = decode(path).reshape(10, 32, 10, 32, 3).swapaxes(1, 2).reshape(-1, 32, 32, 3)
        tiles += list(mosaic[:CIFAR_EACH])
        names += [path.stem.removeprefix("test_")] * CIFAR_EACH
    return EfficientNetLite0(precision=precision).embed(tiles), np.array(names)


def shots(X: np.ndarray, names: np.ndarray, each: int) -> float:
    """Accuracy of the Memory's classifier after so many examples of every class."""
    vectors = X / np.linalg.norm(X, axis=1, keepdims=True)
    accuracies = []
    for seed in range(CHOICES):
        taught, asked = split(names, np.random.default_rng(seed), each)
        classifier = default_classifier().partial_fit(vectors[taught], names[taught])
        accuracies.append(np.mean(classifier.predict(vectors[asked]) == names[asked]))
    return float(np.mean(accuracies))


def precisions() -> Iterator[Line]:
    """What int8 costs, pack by pack, the same examples taught and asked."""
    features: Callable[[Precision], tuple[np.ndarray, np.ndarray]]
    packs = {
        "photographs": (photographs, 5, 14, 8),
        "turntable, every third frame": (turntable_at, 5, 16, 30),
        "CIFAR-100, 30 of the test pictures each": (cifar_at, 5, 20, 60),
    }
    for name, (features, few, many, n_known) in packs.items():
        by_precision = [features("float32"), features("int8")]
        for each in (few, many):
            exact, quick = (shots(*found, each) for found in by_precision)
            yield Line(
                f"{name}: accuracy lost by int8, {each} taught a class",
                f"{100 * (exact - quick):+.2f} points ({exact:.2%} to {quick:.2%})",
                "<= 0.3 points",
            )
        (flagged, accepted), (quick_flagged, quick_accepted) = (
            unknown(*found, n_known) for found in by_precision
        )
        yield Line(
            f"{name}: unknown names called unknown, known ones accepted, float32 and int8",
            f"{flagged:.1%} and {accepted:.1%}; {quick_flagged:.1%} and {quick_accepted:.1%}",
            "alike",
        )


def few_shots(X: np.ndarray, names: np.ndarray) -> Iterator[Line]:
    """One and five photographs of a class: the default classifier, and without its root."""
    ridge = default_classifier().named_steps["ridge"]
    for each, wanted in ((1, ">= 89 %"), (5, ">= 97.5 %")):
        rooted, plain = (named(X, names, each, how).first_guess for how in (None, ridge))
        yield Line(
            f"twelve names, {each} taught: first guess right, default and without its signed root",
            f"{rooted:.1%}, {plain:.1%}",
            wanted,
        )


def lines() -> Iterator[Line]:
    X, names = photographs()
    yield from few_shots(X, names)
    yield from precisions()
    photographs_asked = named(X, names)
    yield Line(
        "twelve names, 5 photographs taught, 15 asked, mean of 10 random choices: named right",
        f"{photographs_asked.right:.1%} ({photographs_asked.called_unknown:.1%} called unknown)",
        "a taught thing called unknown is a mistake",
    )
    yield Line(
        "the same: the most probable name is right",
        f"{photographs_asked.first_guess:.1%}",
        ">= 96.5 %",
    )
    yield Line(
        "the same: mean probability of that name",
        f"{photographs_asked.confidence:.1%}",
        "its accuracy",
    )
    flagged, accepted = unknown(X, names)
    yield Line(
        "8 of 12 classes taught: photographs of the other 4 called unknown",
        f"{flagged:.1%}, with {accepted:.1%} of known ones accepted",
        ">= 90 % and >= 90 %",
    )
    yield Line("Caltech-101 features, the pack's split", f"{caltech():.4f} right", ">= 0.93")
