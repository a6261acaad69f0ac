"""Learners on the base network's vectors, class by class, each example seen once.

The base classes come first, as one block; then the others in tasks of a few classes, each task in a
random order. Asked after each task as the rivals are. Closed-form learners learn a task at once,
which for them is the same as one by one.

Rows of vectors are used as the network gives them. A learner that has learning rates is run at each
of ``RATES``, without every twentieth picture of a class; the rate whose answers about those
pictures, of the classes so far, are best in the mean over all tasks is the one to report (Ω up to
its reference). Fine-tuning has two: that of the epochs over the base, and that of single steps.
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
# Learning rates of those that have them: fine-tuning's for the base and for the stream. Each is a
# job of its own, so that the grids are wide instead of going on where the best is at an end.
RATES: dict[str, tuple[tuple[float, ...], ...]] = {
    "Fine-tuning (layer)": tuple(product((0.001, 0.01, 0.1, 1.0, 10.0), STREAM_RATES)),
    "Offline (layer)": ((0.0001,), (0.001,), (0.01,), (0.1,), (1.0,)),
    "ExStream": ((0.001,), (0.01,), (0.1,), (1.0,)),
}
# These are taught everything so far anew at every task.
ANEW = ("Offline (layer)",)
# ε of streaming LDA, from the published one on.
SHARES = (1e-4, 1e-3, 1e-2, 3e-2, 0.1, 0.3)


class Vectors(NamedTuple):
    """Rows and their classes, numbered in the order of arrival."""

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
    """One learner through all tasks, on the vectors that the stage ``stream`` left."""
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
        anew=name in ANEW,
        held=taught.only(held),
        seed=seed,
    )
    return vars(course) | {"rates": list(rates)}


def shrunk_courses(folder: Path, base: int, step: int, *, seed: int = 0) -> dict[str, Any]:
    """Streaming LDA at several ε (Eq. 6), beside the scale of its vectors, at the end.

    ε is absolute, so what it does depends on the variance of the vectors: its mean over the
    features is given. "oas" chooses ε of the mean variance from the statistics instead.
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
    """The vectors that the stage ``stream`` left: to teach, and to ask."""
    with np.load(folder / "vectors.npz", allow_pickle=False) as pack:
        return Vectors(pack["X"], pack["y"]), Vectors(pack["X_test"], pack["y_test"])


def streamed(
    made: Callable[[], Any],
    taught: Vectors,
    asked: Vectors,
    tasks: list[list[int]],
    *,
    anew: bool = False,
    held: Vectors | None = None,
    seed: int = 0,
) -> tuple[Any, Course]:
    """A learner taught task by task, or everything so far anew, and how it did after each."""
    rng = np.random.default_rng(seed)
    learner = made()
    course = Course()
    seen: list[int] = []
    for classes in tasks:
        seen += classes
        begin = perf_counter()
        if anew:
            learner = made()
        order = rng.permutation(np.flatnonzero(np.isin(taught.y, seen if anew else classes)))
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


def wide_ridge(width: int, device: str) -> Any:
    """RLSC behind random features, computed on a device."""
    wide = StreamPipeline(
        [
            ("wide", RandomFeatures(n_components=width)),
            ("ridge", RecursiveRLSC(regularization="auto", recoding=0.0, fit_intercept=True)),
        ]
    )
    return wide if device == "cpu" else wide.to(device)


def _teach(learner: Any, X: NDArray[Any], y: NDArray[Any], classes: NDArray[Any]) -> None:
    if isinstance(learner, LastLayer):
        learner.partial_fit(X, y, classes)
    else:
        learner.partial_fit(X.astype(np.float64), y)


def _scores(learner: Any, X: NDArray[Any], n_seen: int) -> NDArray[np.float64]:
    """One column per class in the order of arrival, those seen alone."""
    scores = np.asarray(learner.decision_function(X.astype(np.float64)), dtype=np.float64)
    if scores.ndim == 1:  # of two classes, how much rather the second
        scores = np.column_stack([-scores, scores])
    full = np.full((len(X), int(learner.classes_.max()) + 1), -np.inf)
    full[:, learner.classes_] = scores
    return full[:, :n_seen]
