"""Tommasi et al. 2012: transfer learning initialises online learning.

A target class against a background, samples alternating; detectors of other classes are the prior
knowledge. Recognition on a test set as samples come in, and mistakes on samples 7 to 60. The paper
prints curves and no numbers, so the claims of its text stand in the published column.
"""

from functools import cache
from typing import Any

import numpy as np

from everlearn.evaluation import plots
from everlearn.evaluation.repeat import Result
from everlearn.evaluation.table import Table
from everlearn.papers.report import Section, Setting, published, spread
from everlearn.papers.transfer.tasks import (
    BATCH,
    CHECKPOINTS,
    Task,
    compare,
    contenders,
    learn_sources,
    make_task,
    split_background,
    unit_rows,
)
from everlearn.streams import packs

TITLE = (
    "Transfer: Leveraging over prior knowledge for online learning of visual categories "
    "(Tommasi et al., BMVC 2012)"
)
DATA = (
    "Caltech-101, EfficientNet-Lite0 features: a **substitute** for SIFT features of Caltech-256. "
    "The network was trained on ImageNet, which has most of these classes."
)
PAIRS = {
    "unrelated": ("watch", "bonsai"),
    "intermediate": ("helicopter", "airplanes"),
    "related": ("ketch", "schooner"),
}
FOUR = ("airplanes", "Motorbikes", "Faces", "Leopards")
# Faces_easy are the same pictures as Faces.
NEVER_BACKGROUND = {*FOUR, "Faces_easy", *(name for pair in PAIRS.values() for name in pair)}
N_BACKGROUND = 10
N_SOURCE = 30
LEAST_IMAGES = 60
PENALTY = "ball"


def fig1(setting: Setting) -> Section:
    """Fig. 1: one prior, from unrelated to related."""
    table = Table()
    drawn, axes = plots.figure(len(PAIRS), width=4.0)
    for panel, (kind, pair) in zip(axes[0], PAIRS.items(), strict=True):
        runs = setting.repeat(
            one_prior, f"pair-{kind}", 5, pair=list(pair), orderings=_orderings(setting)
        )
        _add(table, {"prior": f"{kind}: {pair[0]}, {pair[1]}"}, runs)
        _draw(panel, runs, f"{kind}: {pair[0]}, {pair[1]}")
    return Section("Fig. 1: a single source", DATA, _text("fig1"), table, {"": drawn})


def fig2(setting: Setting) -> Section:
    """Fig. 2: four unrelated classes, each learned from the other three."""
    runs = setting.repeat(four_classes, "four", 5, orderings=_orderings(setting))
    table = Table()
    _add(table, {}, runs)
    drawn, axes = plots.figure(1)
    _draw(axes[0, 0], runs, "four unrelated classes")
    weights = runs[0]["weights"]
    history = plots.weights_over_time(
        range(1, len(weights["OTL"]) + 1), weights["OTL"], ["source", "target"], title="OTL"
    )
    return Section(
        "Fig. 2: four unrelated classes",
        DATA,
        _text("fig2"),
        table,
        {"": drawn, "weights": history},
    )


def fig3(setting: Setting) -> Section:
    """Fig. 3: every class a target in turn, all others its priors."""
    limit = 3 if setting.quick else None
    runs = setting.repeat(every_class, "all", 2, limit=limit)
    table = Table()
    _add(table, {}, runs)
    drawn, axes = plots.figure(1)
    _draw(axes[0, 0], runs, "all classes")
    return Section(
        f"Fig. 3: all classes with {LEAST_IMAGES} images or more",
        DATA,
        f"{_text('fig3')} {runs[0]['n_targets']} targets.",
        table,
        {"": drawn},
    )


PARTS = {"fig1": fig1, "fig2": fig2, "fig3": fig3}


def _orderings(setting: Setting) -> int:
    return 1 if setting.quick else 10


def _text(figure: str) -> str:
    claim = published("transfer")[figure]["claim"]
    return (
        f"*Published* (no numbers are printed): {claim} *Measured*: mistakes among samples 7 to 60 "
        "and recognition in per cent; mean ± standard deviation over draws of the background."
    )


