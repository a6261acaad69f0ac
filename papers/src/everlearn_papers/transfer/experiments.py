"""Experiments of Tommasi et al. (2012): the choice of target and prior classes.

    one_prior           Fig. 1       each of two classes, with a detector of the other
    from_the_others     Fig. 2, 3    each of several classes, with detectors of all the others
    from_another_domain              priors learned on photographs of another domain
    without_background               negatives drawn from all other classes: the hard case

Each takes a seed, which draws the background and the order of the samples, and returns means over
its tasks. ``features`` names EfficientNet-Lite0 features of Caltech-101 or CIFAR-100; a suffix
("caltech101-32") keeps that many evenly spaced ones, with which accuracy does not saturate.
"""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import normalize

from everlearn.arrays import Array
from everlearn.transfer.prior_weights import Penalty
from everlearn_papers.data import embedded, packs
from everlearn_papers.repeat import Result
from everlearn_papers.transfer.tasks import (
    BATCH,
    GRID,
    N_FIRST,
    N_SOURCE_BACKGROUND,
    N_TEST,
    N_TRAIN,
    Task,
    bound_of_trol_plus,
    compare,
    contenders,
    learn_sources,
    make_task,
    split_background,
)

Classes = dict[str, Array]

PACKS = {"caltech101": packs.CALTECH101, "cifar100": packs.CIFAR100}
# Has the same pictures as the class Faces.
TWICE = "Faces_easy"
N_SOURCE = 30
LEAST_IMAGES = 60
N_BACKGROUND = 10
OFFICE_BACKGROUND = 3
HARD_TARGETS, HARD_SOURCES = 24, 30
WEIGHED = ("OTL", "M-OTL", "TR-OTL")
SETTINGS = {
    "positives of a source": N_SOURCE,
    "most negatives of a source": N_SOURCE_BACKGROUND,
    "background classes": N_BACKGROUND,
    "background classes (Office)": OFFICE_BACKGROUND,
    "samples": 2 * N_TRAIN,
    "first samples": N_FIRST,
    "most test images": 2 * N_TEST,
    "C of the sources": list(GRID),
    "C online": 1.0,
    "kernel": "Gaussian exp(−‖x − x'‖² / δ)",
    "δ": "mean of ‖x − x'‖²",
    "β of Multi-KT": "‖β‖ ≤ 1",
    "initial weights of TROL+ (priors)": "1 / k",
}


def one_prior(
    seed: int,
    *,
    features: str,
    pair: list[str],
    orderings: int,
    penalty: Penalty = "ball",
    balanced: bool = False,
) -> Result:
    """Learn each of two classes with a detector of the other as prior.

    With ``balanced``, a detector is trained on as many negatives as positives.
    """
    rng = np.random.default_rng(seed)
    images = classes(features)
    ours, theirs = _negatives(images, _background(images, pair, rng), rng, balanced=balanced)
    tasks = []
    for target, source in (pair, pair[::-1]):
        known = learn_sources([images[source][:N_SOURCE]], ours)
        tasks += [make_task(images[target], theirs, known, [0], rng) for _ in range(orderings)]
    return _means(tasks, penalty) | {"negatives": len(ours)}


def from_the_others(
    seed: int,
    *,
    features: str,
    names: list[str] | None = None,
    limit: int | None = None,
    orderings: int = 1,
    penalty: Penalty = "ball",
    balanced: bool = False,
) -> Result:
    """Learn each of several classes with detectors of all the others as priors.

    ``names`` defaults to all classes with enough images; ``limit`` is the number of targets, all
    are priors. With ``balanced``, a detector is trained on as many negatives as positives.
    """
    rng = np.random.default_rng(seed)
    images = classes(features)
    background = _background(images, names or [], rng)
    ours, theirs = _negatives(images, background, rng, balanced=balanced)
    large = [name for name, own in images.items() if len(own) >= LEAST_IMAGES]
    chosen = names or [name for name in large if name not in background]
    known = learn_sources([images[name][:N_SOURCE] for name in chosen], ours)
    tasks = []
    for index, name in enumerate(chosen[:limit]):
        others = [j for j in range(len(chosen)) if j != index]
        tasks += [make_task(images[name], theirs, known, others, rng) for _ in range(orderings)]
    watched: Result = {"n_targets": len(chosen[:limit]), "n_priors": len(chosen) - 1}
    if names:  # the first order of every target
        firsts = dict(zip(names, tasks[::orderings], strict=False))
        watched["weights"] = {name: weights_over_time(t, penalty) for name, t in firsts.items()}
    return _means(tasks, penalty) | watched | {"negatives": len(ours)}


