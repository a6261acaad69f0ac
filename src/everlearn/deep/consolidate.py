"""Consolidation (Hayes and Kanan 2020, Sec. 5): stream at once, train the network now and then.

By day a Memory is taught in one pass and answers at once; its network stays as it is. In a
consolidation the network is trained further on what the Memory has kept of its teachings,
everything is embedded anew, and the classifier learns all of it from the new vectors. The pictures
are the files that were taught: a consolidation keeps nothing that the day does not, but it needs
the files to be there still. Where one is gone nothing is changed, for embedding anew would lose
what it taught.

A consolidation is taken only if it helps. A share of every name's pictures is held out of it; a
classifier of the Memory's kind is taught the others, once in the old vectors and once in the new,
and asked about those held out. Where the new ones are not better by more than chance, nothing
changes: of the pictures on which the two differ, the new ones are right in so many more that it is
beyond one standard deviation of a fair coin.

Nothing half-done is left behind, whenever the power fails:

    training        resumes from its checkpoint in the Memory's folder
    new network     is written under a name of its own before anything refers to it
    new vectors     replace the old ones by the Memory's own ``reembed``, in one step
    old networks    go after that
"""

import copy
import hashlib
import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from everlearn.deep.descent import Recipe
from everlearn.deep.embedding import DeepEmbedder, load_embedder, save_embedder
from everlearn.deep.pictures import Pictures, require_trainable
from everlearn.deep.streaming import StreamingNetwork
from everlearn.deep.trainer import BaseTrainer, Epoch
from everlearn.errors import CannotRead, EverlearnError, NeverLearned, OtherNetwork, WrongEmbedder
from everlearn.images.decode import opened_picture
from everlearn.images.embedders import centre_crop

# A network that knows much already is not shaken as one that knows nothing.
CONSOLIDATION = Recipe(epochs=30, batch_size=256, learning_rate=0.1, label_smoothing=0.0)
HELD_OUT = 0.1

logger = logging.getLogger("everlearn")


class ConsolidatedMemory(Protocol):
    """What a consolidation needs of a Memory."""

    path: Path

    @property
    def classifier(self) -> Any: ...

    @property
    def embedder(self) -> Any: ...

    def teachings(self) -> Sequence[Any]: ...

    def reembed(self, embedder: Any) -> Any: ...


