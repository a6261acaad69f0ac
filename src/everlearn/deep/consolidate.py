"""Trains a network further on stored pictures, and decides whether it helped.

Consolidation (Hayes and Kanan 2020, Sec. 5): a share of every name's pictures is held out, and the
network is trained on the others. A classifier is then trained on their vectors, once of the old and
once of the new network, and tested on the pictures held out. The new network is kept only if it is
better by more than chance: of the n held-out pictures on which just one of the two is right, it
must be right on more than (n + √n) / 2, one standard deviation of a fair coin above half.
``workflows/consolidate.py`` applies this to a Memory.
"""

import copy
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from everlearn.deep.descent import Recipe
from everlearn.deep.embedding import DeepEmbedder
from everlearn.deep.pictures import Pictures, require_trainable
from everlearn.deep.streaming import StreamingNetwork
from everlearn.deep.trainer import BaseTrainer, Epoch
from everlearn.evaluation.metrics import better_than_chance

# A trained network needs a gentler recipe than an untrained one.
CONSOLIDATION = Recipe(epochs=30, batch_size=256, learning_rate=0.1, label_smoothing=0.0)
HELD_OUT = 0.1

logger = logging.getLogger("everlearn")


@dataclass(frozen=True)
class Consolidation:
    """The result of a consolidation.

    Attributes
    ----------
    embedder : DeepEmbedder
        The network trained further; the old one if the consolidation was rejected.
    before, after : float
        Accuracy on held-out pictures with the old and with the new network.
    taken : bool
        Whether the new network was better by more than chance.
    """

    embedder: DeepEmbedder
    before: float
    after: float
    taken: bool


def consolidation(
    embedder: DeepEmbedder,
    pixels: NDArray[np.uint8],
    labels: ArrayLike,
    learner: Any,
    *,
    recipe: Recipe = CONSOLIDATION,
    held_out: float = HELD_OUT,
    unit: bool = False,
    checkpoint: Path | None = None,
    progress: Callable[[Epoch], None] | None = None,
) -> Consolidation:
    """Train a network further on stored pictures, and test whether it helps a learner.

    Parameters
    ----------
    embedder : DeepEmbedder
        Not changed.
    pixels : uint8 array of shape (n, size, size, 3)
    labels : array of shape (n,)
    learner : an everlearn classifier
        Cloned, and trained on vectors of both networks.
    recipe : Recipe
    held_out : float, default=0.1
    unit : bool, default=False
        Whether vectors are normalised to length one.
    checkpoint : path-like, optional
        File from which an interrupted training resumes.
    progress : callable, optional
        Called with each epoch as it ends.
    """
    pictures = Pictures(pixels, np.asarray(labels))
    require_trainable(pictures)
    held = pictures.held_out(held_out, recipe.seed)
    trained = continue_training(
        embedder,
        pixels[~held],
        pictures.labels[~held],
        recipe,
        checkpoint=checkpoint,
        progress=progress,
    )
    before, after = (
        _held_out_hits(StreamingNetwork(each, clone(learner), unit=unit), pictures, held)
        for each in (embedder, trained)
    )
    taken = better_than_chance(before, after)
    return Consolidation(
        trained if taken else embedder, float(before.mean()), float(after.mean()), taken
    )


def continue_training(
    embedder: DeepEmbedder,
    pixels: NDArray[np.uint8],
    labels: ArrayLike,
    recipe: Recipe = CONSOLIDATION,
    *,
    checkpoint: Path | None = None,
    progress: Callable[[Epoch], None] | None = None,
) -> DeepEmbedder:
    """A copy of an embedder, trained further on these pictures."""
    trainer = BaseTrainer(
        copy.deepcopy(embedder.network),
        size=embedder.size,
        crop=embedder.crop,
        recipe=recipe,
        held_out=0.0,
        device=str(embedder.device),
        checkpoint=checkpoint,
        progress=progress,
    )
    trained = trainer.train(pixels, labels).embedder
    trained.architecture = embedder.architecture
    return trained


def _held_out_hits(
    network: StreamingNetwork, pictures: Pictures, held: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Which of the held-out pictures are recognised."""
    network.partial_fit(pictures.pixels[~held], pictures.labels[~held])
    hits: NDArray[np.bool_] = network.predict(pictures.pixels[held]) == pictures.labels[held]
    return hits
