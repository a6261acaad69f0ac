"""Accuracy against training time, as in Fig. 12 of the paper: a picture, and its numbers.

CIFAR-100 features, from 10 classes to 100 in batches of ten, 10 trees, one order of the classes,
CPU seconds of one thread. Retraining at every step is the upper right corner.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.forest_incremental import relative_accuracies, update_seconds
from benchmarks.side_by_side import Line
from everlearn import NCMForest, SVMForest

PICTURE = Path(__file__).parents[1] / "docs" / "forest_tradeoff.svg"
UPDATES = ("uls", "igt", "rust", "auto", "rtst")
N_TREES = 10


def lines() -> Iterator[Line]:
    points: dict[str, dict[str, tuple[float, float]]] = {}
    for learner in (NCMForest, SVMForest):
        update_seconds(learner, 45, UPDATES, 1)  # compiles what is not compiled yet
        seconds = update_seconds(learner, 10, UPDATES, N_TREES)
        accuracies = relative_accuracies(learner, 10, 0, UPDATES, N_TREES)
        whole = accuracies["retrained"]
        own = {u: (seconds[u] / N_TREES, accuracies[u] * whole) for u in UPDATES}
        own["retrained"] = (seconds["retrain"] / N_TREES, whole)
        points[learner.__name__] = own
        yield Line(
            f"{learner.__name__}: accuracy and CPU seconds per tree, 10 to 100 classes by tens",
            ", ".join(f"{name} {a:.3f} in {s:.2f} s" for name, (s, a) in own.items()),
            "more time, more accuracy",
        )
    draw(points).savefig(PICTURE)


def draw(points: dict[str, dict[str, tuple[float, float]]]) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for (forest, own), marker in zip(points.items(), "os", strict=True):
        axes.plot(*zip(*own.values(), strict=True), f"{marker}-", label=forest, alpha=0.8)
        for name, where in own.items():
            axes.annotate(name.upper(), where, textcoords="offset points", xytext=(5, -10))
    axes.set_xscale("log")
    axes.set_xlabel("training time of all updates, CPU seconds per tree")
    axes.set_ylabel("accuracy at 100 classes")
    axes.legend()
    axes.grid(alpha=0.3)
    return figure
