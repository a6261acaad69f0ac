"""Embeds many pictures, using every core.

Each thread processes a few pictures completely: read, decode, prepare, model. Neither Pillow nor
onnxruntime holds the interpreter lock while it works, so decoding overlaps with the model of
another thread. Results come in the order of the sources, only a few batches are in flight at a
time, and for a picture that cannot be read the result is its error.
"""

import hashlib
import io
import math
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from everlearn.errors import EverlearnError
from everlearn.images.decode import (
    DEFAULT_LIMITS,
    OF_BYTES,
    RGB,
    Limits,
    Source,
    open_picture,
    read_bytes,
)
from everlearn.images.embedders import Embedder, Vectors, as_picture
from everlearn.images.video import VideoFrame

if TYPE_CHECKING:
    from PIL import Image

Item = TypeVar("Item")
Result = TypeVar("Result")

THUMBNAIL_SIDE = 96
THUMBNAIL_QUALITY = 75
# Enough batches in flight that no thread waits for the consumer.
BATCHES_PER_THREAD = 4


@dataclass(frozen=True)
class Embedded:
    """One picture's vector, the digest of its file or pixels, and a JPEG thumbnail."""

    source: Source
    vector: Vectors
    digest: bytes
    thumbnail: bytes


@dataclass(frozen=True)
class Unreadable:
    """A picture that could not be read, with the error."""

    source: Source
    error: EverlearnError


def embed_sources(
    embedder: Embedder,
    sources: Iterable[Source],
    *,
    limits: Limits = DEFAULT_LIMITS,
    threads: int | None = None,
) -> Iterator[Embedded | Unreadable]:
    """Embed files, in order; ``sources`` is consumed lazily.

    Parameters
    ----------
    embedder : Embedder
    sources : iterable of bytes or path-like
    limits : Limits
    threads : int, optional
        Defaults to the embedder's own setting, at most one per core.
    """
    workers = threads or embedder.threads or os.cpu_count() or 1
    for part in ordered_map(
        lambda part: _embed_part(embedder, part, limits), sources, embedder.batch_size, workers
    ):
        yield from part


def ordered_map(
    work: Callable[[list[Item]], Result], items: Iterable[Item], size: int, workers: int
) -> Iterator[Result]:
    """Process batches of ``size`` items in threads; yields their results in order.

    ``items`` is read only a few batches ahead of the consumer.
    """
    waiting: deque[Future[Result]] = deque()
    remaining = iter(items)
    pool = ThreadPoolExecutor(workers, thread_name_prefix="embed")
    try:
        while True:
            while len(waiting) < BATCHES_PER_THREAD * workers:
                part = list(islice(remaining, size))
                if not part:
                    break
                waiting.append(pool.submit(work, part))
            if not waiting:
                return
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def embed_source(
    embedder: Embedder, source: Source, *, limits: Limits = DEFAULT_LIMITS
) -> Embedded:
    """Embed one file, or raise the matching error."""
    (result,) = _embed_part(embedder, [source], limits)
    if isinstance(result, Unreadable):
        raise result.error
    return result


def embed_picture(embedder: Embedder, image: RGB) -> Embedded:
    """Embed a picture that is already decoded."""
    picture = as_picture(image)
    vector = embedder.run(embedder.prepare(picture)[None])[0]
    return Embedded(b"", vector, digest_of_pixels(image), thumbnail(picture))


def thumbnail(picture: "Image.Image") -> bytes:
    """A JPEG of at most ``THUMBNAIL_SIDE`` pixels a side."""
    small = picture.reduce(max(1, math.ceil(max(picture.size) / THUMBNAIL_SIDE)))
    file = io.BytesIO()
    small.save(file, "JPEG", quality=THUMBNAIL_QUALITY)
    return file.getvalue()


def _embed_part(
    embedder: Embedder, sources: Sequence[Source], limits: Limits
) -> list[Embedded | Unreadable]:
    failed: dict[int, Unreadable] = {}
    prepared: list[Vectors] = []
    read: list[tuple[bytes, bytes]] = []
    for index, source in enumerate(sources):
        try:
            picture, digest = read_picture(source, limits, embedder.at_least)
        except EverlearnError as error:
            failed[index] = Unreadable(source, with_source_name(source, error))
            continue
        prepared.append(embedder.prepare(picture))
        read.append((digest, thumbnail(picture)))
    embedded = zip(embedder.run(np.stack(prepared)) if prepared else [], read, strict=True)
    results: list[Embedded | Unreadable] = []
    for index, source in enumerate(sources):
        if index in failed:
            results.append(failed[index])
        else:
            vector, (digest, small) = next(embedded)
            results.append(Embedded(source, vector, digest, small))
    return results


def read_picture(
    source: Source, limits: Limits, at_least: int | None
) -> tuple["Image.Image", bytes]:
    """A decoded picture, and the SHA-256 of its file, or of its pixels for a video frame."""
    if isinstance(source, VideoFrame):
        pixels = source.opened()
        return as_picture(pixels), digest_of_pixels(pixels)
    data = read_bytes(source, limits)
    picture = open_picture(data, limits=limits, at_least=at_least)
    return picture, hashlib.sha256(data).digest()


def digest_of_pixels(image: RGB) -> bytes:
    """The SHA-256 of a picture given as pixels, with its size."""
    height, width = image.shape[:2]
    return hashlib.sha256(f"{width} {height} ".encode() + image.tobytes()).digest()


def with_source_name(source: Source, error: EverlearnError) -> EverlearnError:
    """The error with *the image* replaced by the file's name: decoding saw only its bytes."""
    if isinstance(source, bytes):
        return error
    return type(error)(str(error).replace(OF_BYTES, os.fspath(source), 1))
