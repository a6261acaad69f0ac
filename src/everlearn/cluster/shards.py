"""Shards: identified parts of the data, each learned as a whole and exactly once.

The identity of a shard consists of its address, its size, and a stamp that changes with its
contents (the modification time, the ETag of an object store, a digest of an array). Two shards with
the same identity are one shard; one address with two identities is an error.
"""

import os
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from everlearn.errors import CannotRead, MissingPackage


class Kind(StrEnum):
    """How a shard is read."""

    NPZ = "npz"
    PARQUET = "parquet"
    TAR = "tar"
    PICTURES = "pictures"
    ROWS = "rows"


@dataclass(frozen=True)
class LabelledFile:
    """One image file of a shard, and its label."""

    path: str
    label: str


@dataclass(frozen=True)
class Shard:
    """A part of the data, described compactly enough to send to any worker.

    Attributes
    ----------
    address : str
        Its location, a path or URL.
    size : int
        In bytes, as far as known.
    stamp : str
        Changes with the contents.
    kind : Kind
    pictures : tuple of LabelledFile
        For a folder of images: its files.
    rows : object
        Data already in memory: a pair of arrays, an iterator of such pairs, or an engine's handle
        of one.
    """

    address: str
    size: int
    stamp: str
    kind: Kind
    pictures: tuple[LabelledFile, ...] = ()
    rows: Any = field(default=None, compare=False, repr=False)

    @property
    def identity(self) -> str:
        return identity_of(self.address, self.size, self.stamp)


def identity_of(address: str, size: int, stamp: str) -> str:
    return f"{address}\n{size}\n{stamp}"


def address_of(identity: str) -> str:
    """The address contained in an identity."""
    return identity.split("\n", 1)[0]


def file_system(address: str) -> tuple[Any, str]:
    """The file system of an address, and the path in it."""
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise MissingPackage(
            "reading shards needs fsspec; install it with: pip install 'everlearn[shards]'"
        ) from None
    try:
        system, path = url_to_fs(address)
    except (ImportError, ValueError) as error:
        raise CannotRead(f"{address} cannot be reached: {error}") from None
    return system, os.path.realpath(path) if is_local(system) else path


def is_local(system: Any) -> bool:
    """Whether a file system is that of this machine."""
    return "file" in _protocols(system)


def address_in(system: Any, path: str) -> str:
    """The canonical address: plain and resolved if local, otherwise with its protocol."""
    return os.path.realpath(path) if is_local(system) else str(system.unstrip_protocol(path))


def stamp_of(info: dict[str, Any]) -> str:
    """A value that changes with the contents of a file, from its metadata."""
    for key in ("ETag", "etag", "md5Hash", "mtime", "LastModified", "last_modified", "created"):
        if info.get(key) is not None:
            return f"{key} {info[key]}"
    return ""


def _protocols(system: Any) -> tuple[str, ...]:
    return (system.protocol,) if isinstance(system.protocol, str) else tuple(system.protocol)
