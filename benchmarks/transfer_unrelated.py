"""Four unrelated classes of Caltech-101, each learned from the other three (Fig. 2)."""

from collections.abc import Iterator

import numpy as np

from benchmarks.transfer_tasks import (
    Task,
    learn_sources,
    load_pack,
    make_task,
    unit_rows,
)

TARGETS = ("airplanes", "Motorbikes", "Faces", "Leopards")
N_BACKGROUND = 10
N_SOURCE = 50
N_ORDERINGS = 10


def tasks(seed: int = 0) -> Iterator[Task]:
    pack = load_pack("caltech101_effnetlite0.npz")
    X, labels, names = unit_rows(pack["features"]), pack["labels"], pack["class_names"].tolist()
    rng = np.random.default_rng(seed)
    others = [n for n in names if n not in TARGETS and n != "Faces_easy"]
    background_names = rng.choice(others, N_BACKGROUND, replace=False)
    background = X[np.isin(labels, [names.index(n) for n in background_names])]
    background = background[rng.permutation(len(background))]
    halves = background[: len(background) // 2], background[len(background) // 2 :]
    classes = [X[labels == names.index(n)] for n in TARGETS]
    shuffled = [c[rng.permutation(len(c))] for c in classes]
    sources = learn_sources([c[:N_SOURCE] for c in shuffled], halves[0][:N_SOURCE])
    for target in range(len(TARGETS)):
        chosen = [j for j in range(len(TARGETS)) if j != target]
        for _ in range(N_ORDERINGS):
            yield make_task(shuffled[target][N_SOURCE:], halves[1], sources, chosen, rng)
