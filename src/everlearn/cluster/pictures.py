"""Reads shards of images as blocks of vectors, decoded and embedded on the worker.

A tar file has WebDataset's layout: the files of one example are adjacent and share their name up to
the first dot, ``000017.jpg`` beside ``000017.cls`` with the label in it. Without a label file, the
image's folder is its label. Nothing is unpacked to disk; no member is read beyond the limit on
images, no header beyond a megabyte, and the files of one example together may have at most twice
the maximum size of an image.
"""

import re
import tarfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import PurePosixPath
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from everlearn.cluster.reader import ROWS, Block
from everlearn.cluster.shards import Kind, Shard, file_system
from everlearn.errors import BadShard, InvalidInput
from everlearn.images.batches import Unreadable, embed_sources
from everlearn.images.by_name import bundled_embedder, embedder_for
from everlearn.images.decode import DEFAULT_LIMITS, OF_BYTES, SUFFIXES
from everlearn.images.embedders import Embedder

# An embedder by name, or a function that creates one: an inference session cannot be sent to
# workers.
Embedding = str | Callable[[], Embedder]

LABEL_BYTES = 4096
HEADER_BYTES = 1 << 20
# Limit on files that share a name; there are rarely more than an image and its label.
EXAMPLE_BYTES = 2 * DEFAULT_LIMITS.bytes
EXAMPLE_FILES = 64


@dataclass(frozen=True)
class ShardImage:
    """An image in a shard; ``data`` is None if it is too large to be read.

    ``word`` is the label as written: a Memory's names are strings, and "007" is not "7".
    """

    name: str
    label: int | str
    data: bytes | None
    word: str = ""


@dataclass(frozen=True)
class EmbeddedExample:
    """An embedded image: its vector, and what a Memory stores beside it."""

    name: str
    label: int | str
    vector: NDArray[np.float32]
    digest: bytes
    thumbnail: bytes
    word: str = ""


@lru_cache(maxsize=1)
def embedder_of(embedding: Embedding) -> Embedder:
    """The embedder for a name, stored or as given by a user; created once per process."""
    if not isinstance(embedding, str):
        return embedding()
    return bundled_embedder(embedding) or embedder_for(embedding)


def embedded(
    shard: Shard, embedder: Embedder, report: Callable[[str], None]
) -> Iterator[EmbeddedExample]:
    """The images of a shard as vectors; ``report`` is called for each unreadable one.

    Uses one thread: an engine runs as many tasks as it has cores.
    """
    waiting: deque[ShardImage] = deque()

    def sources() -> Iterator[bytes]:
        for example in examples_of(shard):
            if example.data is None:
                report(f"{example.name} has more than {DEFAULT_LIMITS.bytes:,} bytes")
                continue
            waiting.append(example)
            yield example.data

    for result in embed_sources(embedder, sources(), threads=1):
        example = waiting.popleft()
        if isinstance(result, Unreadable):
            report(str(result.error).replace(OF_BYTES, example.name, 1))
        else:
            yield EmbeddedExample(
                example.name,
                example.label,
                result.vector,
                result.digest,
                result.thumbnail,
                example.word or str(example.label),
            )


def in_blocks(examples: Iterable[EmbeddedExample]) -> Iterator[Block]:
    """Vectors and labels in blocks of ``ROWS``."""
    remaining = iter(examples)
    while part := list(islice(remaining, ROWS)):
        yield np.stack([example.vector for example in part]), [example.label for example in part]


def examples_of(shard: Shard) -> Iterator[ShardImage]:
    """The images of a shard, in order, still encoded."""
    if shard.kind is Kind.PICTURES:
        system, _ = file_system(shard.pictures[0].path)
        for picture in shard.pictures:
            with system.open(picture.path, "rb") as file:
                yield ShardImage(picture.path, picture.label, _within_limit(file))
        return
    system, path = file_system(shard.address)
    with system.open(path, "rb") as file:
        yield from _in_tar(file)


def _in_tar(file: IO[bytes]) -> Iterator[ShardImage]:
    found = False
    with tarfile.open(fileobj=file, mode="r|*", tarinfo=_LimitedHeader) as tar:
        for key, members in _grouped_by_name(tar):
            word = _label_text(key, members)
            label = int(word) if re.fullmatch(r"-?\d{1,18}", word) else word
            for name, data in members.items():
                if PurePosixPath(name).suffix.lower() in SUFFIXES:
                    found = True
                    yield ShardImage(name, label, data, word)
    if not found:
        raise BadShard("it holds no images")


class _LimitedHeader(tarfile.TarInfo):
    """Refuses long names and extended headers, which would be read into memory completely."""

    _READ_WHOLE = frozenset(
        {
            tarfile.GNUTYPE_LONGNAME,
            tarfile.GNUTYPE_LONGLINK,
            tarfile.XHDTYPE,
            tarfile.XGLTYPE,
            tarfile.SOLARIS_XHDTYPE,
        }
    )

    def _proc_member(self, tar: tarfile.TarFile) -> Any:
        if self.type in self._READ_WHOLE and self.size > HEADER_BYTES:
            raise BadShard(f"a header has {self.size:,} bytes; the limit is {HEADER_BYTES:,}")
        return super()._proc_member(tar)  # type: ignore[misc]


def _grouped_by_name(tar: tarfile.TarFile) -> Iterator[tuple[str, dict[str, bytes | None]]]:
    """Adjacent files that share their name up to the first dot."""
    members: dict[str, bytes | None] = {}
    current = ""
    for info in tar:
        if not info.isreg():
            continue
        path = PurePosixPath(info.name)
        key = str(path.parent / path.name.split(".", 1)[0])
        if key != current and members:
            yield current, members
            members = {}
        current = key
        suffix = path.suffix.lower()
        if suffix in SUFFIXES or suffix == ".cls":
            file = tar.extractfile(info)
            assert file is not None
            members[info.name] = _within_limit(file)
            size = sum(len(data or b"") for data in members.values())
            if size > EXAMPLE_BYTES or len(members) > EXAMPLE_FILES:
                raise BadShard(
                    f"the files called {key:.100} have more than {EXAMPLE_BYTES:,} bytes "
                    f"together, or are more than {EXAMPLE_FILES}; an example consists of an image "
                    "and its label"
                )
    if members:
        yield current, members


def _label_text(key: str, members: dict[str, bytes | None]) -> str:
    label_files = [data for name, data in members.items() if name.lower().endswith(".cls")]
    if label_files:
        data = label_files[0]
        if data is None or len(data) > LABEL_BYTES:
            raise InvalidInput(f"the label of {key} has more than {LABEL_BYTES} bytes")
        try:
            return data.decode().strip()
        except UnicodeDecodeError:
            raise InvalidInput(f"the label of {key} is not text in UTF-8") from None
    folder = PurePosixPath(key).parent.name
    if not folder:
        raise InvalidInput(f"{key} has neither a .cls file beside it nor a folder as its label")
    return folder


def _within_limit(file: IO[bytes]) -> bytes | None:
    """The contents of an image file; ``None`` if it is larger than an image may be."""
    data = file.read(DEFAULT_LIMITS.bytes + 1)
    return data if len(data) <= DEFAULT_LIMITS.bytes else None
