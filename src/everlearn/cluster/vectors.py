"""Vectors of images, kept so that an image is decoded and embedded once in its life.

What a shard of images became under one embedder is one npz file of plain arrays, with the reason
for every image that could not be read. Another fit, with another learner or other parameters, reads
it instead of the images; a Memory is taught from it.
"""

import hashlib
import io
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from everlearn.cluster.pictures import EmbeddedExample
from everlearn.cluster.shards import Shard
from everlearn.cluster.store import CheckpointStore

VECTORS = "vectors"


def name_of_vectors(embedder: str, shard: Shard) -> str:
    """Under which name the vectors of a shard are kept."""
    return hashlib.sha256(f"{embedder}\n{shard.identity}".encode()).hexdigest() + ".npz"


@dataclass(frozen=True)
class KeptVectors:
    """What a shard of images became: its examples, and why others could not be read."""

    examples: Iterator[EmbeddedExample]
    problems: tuple[str, ...]


def write_vectors(
    store: CheckpointStore, name: str, examples: Sequence[EmbeddedExample], problems: Sequence[str]
) -> None:
    """Keep what a shard became."""
    thumbnails = b"".join(example.thumbnail for example in examples)
    digests = b"".join(example.digest for example in examples)
    file = io.BytesIO()
    np.savez(
        file,
        X=np.stack([example.vector for example in examples]),
        y=np.array([example.label for example in examples]),
        names=np.array([example.name for example in examples]),
        digests=np.frombuffer(digests, np.uint8).reshape(len(examples), -1),
        thumbnails=np.frombuffer(thumbnails, np.uint8),
        ends=np.cumsum([len(example.thumbnail) for example in examples]),
        problems=np.array(list(problems), dtype=np.str_),
    )
    store.write(name, file.getvalue(), VECTORS)


def read_vectors(store: CheckpointStore, name: str) -> KeptVectors | None:
    """What a shard became, or nothing if it is not there or damaged."""
    data = store.read_bytes(name, VECTORS)
    if data is None:
        return None
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            found = {key: arrays[key] for key in arrays.files}
        # Files before 0.2 have no problems: a shard with an unreadable image was not kept.
        problems = tuple(map(str, found.pop("problems", np.array([], dtype=np.str_)).tolist()))
        return KeptVectors(_examples(found), problems)
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile):
        store.remove(name, VECTORS)
        return None


def _examples(arrays: dict[str, np.ndarray]) -> Iterator[EmbeddedExample]:
    thumbnails = arrays["thumbnails"].tobytes()
    start = 0
    for vector, label, name, digest, end in zip(
        arrays["X"],
        arrays["y"].tolist(),
        arrays["names"].tolist(),
        arrays["digests"],
        arrays["ends"].tolist(),
        strict=True,
    ):
        yield EmbeddedExample(name, label, vector, digest.tobytes(), thumbnails[start:end])
        start = end
