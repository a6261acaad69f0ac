"""Caches vectors of images, so that each image is decoded and embedded once.

The vectors of a shard under one embedder are one npz file of plain arrays, with the reason for
every image that could not be read and a digest. Another fit, with another learner or other
parameters, reads it instead of the images; a Memory is taught from it. A file that was altered, or
holds anything but finite vectors of one length, is removed, and its images are embedded again. The
digest detects damage, but no attack: whoever can write to the store can compute it.
"""

import hashlib
import io
import struct
import zipfile
import zlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from everlearn.cluster.pictures import EmbeddedExample
from everlearn.cluster.shards import Shard
from everlearn.cluster.store import CheckpointStore

VECTORS = "vectors"
DIGEST_BYTES = 32
# Exceptions of numpy for files of another kind.
UNREADABLE = (
    ValueError,
    KeyError,
    EOFError,
    OSError,
    MemoryError,
    NotImplementedError,  # zip features that Python does not support
    OverflowError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)


def name_of_vectors(embedder: str, shard: Shard) -> str:
    """The name under which the vectors of a shard are stored."""
    return hashlib.sha256(f"{embedder}\n{shard.identity}".encode()).hexdigest() + ".npz"


@dataclass(frozen=True)
class KeptVectors:
    """The examples of a shard of images, and the problems of the others."""

    examples: list[EmbeddedExample]
    problems: tuple[str, ...]


def write_vectors(
    store: CheckpointStore,
    name: str,
    examples: Sequence[EmbeddedExample],
    problems: Sequence[str] = (),
    shard: str = "",
) -> None:
    """Store the vectors of a shard (its identity), and its problems."""
    thumbnails = b"".join(example.thumbnail for example in examples)
    digests = b"".join(example.digest for example in examples)
    arrays = {
        "X": np.stack([example.vector for example in examples]),
        "y": np.array([example.label for example in examples]),
        "words": np.array([example.word for example in examples]),
        "names": np.array([example.name for example in examples]),
        "digests": np.frombuffer(digests, np.uint8).reshape(len(examples), -1),
        "thumbnails": np.frombuffer(thumbnails, np.uint8),
        "ends": np.cumsum([len(example.thumbnail) for example in examples]),
        "problems": np.array(problems, dtype=np.str_),
        "shard": np.array(_digest_of_shard(shard)),
    }
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, checksum=np.array(_checksum(name, arrays)), **arrays)
    store.write(name, file.getvalue(), VECTORS)


def read_vectors(store: CheckpointStore, name: str) -> KeptVectors | None:
    """The vectors of a shard, or ``None`` if missing or damaged."""
    data = store.read_bytes(name, VECTORS)
    if data is None:
        return None
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            arrays = {key: file[key] for key in file.files}
        if str(arrays.pop("checksum")) != _checksum(name, arrays):
            raise ValueError("altered")
        _require_arrays(arrays)
        return KeptVectors(list(_examples(arrays)), tuple(map(str, arrays["problems"].tolist())))
    except UNREADABLE:
        store.remove(name, VECTORS)
        return None


def remove_vectors(store: CheckpointStore, shards: Collection[str]) -> None:
    """Remove the vectors of these shards (their identities), and files that cannot be identified.

    The files are named after embedder and shard together, so the shard is read from each file.
    """
    gone = {_digest_of_shard(shard) for shard in shards}
    for name in store.names(VECTORS):
        data = store.read_bytes(name, VECTORS)
        try:
            with np.load(io.BytesIO(data or b""), allow_pickle=False) as file:
                is_kept = str(file["shard"]) not in gone
        except UNREADABLE:
            is_kept = False
        if not is_kept:
            store.remove(name, VECTORS)


def _require_arrays(arrays: dict[str, np.ndarray]) -> None:
    """Refuse content that :func:`write_vectors` cannot have written: a checksum can be forged."""
    X, ends, digests = arrays["X"], arrays["ends"], arrays["digests"]
    if X.ndim != 2 or X.dtype != np.float32 or not np.isfinite(X).all():
        raise ValueError("no vectors")
    columns = [arrays[key] for key in ("y", "words", "names")]
    if any(column.shape != (len(X),) for column in (*columns, ends)):
        raise ValueError("arrays of inconsistent length")
    if any(column.dtype.kind != "U" for column in (*columns[1:], arrays["problems"])):
        raise ValueError("no words")
    if arrays["problems"].ndim != 1 or columns[0].dtype.kind not in "iufbU":
        raise ValueError("labels or problems of the wrong type")
    if digests.dtype != np.uint8 or digests.shape != (len(X), DIGEST_BYTES):
        raise ValueError("no digests")
    thumbnails = arrays["thumbnails"]
    if thumbnails.dtype != np.uint8 or thumbnails.ndim != 1 or ends.dtype.kind not in "iu":
        raise ValueError("no thumbnails")
    steps = np.diff(ends.astype(object), prepend=0)
    if any(step < 0 for step in steps) or (len(ends) and int(ends[-1]) != len(thumbnails)):
        raise ValueError("thumbnails overlap")


def _examples(arrays: dict[str, np.ndarray]) -> Iterator[EmbeddedExample]:
    thumbnails = arrays["thumbnails"].tobytes()
    start = 0
    for vector, label, word, name, digest, end in zip(
        arrays["X"],
        arrays["y"].tolist(),
        arrays["words"].tolist(),
        arrays["names"].tolist(),
        arrays["digests"],
        arrays["ends"].tolist(),
        strict=True,
    ):
        yield EmbeddedExample(name, label, vector, digest.tobytes(), thumbnails[start:end], word)
        start = end


def _digest_of_shard(identity: str) -> str:
    return hashlib.sha256(identity.encode()).hexdigest()


def _checksum(name: str, arrays: dict[str, np.ndarray]) -> str:
    digest = hashlib.sha256(name.encode())
    for key in sorted(arrays):
        array = np.ascontiguousarray(arrays[key])
        digest.update(f"{key} {array.dtype.str} {array.shape}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
