"""Teaches a Memory any number of images: many workers embed, one process teaches.

Each image is decoded and embedded once, by a worker of the engine. Its vector is stored in the
checkpoint, from which an interrupted run resumes. The Memory is then taught from the vectors, in
the order of the shards. Every readable image is taught; every file that is left out is listed with
its reason.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from everlearn.cluster.fitting import Progress, embed
from everlearn.cluster.listing import listed
from everlearn.cluster.pictures import Embedding, embedded, embedder_of
from everlearn.cluster.shards import Kind, Shard, file_system, is_local
from everlearn.cluster.store import CheckpointStore
from everlearn.cluster.vectors import KeptVectors, name_of_vectors, read_vectors, write_vectors
from everlearn.errors import InvalidInput, InvalidParameter, ReadOnlyMemory
from everlearn.images.embedders import Embedder
from everlearn.memory.answers import Outcome
from everlearn.memory.memory import Memory
from everlearn.memory.storage.rows import Example


@dataclass(frozen=True)
class Ingested:
    """The result of an ingest.

    Attributes
    ----------
    taught, repeated : int
        Number of images that were new to the Memory, and of those already taught.
    shards : int
        Number of shards.
    left_out : tuple of (str, str)
        Each file or shard that was not taught, and why.
    """

    taught: int
    repeated: int
    shards: int
    left_out: tuple[tuple[str, str], ...]


def ingest(
    memory: Memory,
    sources: Sequence[str],
    *,
    embedder: Embedding,
    checkpoint: str,
    engine: Any = "local",
    workers: int | None = None,
    on_bad: Literal["raise", "skip"] = "raise",
    progress: Callable[[Progress], None] | None = None,
) -> Ingested:
    """Teach a Memory from tar files or folders of images.

    Parameters
    ----------
    memory : Memory
        Writable, and taught whole images.
    sources : addresses of shards, as for :func:`everlearn.cluster.fit`
    embedder, checkpoint, engine, workers, progress
        As for :func:`everlearn.cluster.embed`. The checkpoint contains vectors of the images. An
        erase removes it if it is the folder ``PATH.parts`` beside the Memory's folder ``PATH``;
        otherwise the receipt lists it.
    on_bad : "raise" or "skip", default="raise"
        For an image that cannot be read: raise ``BadShard`` and teach nothing, or teach all others
        and list it in ``left_out``.
    """
    if memory.read_only:
        raise ReadOnlyMemory(
            f"{memory.path} was opened read-only; open it without read_only=True to teach it"
        )
    if memory.regions != "whole":
        raise InvalidParameter(
            f"{memory.path} is taught parts of images ({memory.regions}), but ingest embeds whole "
            "images; use everlearn teach (in Python teach_many), or change the Memory: everlearn "
            "reembed --regions whole (in Python reembed(regions='whole'))"
        )
    shards = image_shards(sources)
    _record_checkpoint(memory, checkpoint)
    found = embed(
        list(sources),
        embedder=embedder,
        checkpoint=checkpoint,
        engine=engine,
        workers=workers,
        on_bad=on_bad,
        progress=progress,
    )
    left_out: list[tuple[str, str]] = []
    store = CheckpointStore(checkpoint)

    def note(outcome: Outcome) -> None:
        if outcome.error is not None:
            left_out.append((outcome.source, str(outcome.error)))

    examples = _examples(shards, store, embedder_of(embedder), found.bad, left_out)
    summary = memory.teach_many(examples, acknowledge=note)
    return Ingested(summary.taught, summary.repeated, len(shards), tuple(left_out))


def _record_checkpoint(memory: Memory, checkpoint: str) -> None:
    """Record the checkpoint for receipts of erases, unless an erase removes it."""
    system, path = file_system(checkpoint)
    address = path if is_local(system) else checkpoint
    if not isinstance(memory.path, Path) or address != os.path.realpath(f"{memory.path}.parts"):
        memory.remember_checkpoint(address)


def image_shards(sources: Sequence[str]) -> list[Shard]:
    """The shards at some addresses; raises ``InvalidInput`` unless they all hold images."""
    shards = listed(list(sources))
    for shard in shards:
        if shard.kind not in (Kind.TAR, Kind.PICTURES):
            raise InvalidInput(
                f"{shard.address} holds vectors; a Memory is taught images. Fit a model file "
                "instead (everlearn ingest --model FILE)"
            )
    return shards


def _examples(
    shards: Sequence[Shard],
    store: CheckpointStore,
    embedder: Embedder,
    bad: dict[str, tuple[str, ...]],
    left_out: list[tuple[str, str]],
) -> Iterator[tuple[Example, str]]:
    """All embedded images as examples for a Memory; adds what cannot be taught to ``left_out``."""
    for shard in shards:
        vectors = read_vectors(store, name_of_vectors(embedder.name, shard))
        reasons = bad.get(shard.address)
        if vectors is None and reasons is not None:
            left_out.extend((shard.address, reason) for reason in reasons)
            continue
        if vectors is None:
            # They were damaged or removed after the shard was found complete.
            vectors = _embedded_again(store, shard, embedder)
        left_out.extend((shard.address, reason) for reason in vectors.problems)
        for example in vectors.examples:
            inside_tar = shard.kind is Kind.TAR
            source = f"{shard.address}/{example.name}" if inside_tar else example.name
            yield (
                Example(example.vector, source, example.digest, example.thumbnail, embedder.name),
                example.word,
            )


def _embedded_again(store: CheckpointStore, shard: Shard, embedder: Embedder) -> KeptVectors:
    """Embed the images of a shard here, and store their vectors."""
    problems: list[str] = []
    examples = list(embedded(shard, embedder, problems.append))
    if examples:
        name = name_of_vectors(embedder.name, shard)
        write_vectors(store, name, examples, problems, shard.identity)
    return KeptVectors(examples, tuple(problems))