@dataclass(frozen=True)
class Consolidation:
    """What a consolidation came to.

    Attributes
    ----------
    embedder : DeepEmbedder
        The network trained further; the old one if the consolidation was not taken.
    before, after : float
        Accuracy on held-out pictures with the old and with the new network.
    taken : bool
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
    """Train a network further on kept pictures, and see whether it helps a learner.

    Parameters
    ----------
    embedder : DeepEmbedder
        Not changed.
    pixels : uint8 array of shape (n, size, size, 3)
    labels : array of shape (n,)
    learner : an everlearn classifier
        Cloned, and taught vectors of both networks.
    recipe : Recipe
    held_out : float, default=0.1
    unit : bool, default=False
        Whether the learner is taught vectors at length one.
    checkpoint : path-like, optional
        Where a training that is interrupted goes on from.
    progress : callable, optional
        Told each epoch as it ends.
    """
    pictures = Pictures(pixels, np.asarray(labels))
    require_trainable(pictures)
    held = pictures.held_out(held_out, recipe.seed)
    trained = trained_further(
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
    taken = helps(before, after)
    return Consolidation(
        trained if taken else embedder, float(before.mean()), float(after.mean()), taken
    )


def helps(before: NDArray[np.bool_], after: NDArray[np.bool_]) -> bool:
    """Whether answers became right more often than chance would have it.

    With w answers that became right and l that became wrong, w − l > √(w + l); √(w + l) is the
    standard deviation of w − l where neither is likelier (McNemar 1947).
    """
    won = int(np.count_nonzero(after & ~before))
    lost = int(np.count_nonzero(before & ~after))
    return won - lost > math.sqrt(won + lost)


def trained_further(
    embedder: DeepEmbedder,
    pixels: NDArray[np.uint8],
    labels: ArrayLike,
    recipe: Recipe = CONSOLIDATION,
    *,
    checkpoint: Path | None = None,
    progress: Callable[[Epoch], None] | None = None,
) -> DeepEmbedder:
    """A copy of an embedder whose network was trained on these pictures too."""
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


def consolidate(
    memory: ConsolidatedMemory,
    *,
    recipe: Recipe = CONSOLIDATION,
    held_out: float = HELD_OUT,
    progress: Callable[[Epoch], None] | None = None,
) -> Consolidation:
    """Let a Memory's network learn from what the Memory was taught; taken only if it helps.

    Interrupted, it goes on where it was when it is called again, provided that nothing was taught
    in between; otherwise it begins anew.

    Parameters
    ----------
    memory : Memory
        Opened to be taught, with a :class:`~everlearn.deep.embedding.DeepEmbedder`.
    recipe : Recipe
    held_out : float, default=0.1
        Share of every name's pictures by which the consolidation is judged.
    progress : callable, optional
        Told each epoch as it ends.

    Raises
    ------
    WrongEmbedder
        The Memory's embedder is no network that could be trained here.
    CannotRead
        A picture that was taught is gone, or a vector was taught; nothing was changed.
    TooFewClasses, TooFewExamples
        One name alone, or a name with one picture.

    Returns
    -------
    Consolidation
        Open the Memory with ``embedder_of(folder, memory.info()["embedder"])`` from then on.
    """
    embedder = memory.embedder
    if not isinstance(embedder, DeepEmbedder):
        raise WrongEmbedder(
            f"{type(embedder).__name__} cannot be trained here; consolidation needs a network from "
            "everlearn.deep (train_base, load_embedder)"
        )
    names, pixels = _kept(memory, embedder)
    checkpoint = _checkpoint_of(memory.path, embedder.name)

    def run() -> Consolidation:
        return consolidation(
            embedder,
            pixels,
            names,
            memory.classifier,
            recipe=recipe,
            held_out=held_out,
            unit=True,
            checkpoint=checkpoint,
            progress=progress,
        )

    try:
        result = run()
    except OtherNetwork as error:
        logger.warning("a consolidation that was interrupted begins anew: %s", error)
        checkpoint.unlink()
        result = run()
    if result.taken:
        save_embedder(result.embedder, network_file(memory.path, result.embedder.name))
        memory.reembed(result.embedder)
        _remove_networks(memory.path, keep=result.embedder.name)
    checkpoint.unlink(missing_ok=True)
    return result


def network_file(folder: Path, name: str) -> Path:
    """Where the network of this name is, beside the journal of its Memory."""
    return folder / f"network-{_short(name)}.safetensors"


def embedder_of(folder: Path, name: str, **settings: Any) -> DeepEmbedder:
    """The network that a Memory's last consolidation left; ``settings`` as in ``load_embedder``."""
    return load_embedder(network_file(Path(folder), name), **settings)


def _held_out_hits(
    network: StreamingNetwork, pictures: Pictures, held: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Which of the held-out pictures are recognised."""
    network.partial_fit(pictures.pixels[~held], pictures.labels[~held])
    hits: NDArray[np.bool_] = network.predict(pictures.pixels[held]) == pictures.labels[held]
    return hits


def _kept(
    memory: ConsolidatedMemory, embedder: DeepEmbedder
) -> tuple[NDArray[Any], NDArray[np.uint8]]:
    """Names and pictures of all teachings, in the order they were taught."""
    names: list[str] = []
    pixels: list[NDArray[np.uint8]] = []
    for teaching in memory.teachings():
        names.append(teaching.name)
        pixels.append(_picture(teaching, embedder))
    if not names:
        raise NeverLearned(
            "nothing was taught yet, so there is nothing to learn in a consolidation"
        )
    return np.array(names), np.stack(pixels)


def _picture(teaching: Any, embedder: DeepEmbedder) -> NDArray[np.uint8]:
    """The picture a teaching came from."""
    try:
        picture = opened_picture(teaching.source, at_least=embedder.at_least)
    except (EverlearnError, ValueError) as error:
        raise CannotRead(
            f"teaching {teaching.id} of {teaching.name!r} cannot be embedded anew, since its "
            f"picture is no longer where it was: {error}; put it back, or forget that teaching"
        ) from None
    return np.asarray(centre_crop(picture, embedder.size, embedder.crop))


def _checkpoint_of(folder: Path, name: str) -> Path:
    """The checkpoint of a consolidation from this network; those of others are removed."""
    file = folder / f"night-{_short(name)}.training"
    for other in folder.glob("night-*.training"):
        if other != file:
            other.unlink(missing_ok=True)
    return file


def _remove_networks(folder: Path, *, keep: str) -> None:
    kept = network_file(folder, keep)
    for path in folder.glob("network-*.safetensors"):
        if path != kept:
            path.unlink(missing_ok=True)


def _short(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:16]
