"""Accuracy on real data: image features class by class, and Table I of the RLSC paper on MNIST.

The trials of MNIST are those of ``everlearn reproduce rlsc --only table1``.
"""

from collections.abc import Iterator

import numpy as np
from everlearn_papers.data import packs
from everlearn_papers.report import published
from everlearn_papers.rlsc.protocol import MNIST, MNIST_RARE, MNIST_SEEDS, imbalance

from benchmarks.side_by_side import Line
from everlearn import NearestClassMean, RecursiveRLSC, StreamingLDA


def lines() -> Iterator[Line]:
    yield from class_by_class()
    yield from mnist_table()


def class_by_class() -> Iterator[Line]:
    train, test = (part := packs.cifar100()).train, part.test
    for learner, wanted in (
        (NearestClassMean(), "≥ 0.59"),
        (StreamingLDA(), "≥ 0.675"),
        (RecursiveRLSC(regularization="auto", recoding="auto"), "≥ 0.685"),
    ):
        for label in train.classes:
            own = train.take(train.y == label)
            learner.partial_fit(own.X, own.y)
        yield Line(
            f"{type(learner).__name__}, CIFAR-100 features (substitute for ImageNet), one pass "
            "class by class, accuracy on all 100 classes",
            f"{learner.score(test.X, test.y):.3f}",
            wanted,
        )


def mnist_table() -> Iterator[Line]:
    """Nine balanced digits, then the tenth example by example: naive, and the published α."""
    table = published("rlsc")["table1"]
    recoding = str(table["alpha"]["MNIST"])
    trials = [
        imbalance(seed, rare=MNIST_RARE, rebalance=False, **MNIST)["sweep"]
        for seed in range(MNIST_SEEDS)
    ]
    for row in table["MNIST"]:
        place = MNIST["sizes"].index(row["n_imb"])
        naive, recoded = (
            np.array([trial[alpha]["total"][place] for trial in trials])
            for alpha in ("0.0", recoding)
        )
        (theirs, _), (theirs_recoded, _) = row["total"]["N"], row["total"]["RC"]
        yield Line(
            f"RLSC, MNIST, digit 8 with {row['n_imb']} examples, total accuracy of "
            f"{MNIST_SEEDS} seeds: naive, recoding",
            f"{naive.mean():.1f} ± {naive.std():.1f} %, "
            f"{recoded.mean():.1f} ± {recoded.std():.1f} %",
            f"{theirs}, {theirs_recoded} (Table I), within 0.5 at 1 and within 1",
        )