def from_another_domain(
    seed: int, *, same_class: bool, orderings: int, penalty: Penalty = "ball"
) -> Result:
    """SURF histograms of Office-Caltech10: classes of "amazon" with detectors of "caltech10"."""
    rng = np.random.default_rng(seed)
    X, labels, here, there = _office()
    order = rng.permutation(np.unique(labels))
    background, known = order[:OFFICE_BACKGROUND], order[OFFICE_BACKGROUND:]
    sources = learn_sources(
        [X[there & (labels == c)][:N_SOURCE] for c in known],
        X[there & np.isin(labels, background)],
    )
    negatives = X[here & np.isin(labels, background)]
    tasks = []
    for index, target in enumerate(known):
        chosen = [j for j in range(len(known)) if same_class or j != index]
        tasks += [
            make_task(X[here & (labels == target)], negatives, sources, chosen, rng)
            for _ in range(orderings)
        ]
    return _means(tasks, penalty)


def without_background(seed: int, *, features: str, penalty: Penalty = "ball") -> Result:
    """Draw the negatives of sources and targets from all other classes.

    A negative of one task may be a positive of another.
    """
    rng = np.random.default_rng(seed)
    images = classes(features)
    order = rng.permutation(list(images)).tolist()
    tasks = []
    for target in order[:HARD_TARGETS]:
        others = [name for name in order if name != target]
        ours, theirs = split_background(np.concatenate([images[name] for name in others]), rng)
        sources = learn_sources([images[name][:N_SOURCE] for name in others[:HARD_SOURCES]], ours)
        tasks.append(make_task(images[target], theirs, sources, range(HARD_SOURCES), rng))
    return _means(tasks, penalty)


def weights_over_time(task: Task, penalty: Penalty) -> dict[str, Any]:
    """Weights of the sources in the OTL-related methods after each sample, and β of Multi-KT."""
    found: dict[str, Any] = {}
    for name in WEIGHED:
        learner = contenders(task, penalty)[name]()
        learner.partial_fit(task.train.X, task.train.y)
        found[name] = learner.weight_history_.tolist()
    start = contenders(task, penalty)["Multi-KT"]()
    start.partial_fit(task.train.X[:N_FIRST], task.train.y[:N_FIRST])
    return found | {"β": start.beta_.tolist()}


@cache
def classes(features: str) -> Classes:
    """Features of unit length by class name."""
    name, _, width = features.partition("-")
    images = embedded.caltech256() if name == "caltech256" else packs.by_name(PACKS[name])
    images.pop(TWICE, None)
    X = np.concatenate(list(images.values()))
    if width:
        X = X[:, np.linspace(0, X.shape[1], int(width), endpoint=False).astype(np.intp)]
    X = normalize(X)
    ends = np.cumsum([len(own) for own in images.values()])
    return dict(zip(images, np.split(X, ends[:-1]), strict=True))


def _means(tasks: list[Task], penalty: Penalty) -> Result:
    results = compare(tasks, penalty)
    return {
        "mistakes": {
            name: found.mistakes.mean(axis=0).tolist()
            for name, found in results.items()
            if name not in BATCH
        },
        "recognition": {
            name: found.recognition.mean(axis=0).tolist() for name, found in results.items()
        },
        "bound": float(np.mean([bound_of_trol_plus(task, penalty) for task in tasks])),
        "C": sorted({task.C for task in tasks}),
    }


def _background(images: Classes, used: list[str], rng: np.random.Generator) -> list[str]:
    """Draw classes that are neither target nor prior; small ones if there are enough."""
    free = [name for name in images if name not in used]
    small = [name for name in free if len(images[name]) < LEAST_IMAGES]
    pool = small if len(small) >= N_BACKGROUND else free
    return [str(name) for name in rng.choice(pool, N_BACKGROUND, replace=False)]


def _negatives(
    images: Classes, background: list[str], rng: np.random.Generator, *, balanced: bool = False
) -> tuple[Array, Array]:
    """Negatives of the sources, and negatives of the targets."""
    ours, theirs = split_background(np.concatenate([images[name] for name in background]), rng)
    return ours[: N_SOURCE if balanced else None], theirs


@cache
def _office() -> tuple[Array, NDArray[Any], NDArray[np.bool_], NDArray[np.bool_]]:
    surf, labels, domain, domains = packs.arrays(
        packs.OFFICE, "surf", "surf_labels", "surf_domain", "domains"
    )
    names = [str(name) for name in domains]
    X = normalize(np.sqrt(surf.astype(np.float64)))
    return X, labels, domain == names.index("amazon"), domain == names.index("caltech10")
