"""Consolidates a Memory: trains its network further on the taught pictures.

A Memory is taught in one pass and answers at once; its network does not change. Consolidation
trains the network on the pictures that are stored in the Memory or still at their source, embeds
everything again, and trains the classifier on the new vectors. If a picture is missing nothing
changes, because its teaching would be lost.

An interruption leaves nothing half-done:

    training        resumes from its checkpoint in the Memory's folder
    new network     is written under a new name before anything refers to it
    new vectors     replace the old ones through the Memory's ``reembed``, in one step
    old networks    are removed after that
"""

import hashlib
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everlearn.deep.consolidate import CONSOLIDATION, HELD_OUT, Consolidation, consolidation
from everlearn.deep.descent import Recipe
from everlearn.deep.embedding import DeepEmbedder, load_embedder, save_embedder
from everlearn.deep.trainer import Epoch
from everlearn.errors import CannotRead, EverlearnError, NeverLearned, OtherNetwork, WrongEmbedder
from everlearn.images.decode import open_picture
from everlearn.images.embedders import centre_crop
from everlearn.memory.memory import Memory

logger = logging.getLogger("everlearn")


def consolidate(
    memory: Memory,
    *,
    recipe: Recipe = CONSOLIDATION,
    held_out: float = HELD_OUT,
    progress: Callable[[Epoch], None] | None = None,
) -> Consolidation:
    """Train a Memory's network on its taught pictures; kept only if it helps.

    After an interruption it resumes when it is called again, provided that nothing was taught in
    between; otherwise it starts over.

    Parameters
    ----------
    memory : Memory
        Writable, with a :class:`~everlearn.deep.embedding.DeepEmbedder`.
    recipe : Recipe
    held_out : float, default=0.1
        Share of every name's pictures used to judge the consolidation.
    progress : callable, optional
        Called with each epoch as it ends.

    Raises
    ------
    WrongEmbedder
        If the Memory's embedder cannot be trained here.
    CannotRead
        If a taught picture is missing, or a vector was taught; nothing was changed.
    TooFewClasses, TooFewExamples
        If there is only one name, or a name with one picture.

    Returns
    -------
    Consolidation
        From then on open the Memory with ``embedder_of(folder, memory.info()["embedder"])``.
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
        logger.warning("an interrupted consolidation starts over: %s", error)
        checkpoint.unlink()
        result = run()
    if result.taken:
        save_embedder(result.embedder, network_file(memory.path, result.embedder.name))
        memory.reembed(result.embedder)
        _remove_networks(memory.path, keep=result.embedder.name)
    checkpoint.unlink(missing_ok=True)
    return result


def network_file(folder: Path, name: str) -> Path:
    """The file of the network with this name, beside the journal of its Memory."""
    return folder / f"network-{_short(name)}.safetensors"


def embedder_of(folder: Path, name: str, **settings: Any) -> DeepEmbedder:
    """The network of a Memory's last consolidation; ``settings`` as in ``load_embedder``."""
    return load_embedder(network_file(Path(folder), name), **settings)


def _kept(memory: Memory, embedder: DeepEmbedder) -> tuple[NDArray[Any], NDArray[np.uint8]]:
    """Names and pictures of all teachings, in the order they were taught."""
    names: list[str] = []
    pixels: list[NDArray[np.uint8]] = []
    for teaching in memory.teachings():
        names.append(teaching.name)
        pixels.append(_picture(memory, teaching, embedder))
    if not names:
        raise NeverLearned("nothing was taught yet, so there is nothing to consolidate")
    return np.array(names), np.stack(pixels)


def _picture(memory: Memory, teaching: Any, embedder: DeepEmbedder) -> NDArray[np.uint8]:
    """The picture of a teaching, or the part of it given by its box."""
    reason = "it was not stored, and is no longer at its source"
    try:
        data = memory.image(teaching.id)
        if data is not None:
            at_least = embedder.at_least if teaching.box is None else None
            picture = open_picture(data, at_least=at_least)
            if teaching.box is not None:
                picture = picture.crop(teaching.box.pixels(*picture.size))
            return np.asarray(centre_crop(picture, embedder.size, embedder.crop))
    except (EverlearnError, ValueError) as error:
        reason = str(error)
    raise CannotRead(
        f"teaching {teaching.id} of {teaching.name!r} cannot be embedded again: {reason}; put its "
        "picture back, or forget that teaching"
    )


def _checkpoint_of(folder: Path, name: str) -> Path:
    """The checkpoint of a consolidation of this network; those of others are removed."""
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
