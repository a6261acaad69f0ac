"""Four unrelated classes of Caltech-101, each learned from the other three (Fig. 2).

The background is ten classes drawn at random; how well anything transfers depends much on which
ones, so the figures are means over several draws, and the spread between draws is shown.
EfficientNet features of Caltech-101 stand in for SIFT of Caltech-256.
"""

from collections.abc import Iterator

import numpy as np

from benchmarks.accuracy import pack
from benchmarks.side_by_side import Line
from everlearn.papers.transfer.tasks import (
    N_SOURCE,
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

PACKS = ("caltech101_effnetlite0.npz",)
TARGETS = ("airplanes", "Motorbikes", "Faces", "Leopards")
# Faces_easy are the same pictures as Faces.
NOT_BACKGROUND = (*TARGETS, "Faces_easy")
N_BACKGROUND = 10
N_ORDERINGS = 10
DRAWS = range(100, 105)


def tasks(draw: int) -> Iterator[Task]:
    data = pack("caltech101_effnetlite0.npz")
    X, labels, names = unit_rows(data["features"]), data["labels"], data["class_names"].tolist()
    rng = np.random.default_rng(draw)
    drawn = rng.choice([n for n in names if n not in NOT_BACKGROUND], N_BACKGROUND, replace=False)
    ours, theirs = split_background(X[np.isin(labels, [names.index(n) for n in drawn])], rng)
    classes = [X[labels == names.index(n)] for n in TARGETS]
    sources = learn_sources([c[:N_SOURCE] for c in classes], ours)
    for target, positives in enumerate(classes):
        others = [j for j in range(len(TARGETS)) if j != target]
        for _ in range(N_ORDERINGS):
            yield make_task(positives[N_SOURCE:], theirs, sources, others, rng)


def lines() -> Iterator[Line]:
    if any(pack(name) is None for name in PACKS):
        return
    by_draw = [list(tasks(draw)) for draw in DRAWS]
    everything = [task for each in by_draw for task in each]
    for penalty in ("ridge", "ball"):
        results = compare(everything, penalty)
        print(f"\npenalty={penalty!r}\n{table(results)}\n")
        sizes = np.array(
            [
                results[name][0].reshape(len(by_draw), -1).mean(axis=1)
                for name in ("TROL", "TROL+", "TR-OTL", "PA")
            ]
        )
        print("mistakes by background, TROL, TROL+, TR-OTL, PA:\n", sizes.T.round(2), "\n")
        yield Line(
            f"four unrelated classes, {penalty}: mistakes of TROL / TROL+ / TR-OTL against "
            "PA / OTL / M-OTL",
            f"{mistakes(results, 'TROL', 'TROL+', 'TR-OTL')} against "
            f"{mistakes(results, 'PA', 'OTL', 'M-OTL')}",
            "each below half of each",
        )
        gaps = [
            f"{at(results, name, 10)[0] - at(results, 'Multi-KT', 10)[0]:+.1f}"
            for name in ("TROL", "TROL+", "TR-OTL")
        ]
        yield Line(
            f"four unrelated classes, {penalty}: recognition after 10 samples less Multi-KT's",
            f"{' / '.join(gaps)} points",
            "within 1 point",
        )
