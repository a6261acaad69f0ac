"""Consolidation on CIFAR-100: stream only, stream and two consolidations, offline.

Half of the classes are the base. The others come in two sessions. After each session the network
may be trained further on the pictures kept of every class so far (a "night" in the results); then
all that is kept is embedded anew and the learner is taught from it. ``kept`` says how many pictures
of a class are kept. In a session the learner is taught every picture but those held out, kept or
not; taught only what is kept, it may know less in a better network. A tenth of what is kept is held
out of everything, and the network is replaced only if answers about it are better than before by
more than chance.
"""

from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everlearn.deep.consolidate import CONSOLIDATION, trained_further
from everlearn.evaluation.metrics import better_than_chance
from everlearn.learners.rlsc import RecursiveRLSC
from everlearn_papers.deep.cifar import Scale, base_embedder, pictures
from everlearn_papers.deep.incremental import Pictured
from everlearn_papers.deep.race import HELD_OUT_EVERY as BASE_HELD_OUT_EVERY

DAYS = 2
HELD_OUT_EVERY = 10


def nights(
    scale: Scale, folder: Path, kept: int, *, epochs: int = CONSOLIDATION.epochs
) -> dict[str, Any]:
    """Accuracy on all classes so far: after the base, before and after each consolidation."""
    train, test = pictures(scale)
    embedder = base_embedder(scale, folder)
    recipe = replace(CONSOLIDATION, epochs=epochs, seed=scale.seed)
    per_day = (scale.n_classes - scale.base) // DAYS
    known = list(range(scale.base))
    held = _held(train, kept)
    few = kept - int(held[train.slots == 0].sum())
    asked = Pictured(train.pixels[held], train.slots[held])
    train = Pictured(train.pixels[~held], train.slots[~held])
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
        in_store = _few(train.of(known), few)
        trained = trained_further(embedder, in_store.pixels, in_store.slots, recipe)
        rested = _taught(trained, in_store)
        before = _hits(embedder, learner, asked.of(known))
        after = _hits(trained, rested, asked.of(known))
        taken = better_than_chance(before, after)
        record["nights"].append(
            {
                "before": float(before.mean()),
                "after": float(after.mean()),
                "taken": taken,
                "seconds": perf_counter() - begin,
                "morning if taken": _accuracy(trained, rested, test.of(known)),
            }
        )
        if taken:
            embedder, learner = trained, rested
        record["mornings"].append(_accuracy(embedder, learner, test.of(known)))
    return record


def _held(train: Pictured, kept: int) -> NDArray[np.bool_]:
    """A tenth of the pictures kept of every class, of those the base network never saw."""
    held = np.zeros(len(train.slots), dtype=bool)
    for slot in np.unique(train.slots):
        unseen = np.flatnonzero(train.slots == slot)[::BASE_HELD_OUT_EVERY]
        held[unseen[: kept // HELD_OUT_EVERY]] = True
    return held


def _learner() -> RecursiveRLSC:
    return RecursiveRLSC(regularization="auto", recoding=0.0)


def _taught(embedder: Any, lesson: Pictured) -> RecursiveRLSC:
    learner = _learner()
    learner.partial_fit(embedder.embed(lesson.pixels).astype(np.float64), lesson.slots)
    return learner


def _accuracy(embedder: Any, learner: Any, asked: Pictured) -> float:
    return float(_hits(embedder, learner, asked).mean())


def _hits(embedder: Any, learner: Any, asked: Pictured) -> NDArray[np.bool_]:
    answers = learner.predict(embedder.embed(asked.pixels).astype(np.float64))
    hits: NDArray[np.bool_] = answers == asked.slots
    return hits


def _few(part: Pictured, kept: int) -> Pictured:
    chosen = np.concatenate(
        [np.flatnonzero(part.slots == slot)[:kept] for slot in np.unique(part.slots)]
    )
    return Pictured(part.pixels[chosen], part.slots[chosen])
