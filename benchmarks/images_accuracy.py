"""What a Learner knows after a few photographs. Nothing is tuned on the photographs asked.

The photographs are twelve classes of Caltech-101; the network was trained on ImageNet, whose
classes overlap them, so the figures show that the chain works, not that unseen categories are easy.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.data import pack, pack_folder
from benchmarks.side_by_side import Line
from everlearn import Learner
from everlearn.features.batches import embed_sources
from everlearn.features.embedders import EfficientNetLite0

CHOICES = 10
TAUGHT_EACH = 5
N_KNOWN = 8


def photographs() -> tuple[np.ndarray, np.ndarray]:
    """The vector and the name of every demo photograph, through decoder and network."""
    paths = sorted(pack_folder("demo_photos").glob("*/*.jpg"))
    vectors = [found.vector for found in embed_sources(EfficientNetLite0(), paths)]
    return np.array(vectors), np.array([path.parent.name for path in paths])


def split(names: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Five of every class to teach, the others to ask."""
    taught = np.concatenate(
        [
            rng.choice(np.flatnonzero(names == name), TAUGHT_EACH, replace=False)
            for name in np.unique(names)
        ]
    )
    return taught, np.setdiff1d(np.arange(len(names)), taught)


def named(X: np.ndarray, names: np.ndarray) -> tuple[float, float]:
    """Accuracy over ten random choices, and how far confidence is from it."""
    accuracies, confidences = [], []
    for seed in range(CHOICES):
        taught, asked = split(names, np.random.default_rng(seed))
        with tempfile.TemporaryDirectory() as folder, Learner(folder) as learner:
            learner.teach_many(zip(X[taught], names[taught].tolist(), strict=True))
            answers = [learner.ask(x)[0] for x in X[asked]]
        accuracies.append(
            np.mean([a.name == n for a, n in zip(answers, names[asked], strict=True)])
        )
        confidences.append(np.mean([a.probability for a in answers]))
    return float(np.mean(accuracies)), float(np.mean(confidences))


def unknown(X: np.ndarray, names: np.ndarray) -> tuple[float, float]:
    """The share of unknown classes' photographs flagged, and of known ones accepted."""
    flagged, accepted = [], []
    for seed in range(CHOICES):
        rng = np.random.default_rng(seed)
        known = rng.choice(np.unique(names), N_KNOWN, replace=False)
        taught, asked = split(names, rng)
        with tempfile.TemporaryDirectory() as folder, Learner(folder) as learner:
            learner.teach_many((X[i], str(names[i])) for i in taught if names[i] in known)
            verdicts = np.array([learner.ask(x).unknown for x in X[asked]])
        of_known = np.isin(names[asked], known)
        flagged.append(verdicts[~of_known].mean())
        accepted.append(1.0 - verdicts[of_known].mean())
    return float(np.mean(flagged)), float(np.mean(accepted))


def caltech() -> float:
    """Accuracy on the pack's split, vectors through a Learner."""
    data = pack("caltech101_effnetlite0.npz")
    X, names, train = data["features"], data["class_names"][data["labels"]], data["is_train"]
    with tempfile.TemporaryDirectory() as folder, Learner(Path(folder)) as learner:
        learner.teach_many(zip(X[train], names[train].tolist(), strict=True), again=True)
        answers = [learner.ask(x)[0].name for x in X[~train]]
    return float(np.mean(np.array(answers) == names[~train]))


def lines() -> Iterator[Line]:
    X, names = photographs()
    accuracy, confidence = named(X, names)
    yield Line(
        "twelve classes of photographs, 5 taught, 15 asked, mean of 10 random choices",
        f"{accuracy:.1%} right",
        ">= 96.5 %",
    )
    yield Line(
        "the same: mean probability of the first answer", f"{confidence:.1%}", "its accuracy"
    )
    flagged, accepted = unknown(X, names)
    yield Line(
        "8 of 12 classes taught: photographs of the other 4 called unknown",
        f"{flagged:.1%}, with {accepted:.1%} of known ones accepted",
        ">= 90 % and >= 90 %",
    )
    yield Line("Caltech-101 features, the pack's split", f"{caltech():.4f} right", ">= 0.93")
