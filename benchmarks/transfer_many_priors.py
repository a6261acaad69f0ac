"""Many priors: CIFAR-100 and Caltech-101 with all other classes as priors (Fig. 3).

Every class but a small shared background is a prior for every other. The hard case, shown last,
has no shared background: negatives of each task come from all other classes, so that what one
task calls negative is another's positive.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.accuracy import pack
from benchmarks.side_by_side import Line
from everlearn.papers.transfer.tasks import (
    N_SOURCE,
    N_SOURCE_BACKGROUND,
    N_TRAIN,
    Task,
    at,
    compare,
    learn_sources,
    make_task,
    mistakes,
    split_background,
    table,
    unit_rows,
)

PACKS = (
    "cifar100_small_effnetlite0.npz",
    "caltech101_effnetlite0.npz",
)
N_TARGETS = 24
N_ORDERINGS = 3
SMALLEST_TEST = 10


def cifar() -> tuple[Any, Any]:
    data = pack("cifar100_small_effnetlite0.npz")
    X = unit_rows(np.concatenate([data["features_train"], data["features_test"]]))
    return X, np.concatenate([data["labels_train"], data["labels_test"]])


def caltech() -> tuple[Any, Any]:
    data = pack("caltech101_effnetlite0.npz")
    keep = data["labels"] != data["class_names"].tolist().index("Faces_easy")
    return unit_rows(data["features"][keep]), data["labels"][keep]


def tasks(
    X: Any, labels: Any, seed: int, n_background: int, n_targets: int | None, n_orderings: int
) -> Iterator[Task]:
    """Targets in random order; None for all classes with enough samples."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(np.unique(labels))
    background, known = order[:n_background], order[n_background:]
    ours, theirs = split_background(X[np.isin(labels, background)], rng)
    sources = learn_sources([X[labels == c][:N_SOURCE] for c in known], ours)
    enough = [i for i, c in enumerate(known) if (labels == c).sum() >= N_TRAIN + SMALLEST_TEST]
    for target in enough[:n_targets]:
        others = [j for j in range(len(known)) if j != target]
        for _ in range(n_orderings):
            yield make_task(X[labels == known[target]], theirs, sources, others, rng)


def tasks_without_background(X: Any, labels: Any, seed: int) -> Iterator[Task]:
    """The hard case: the negatives of sources and targets are samples of all classes."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(np.unique(labels))
    for target in order[:N_TARGETS]:
        others = X[labels != target]
        ours, theirs = split_background(others, rng)
        sources = learn_sources(
            [X[labels == c][:N_SOURCE] for c in order if c != target][:30],
            ours[:N_SOURCE_BACKGROUND],
        )
        yield make_task(X[labels == target], theirs, sources, range(len(sources.biases)), rng)


def lines() -> Iterator[Line]:
    if any(pack(name) is None for name in PACKS):
        return
    found = list(tasks(*cifar(), 100, 5, N_TARGETS, N_ORDERINGS))
    for penalty in ("ridge", "ball"):
        results = compare(found, penalty)
        print(f"\nCIFAR-100, {N_TARGETS} targets, {penalty}\n{table(results)}\n")
        yield Line(
            f"CIFAR-100, {N_TARGETS} targets, 94 priors, {penalty}: mistakes of TROL / TROL+ / "
            "TR-OTL against PA / OTL / M-OTL",
            f"{mistakes(results, 'TROL', 'TROL+', 'TR-OTL')} against "
            f"{mistakes(results, 'PA', 'OTL', 'M-OTL')}",
            "each below each",
        )
        yield Line(
            f"CIFAR-100, {penalty}: recognition at 60 samples, TROL / PA / Multi-KT",
            " / ".join(f"{at(results, n, 60)[0]:.1f} %" for n in ("TROL", "PA", "Multi-KT")),
            "TROL not below PA, within 2 points of Multi-KT",
        )
    found = list(tasks(*caltech(), 100, 10, None, 1))
    results = compare(found, "ridge")
    print(f"\nCaltech-101, {len(found)} targets, ridge\n{table(results)}\n")
    yield Line(
        f"Caltech-101, {len(found)} targets: recognition at 60 samples, TROL / Multi-KT / PA",
        " / ".join(f"{at(results, n, 60)[0]:.1f} %" for n in ("TROL", "Multi-KT", "PA")),
        "TROL within 1 point of Multi-KT",
    )
    results = compare(
        tasks_without_background(*cifar(), 100), "ball", ("NOTR", "Multi-KT", "PA", "TROL")
    )
    print(f"\nCIFAR-100 without a shared background, ball\n{table(results)}\n")
    yield Line(
        "CIFAR-100 without a shared background, ball: recognition at 6 samples, Multi-KT / NOTR",
        " / ".join(f"{at(results, n, 6)[0]:.1f} %" for n in ("Multi-KT", "NOTR")),
        "shown as the hard case",
    )
