"""Accuracy and training time of forest updates, relative to retraining.

The protocol is that of ``everlearn reproduce forests``, on CIFAR-100 from 10 classes to 100.
Accuracy: 50 trees. Time: CPU seconds of one thread, 10 trees; the forest is retrained at every
step. Both at three orders of the classes. Each way and each retraining is timed ``REPEATS`` times,
and the best counts.
"""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from everlearn_papers.forests.experiments import grown, growth
from everlearn_papers.forests.protocol import sizes_of_updates
from everlearn_papers.forests.runs import Runs

from benchmarks.side_by_side import Line

ORDERS = (0, 1, 2)
N_INITIAL, N_CLASSES = 10, 100
N_TREES, N_TREES_TIMED, REPEATS = 50, 10, 3
NAMES = {"NCMF": "NCMForest", "SVMF": "SVMForest"}


def lines() -> Iterator[Line]:
    yield from accuracy_lines(
        "NCMF", 10, {"ULS": 27, "IGT": 86, "RTST": 95, "RUST": 89, "AUTO": 95}
    )
    yield from accuracy_lines(
        "SVMF", 10, {"ULS": 14, "IGT": 80, "RTST": 91, "RUST": 85, "AUTO": None}
    )
    yield from accuracy_lines("NCMF", 1, {"IGT": 82, "RTST": 97, "RUST": 89, "AUTO": None})
    yield from time_lines(10, {"IGT": 5, "RUST": 3, "RTST": 2.5, "AUTO": 3})
    yield from time_lines(1, {"IGT": 25, "RUST": 9, "RTST": 4, "AUTO": None})


def runs(kind: str, step: int, ways: list[str], checkpoints: list[int], n_trees: int) -> Runs:
    name = growth(kind, N_INITIAL, step)
    return Runs(
        [
            grown(
                seed,
                data="cifar100",
                forests=[kind],
                initials=[N_INITIAL],
                steps=[step],
                checkpoints=checkpoints,
                n_trees=n_trees,
                arms={way: {"update": way.lower()} for way in ways},
            )[name]
            for seed in ORDERS
        ]
    )


def accuracy_lines(kind: str, step: int, wanted: dict[str, float | None]) -> Iterator[Line]:
    found = runs(kind, step, list(wanted), [N_INITIAL, N_CLASSES], N_TREES)
    shares = {way: found.relative(way)[:, -1] for way in wanted}
    for way, least in wanted.items():
        yield Line(
            f"{NAMES[kind]} {way} +{step}: accuracy relative to a retrained forest",
            f"{shares[way].mean():.1f} % ({', '.join(f'{share:.1f}' for share in shares[way])})",
            "–" if least is None else f"≥ {least} %",
        )
    ranked = [way for way in ("RTST", "RUST", "IGT", "ULS") if way in wanted]
    held = np.all([shares[a] > shares[b] for a, b in pairwise(ranked)], axis=0)
    yield Line(
        f"{NAMES[kind]} +{step}: {' > '.join(ranked)} in accuracy",
        f"at {held.sum()} of {len(ORDERS)} orders",
        "at every order",
    )


def time_lines(step: int, wanted: dict[str, float | None]) -> Iterator[Line]:
    every = sizes_of_updates(N_INITIAL, step, N_CLASSES)
    repeated = [runs("NCMF", step, list(wanted), every, N_TREES_TIMED) for _ in range(REPEATS)]
    spent = {
        way: np.min([found.last(way, "training") for found in repeated], axis=0)
        for way in (*wanted, "retrained")
    }
    for way, least in wanted.items():
        ratios = spent["retrained"] / spent[way]
        yield Line(
            f"NCMForest {way} +{step}: training time of all updates against retraining",
            f"{ratios.mean():.1f}× ({', '.join(f'{ratio:.1f}' for ratio in ratios)})",
            "–" if least is None else f"≥ {least}×",
        )
    held = np.all([spent[a] < spent[b] for a, b in pairwise(("IGT", "RUST", "RTST"))], axis=0)
    yield Line(
        f"NCMForest +{step}: IGT < RUST < RTST in cost",
        f"at {held.sum()} of {len(ORDERS)} orders",
        "at every order",
    )
