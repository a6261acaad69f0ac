"""Day and night on CIFAR-100: stream only, stream and two nights, offline.

Half of the classes are the base. The others come in two days. After each day the network may be
trained further on the pictures kept of every class so far; then all that is kept is embedded anew
and the learner taught from it. ``kept`` says how many pictures of a class are kept; by day nothing
changes. The night is judged on held-out pictures and taken only if it helps.
"""

from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from everlearn.deep.consolidate import NIGHT, night
from everlearn.learners.rlsc import RecursiveRLSC
from everlearn_papers.deep.cifar import Scale, base_embedder, pictures
from everlearn_papers.deep.incremental import Pictured

DAYS = 2


def nights(scale: Scale, folder: Path, kept: int, *, epochs: int = NIGHT.epochs) -> dict[str, Any]:
    """Accuracy on all classes so far: after the base, each evening, and each morning."""
    train, test = pictures(scale)
    embedder = base_embedder(scale, folder)
    recipe = replace(NIGHT, epochs=epochs, seed=scale.seed)
    per_day = (scale.n_classes - scale.base) // DAYS
    known = list(range(scale.base))
    learner = _taught(embedder, train.of(known))
    record: dict[str, Any] = {
        "kept": kept,
        "base": _accuracy(embedder, learner, test.of(known)),
        "evenings": [],
        "mornings": [],
        "nights": [],
    }
    for day in range(DAYS):
        today = list(range(scale.base + day * per_day, scale.base + (day + 1) * per_day))
        known += today
        lesson = train.of(today)
        learner.partial_fit(embedder.embed(lesson.pixels).astype(np.float64), lesson.slots)
        record["evenings"].append(_accuracy(embedder, learner, test.of(known)))
        begin = perf_counter()
        in_store = _few(train.of(known), kept)
        slept = night(embedder, in_store.pixels, in_store.slots, _learner(), recipe=recipe)
        if slept.taken:
            embedder = slept.embedder
            learner = _taught(embedder, in_store)
        record["nights"].append(
            {
                "before": slept.before,
                "after": slept.after,
                "taken": slept.taken,
                "seconds": perf_counter() - begin,
            }
        )
        record["mornings"].append(_accuracy(embedder, learner, test.of(known)))
    return record


def _learner() -> RecursiveRLSC:
    return RecursiveRLSC(regularization="auto", recoding=0.0)


def _taught(embedder: Any, lesson: Pictured) -> RecursiveRLSC:
    learner = _learner()
    learner.partial_fit(embedder.embed(lesson.pixels).astype(np.float64), lesson.slots)
    return learner


def _accuracy(embedder: Any, learner: Any, asked: Pictured) -> float:
    answers = learner.predict(embedder.embed(asked.pixels).astype(np.float64))
    return float(np.mean(answers == asked.slots))


def _few(part: Pictured, kept: int) -> Pictured:
    chosen = np.concatenate(
        [np.flatnonzero(part.slots == slot)[:kept] for slot in np.unique(part.slots)]
    )
    return Pictured(part.pixels[chosen], part.slots[chosen])