def _add(table: Table, first: dict[str, Any], runs: list[Result]) -> None:
    for name in runs[0]["recognition"]:
        rates = 100 * np.array([run["recognition"][name] for run in runs])
        errors = [run["mistakes"][name] for run in runs]
        table.add(
            **first,
            method=name,
            **{"mistakes 7-60": None if name in BATCH else spread(errors)},
            **{f"at {t}": spread(rates[:, i]) for i, t in enumerate(CHECKPOINTS)},
        )


def _draw(panel: Any, runs: list[Result], title: str) -> None:
    shown = ("NOTR", "Multi-KT", "PA", "OTL", "TROL", "TROL+")
    curves = {name: 100 * np.array([run["recognition"][name] for run in runs]) for name in shown}
    plots.draw_curves(
        panel, CHECKPOINTS, curves, x_label="samples", y_label="recognition (%)", title=title
    )


def one_prior(seed: int, *, pair: list[str], orderings: int) -> Result:
    """Each of two classes learned with a detector of the other."""
    rng = np.random.default_rng(seed)
    ours, theirs = _background(rng)
    tasks = []
    for target, source in (pair, pair[::-1]):
        known = learn_sources([_images(source)[:N_SOURCE]], ours)
        tasks += [make_task(_images(target), theirs, known, [0], rng) for _ in range(orderings)]
    return _means(tasks)


def four_classes(seed: int, *, orderings: int) -> Result:
    """Each of four classes learned with detectors of the other three."""
    rng = np.random.default_rng(seed)
    ours, theirs = _background(rng)
    known = learn_sources([_images(name)[:N_SOURCE] for name in FOUR], ours)
    tasks = []
    for index, name in enumerate(FOUR):
        others = [j for j in range(len(FOUR)) if j != index]
        tasks += [
            make_task(_images(name)[N_SOURCE:], theirs, known, others, rng)
            for _ in range(orderings)
        ]
    return _means(tasks) | {"weights": {"OTL": _weights(tasks[0])}}


def every_class(seed: int, *, limit: int | None) -> Result:
    """Every class with enough images learned with detectors of all the others."""
    rng = np.random.default_rng(seed)
    ours, theirs = _background(rng)
    names = [name for name in _names() if len(_images(name)) >= LEAST_IMAGES]
    names = [name for name in names if name != "Faces_easy"]
    known = learn_sources([_images(name)[:N_SOURCE] for name in names], ours)
    tasks = []
    for index, name in enumerate(names[:limit]):
        others = [j for j in range(len(names)) if j != index]
        tasks.append(make_task(_images(name), theirs, known, others, rng))
    return _means(tasks) | {"n_targets": len(tasks)}


def _means(tasks: list[Task]) -> Result:
    results = compare(tasks, PENALTY)
    return {
        "mistakes": {name: float(found.mean()) for name, (found, _) in results.items()},
        "recognition": {name: rates.mean(axis=0).tolist() for name, (_, rates) in results.items()},
    }


def _weights(task: Task) -> list[list[float]]:
    """How much OTL listens to the source and to what it learned, sample by sample."""
    learner = contenders(task, PENALTY)["OTL"]()
    for x, label in zip(task.train, task.train_y, strict=True):
        learner.learn_one(x, bool(label))
    history: list[list[float]] = learner.weight_history_.tolist()
    return history


def _background(rng: np.random.Generator) -> tuple[Any, Any]:
    """Negatives for the sources and for the targets, of classes that are small or unused."""
    free = [
        name
        for name in _names()
        if name not in NEVER_BACKGROUND and len(_images(name)) < LEAST_IMAGES
    ]
    chosen = rng.choice(free, N_BACKGROUND, replace=False)
    return split_background(np.concatenate([_images(name) for name in chosen]), rng)


@cache
def _pack() -> tuple[Any, Any, list[str]]:
    name = "caltech101_effnetlite0.npz"
    X, labels, names = packs.arrays(name, "features", "labels", "class_names")
    return unit_rows(X), labels, [str(each) for each in names]


def _names() -> list[str]:
    return _pack()[2]


def _images(name: str) -> Any:
    X, labels, names = _pack()
    return X[labels == names.index(name)]
