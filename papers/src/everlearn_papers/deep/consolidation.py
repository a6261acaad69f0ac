"""Consolidation on CIFAR-100: accuracy before and after training the network further.

Half of the classes are the base; the others come in two sessions. After each session the network is
trained further on the ``kept`` pictures stored of every class so far, and
a new learner is trained on their new embeddings. During a session the learner is trained on every
picture that is not held out, stored or not, so it may be more accurate than one trained on the
stored pictures in a better network. A tenth of the stored pictures is held out of all training; the
network is replaced only if accuracy on them improves significantly.
"""

from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everlearn.deep.consolidate import CONSOLIDATION, continue_training
from everlearn.evaluation.metrics import better_than_chance
from everlearn.learners.rlsc import RecursiveRLSC
from everlearn_papers.deep.cifar import Scale, base_embedder, pictures
from everlearn_papers.deep.incremental import Pictured
from everlearn_papers.deep.race import HELD_OUT_EVERY as BASE_HELD_OUT_EVERY

SESSIONS = 2
HELD_OUT_EVERY = 10


def consolidation(
    scale: Scale, folder: Path, kept: int, *, epochs: int = CONSOLIDATION.epochs
) -> dict[str, Any]:
    """Return accuracy on all classes so far: after the base, and around each consolidation."""
    train, test = pictures(scale)
    embedder = base_embedder(scale, folder)
    recipe = replace(CONSOLIDATION, epochs=epochs, seed=scale.seed)
    per_session = (scale.n_classes - scale.base) // SESSIONS
    known = list(range(scale.base))
    held = _held(train, kept)
    few = kept - int(held[train.slots == 0].sum())
    asked = Pictured(train.pixels[held], train.slots[held])
    train = Pictured(train.pixels[~held], train.slots[~held])
    learner = _taught(embedder, train.of(known))
    record: dict[str, Any] = {
        "kept": kept,
        "base": _accuracy(embedder, learner, test.of(known)),
        "before": [],
        "after": [],
        "trainings": [],
    }
    for session in range(SESSIONS):
        start = scale.base + session * per_session
        new = list(range(start, start + per_session))
        known += new
        batch = train.of(new)
        learner.partial_fit(embedder.embed(batch.pixels).astype(np.float64), batch.slots)
        record["before"].append(_accuracy(embedder, learner, test.of(known)))
        begin = perf_counter()
        in_store = _few(train.of(known), few)
        trained = continue_training(embedder, in_store.pixels, in_store.slots, recipe)
        retrained = _taught(trained, in_store)
        before = _hits(embedder, learner, asked.of(known))
        after = _hits(trained, retrained, asked.of(known))
        taken = better_than_chance(before, after)
        record["trainings"].append(
            {
                "held out, before": float(before.mean()),
                "held out, after": float(after.mean()),
                "taken": taken,
                "seconds": perf_counter() - begin,
                "after, if taken": _accuracy(trained, retrained, test.of(known)),
            }
        )
        if taken:
            embedder, learner = trained, retrained
        record["after"].append(_accuracy(embedder, learner, test.of(known)))
    return record


def _held(train: Pictured, kept: int) -> NDArray[np.bool_]:
    """Return the mask of held-out pictures: of each class a tenth of those kept.

    They are chosen from pictures that were held out of base training.
    """
    held = np.zeros(len(train.slots), dtype=bool)
    for slot in np.unique(train.slots):
        unseen = np.flatnonzero(train.slots == slot)[::BASE_HELD_OUT_EVERY]
        held[unseen[: kept // HELD_OUT_EVERY]] = True
    return held


def _learner() -> RecursiveRLSC:
    return RecursiveRLSC(regularization="auto", recoding=0.0)


def _taught(embedder: Any, batch: Pictured) -> RecursiveRLSC:
    learner = _learner()
    learner.partial_fit(embedder.embed(batch.pixels).astype(np.float64), batch.slots)
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
