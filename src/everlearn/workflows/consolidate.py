"""Consolidates a Memory: trains its network further on the taught pictures.

A Memory learns in one pass over its pictures, and its network does not change. Consolidation
trains the network on the pictures that are stored in the Memory or still at their source, embeds
everything again, and trains the classifier on the new vectors. If a picture is missing, nothing
changes, because its teaching would be lost.

Every step can be interrupted:

    training        resumes from its checkpoint in the Memory's folder
    new network     is written under a new name before anything refers to it
    new vectors     replace the old ones through the Memory's ``reembed``, in one transaction
    old networks    are removed last

The checkpoint and the networks are files in the Memory's folder, so a Memory in a database is not
consolidated directly.
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
from everlearn.errors import (
    CannotRead,
    EverlearnError,
    InvalidParameter,
    NeverLearned,
    OtherNetwork,
    ReadOnlyMemory,
    WrongEmbedder,
)
from everlearn.images.decode import open_picture
from everlearn.images.embedders import centre_crop
from everlearn.memory.memory import Memory
from everlearn.memory.storage.rows import Teaching

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
        In a folder, writable, with a :class:`~everlearn.deep.embedding.DeepEmbedder`.
    recipe : Recipe
    held_out : float, default=0.1
        Share of every name's pictures used to judge the consolidation.
    progress : callable, optional
        Called with each epoch as it ends.

    Raises
    ------
    InvalidParameter, ReadOnlyMemory
        If the Memory is in a database, or open for asking only.
    WrongEmbedder
        If the Memory's embedder cannot be trained here.
    CannotRead
        If a taught picture is missing, or a vector was taught; nothing was changed.
    TooFewClasses, TooFewExamples
        If there is only one name, or a name with one picture.

    Returns
    -------
    Consolidation
        If the network was ``taken``, open the Memory from then on with
        ``embedder_of(folder, memory.info()["embedder"])``.
    """
    folder = _writable_folder(memory)
    embedder = memory.embedder
    if not isinstance(embedder, DeepEmbedder):
        raise WrongEmbedder(
            f"{type(embedder).__name__} cannot be trained here; consolidation needs a network from "
            "everlearn.deep (train_base, load_embedder)"
        )
    names, pixels = _taught_pictures(memory, embedder)
    checkpoint = _checkpoint_of(folder, embedder.name)

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
        save_embedder(result.embedder, network_file(folder, result.embedder.name))
        memory.reembed(result.embedder)
        _remove_networks(folder, keep=result.embedder.name)
    checkpoint.unlink(missing_ok=True)
    return result


def network_file(folder: Path, name: str) -> Path:
    """The file of the network with this name, beside the journal of its Memory."""
    return folder / f"network-{_short(name)}.safetensors"


def embedder_of(folder: Path, name: str, **settings: Any) -> DeepEmbedder:
    """The network of a Memory's last consolidation; ``settings`` as in ``load_embedder``."""
    return load_embedder(network_file(Path(folder), name), **settings)


def _writable_folder(memory: Memory) -> Path:
    """The folder of a Memory that can be changed."""
    if not isinstance(memory.path, Path):
        raise InvalidParameter(
            f"{memory.path} is a database, and consolidation keeps its network as a file in the "
            "Memory's folder; consolidate a copy (backup), then call reembed with the new network"
        )
    if memory.read_only:
        raise ReadOnlyMemory(
            f"{memory.path} was opened read-only; open it without read_only=True to consolidate it"
        )
    return memory.path


def _taught_pictures(
    memory: Memory, embedder: DeepEmbedder
) -> tuple[NDArray[np.str_], NDArray[np.uint8]]:
    """Names and pictures of all teachings, in the order they were taught."""
    names: list[str] = []
    pixels: list[NDArray[np.uint8]] = []
    for teaching in memory.teachings():
        names.append(teaching.name)
        pixels.append(_picture(memory, teaching, embedder))
    if not names:
        raise NeverLearned("nothing was taught yet, so there is nothing to consolidate")
    return np.array(names), np.stack(pixels)


def _picture(memory: Memory, teaching: Teaching, embedder: DeepEmbedder) -> NDArray[np.uint8]:
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
