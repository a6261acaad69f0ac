"""Learners on the base network's feature vectors, class by class, each example seen once.

The base classes come first, as one block; then the others in tasks of a few classes, each task in a
random order. Learners are tested after each task, as the rivals are. Closed-form learners are given
a task as one batch, which is equivalent to its rows one by one.

Vectors are not normalised. A learner with learning rates is run at each of ``RATES`` with every
twentieth picture of a class held out. The rate reported has the best accuracy on the held-out
pictures of the classes so far, averaged over all tasks (Ω without its normalisation). Fine-tuning
has two rates: for the epochs over the base classes, and for single steps.
"""

from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from everlearn.learners.exstream import ExStream
from everlearn.learners.lda import StreamingLDA
from everlearn.learners.ncm import NearestClassMean
from everlearn.learners.rlsc import RecursiveRLSC
from everlearn.pipeline import StreamPipeline
from everlearn.preprocessing.random_features import RandomFeatures
from everlearn.size import size_in_bytes
from everlearn_papers.deep.incremental import Course, tasks_of
from everlearn_papers.slda.last_layer import STREAM_RATES, LastLayer
from everlearn_papers.slda.learners import FixedLDA, PlasticLDA, PublishedLDA
from everlearn_papers.slda.start import pooled

HELD_OUT_EVERY = 20
LEARNERS: dict[str, Callable[..., Any]] = {
    "NCM": NearestClassMean,
    "SLDA (fixed)": FixedLDA,
    "SLDA (plastic)": PlasticLDA,
    "SLDA (plastic, published rule)": PublishedLDA,
    "RLSC": lambda: RecursiveRLSC(regularization="auto", recoding=0.0),
    "Fine-tuning (layer)": LastLayer,
    "Offline (layer)": lambda rate: LastLayer(rate, rate),
    "ExStream": lambda rate: ExStream(learning_rate=rate),
}
# Candidate learning rates; fine-tuning has those of the base and those of the stream. Each is a
# separate job, so the grids are fixed and wide instead of extended when the best is at an end.
RATES: dict[str, tuple[tuple[float, ...], ...]] = {
    "Fine-tuning (layer)": tuple(product((0.001, 0.01, 0.1, 1.0, 10.0), STREAM_RATES)),
    "Offline (layer)": ((0.0001,), (0.001,), (0.01,), (0.1,), (1.0,)),
    "ExStream": ((0.001,), (0.01,), (0.1,), (1.0,)),
}
# Learners retrained from scratch at every task on all examples so far.
RETRAINED = ("Offline (layer)",)
# Values of ε of streaming LDA, starting at the published one.
SHARES = (1e-4, 1e-3, 1e-2, 3e-2, 0.1, 0.3)


class Vectors(NamedTuple):
    """Feature vectors and their classes, numbered in order of arrival."""

    X: NDArray[Any]
    y: NDArray[Any]

    def only(self, mask: NDArray[np.bool_]) -> "Vectors":
        return Vectors(self.X[mask], self.y[mask])


def course_of(
    name: str,
    folder: Path,
    base: int,
    step: int,
    *,
    rates: tuple[float, ...] = (),
    seed: int = 0,
) -> dict[str, Any]:
    """Run one learner through all tasks on the vectors written by the stage ``stream``."""
    taught, asked = vectors_in(folder)
    tasks = tasks_of(int(taught.y.max()) + 1, base, step)
    held = np.zeros(len(taught.y), dtype=bool)
    if rates:
        for label in np.unique(taught.y):
            held[np.flatnonzero(taught.y == label)[::HELD_OUT_EVERY]] = True
    made = partial(LEARNERS[name], *rates)
    _, course = streamed(
        made,
        taught.only(~held),
        asked,
        tasks,
        retrain=name in RETRAINED,
        held=taught.only(held),
        seed=seed,
    )
    return vars(course) | {"rates": list(rates)}


def shrunk_courses(folder: Path, base: int, step: int, *, seed: int = 0) -> dict[str, Any]:
    """Return results of streaming LDA at several ε (Eq. 6), and the mean feature variance.

    ε is absolute, so its effect depends on the within-class variance of the features. "oas"
    instead chooses ε, relative to the mean variance, from the statistics.
    """
    taught, asked = vectors_in(folder)
    tasks = tasks_of(int(taught.y.max()) + 1, base, step)
    spread = pooled(taught.X, taught.y)
    found: dict[str, Any] = {"mean variance": float(np.trace(spread) / len(spread))}
    made: dict[str, Callable[[], Any]] = {
        f"{share:g}": partial(PlasticLDA, shrinkage=share) for share in SHARES
    }
    made["oas"] = partial(StreamingLDA, shrinkage="oas")
    for name, make in made.items():
        _, course = streamed(make, taught, asked, tasks, seed=seed)
        found[name] = {"accuracies": course.accuracies, "top5": course.top5}
    return found


def vectors_in(folder: Path) -> tuple[Vectors, Vectors]:
    """Load the training and test vectors written by the stage ``stream``."""
    with np.load(folder / "vectors.npz", allow_pickle=False) as pack:
        return Vectors(pack["X"], pack["y"]), Vectors(pack["X_test"], pack["y_test"])


def streamed(
    made: Callable[[], Any],
    taught: Vectors,
    asked: Vectors,
    tasks: list[list[int]],
    *,
    retrain: bool = False,
    held: Vectors | None = None,
    seed: int = 0,
) -> tuple[Any, Course]:
    """Train a learner task by task, or from scratch on all so far; return it and its results."""
    rng = np.random.default_rng(seed)
    learner = made()
    course = Course()
    seen: list[int] = []
    for classes in tasks:
        seen += classes
        begin = perf_counter()
        if retrain:
            learner = made()
        order = rng.permutation(np.flatnonzero(np.isin(taught.y, seen if retrain else classes)))
        _teach(learner, taught.X[order], taught.y[order], np.unique(taught.y))
        course.seconds.append(perf_counter() - begin)
        known = asked.only(np.isin(asked.y, seen))
        scores = torch.as_tensor(_scores(learner, known.X, len(seen)))
        course.ask(scores, torch.as_tensor(known.y), tasks[: len(course.seconds)])
        if held is not None and len(held.y):
            known = held.only(np.isin(held.y, seen))
            answers = _scores(learner, known.X, len(seen)).argmax(1)
            course.held_out.append(float(np.mean(answers == known.y)))
    course.bytes_kept = size_in_bytes(learner)
    return learner, course


def ridge_on_random_features(width: int, device: str) -> Any:
    """Return RLSC on random features, on a device."""
    ridge = StreamPipeline(
        [
            ("random", RandomFeatures(n_components=width)),
            ("ridge", RecursiveRLSC(regularization="auto", recoding=0.0, fit_intercept=True)),
        ]
    )
    return ridge if device == "cpu" else ridge.to(device)


def _teach(learner: Any, X: NDArray[Any], y: NDArray[Any], classes: NDArray[Any]) -> None:
    if isinstance(learner, LastLayer):
        learner.partial_fit(X, y, classes)
    else:
        learner.partial_fit(X.astype(np.float64), y)


def _scores(learner: Any, X: NDArray[Any], n_seen: int) -> NDArray[np.float64]:
    """Return one column per class seen so far, in order of arrival."""
    scores = np.asarray(learner.decision_function(X.astype(np.float64)), dtype=np.float64)
    if scores.ndim == 1:  # two classes: the score of the second
        scores = np.column_stack([-scores, scores])
    full = np.full((len(X), int(learner.classes_.max()) + 1), -np.inf)
    full[:, learner.classes_] = scores
    return full[:, :n_seen]
