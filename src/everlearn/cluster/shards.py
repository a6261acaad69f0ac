"""Shards: identified parts of the data, each learned as a whole and exactly once.

A shard has an identity: its address, its size, and a stamp that changes when its contents do (the
time of modification, the ETag of an object store, a digest of an array). Two shards of one
identity are one shard; one address with two identities is a mistake that is reported.
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
    """One image file of a shard, and what it shows."""

    path: str
    label: str


@dataclass(frozen=True)
class Shard:
    """A part of the data, small enough to be described to any worker.

    Attributes
    ----------
    address : str
        Where it is, as a person would look for it.
    size : int
        In bytes, as far as it is known.
    stamp : str
        Changes when the contents change.
    kind : Kind
    pictures : tuple of LabelledFile
        For a folder of images: which files.
    rows : object
        What is in memory already: a pair of arrays, an iterator of such pairs, or an engine's own
        handle of one.
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
    """The address an identity begins with."""
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
    return "file" in _protocols(system)


def address_in(system: Any, path: str) -> str:
    """The one spelling of an address: plain and resolved if local, else with its protocol."""
    return os.path.realpath(path) if is_local(system) else str(system.unstrip_protocol(path))


def stamp_of(about: dict[str, Any]) -> str:
    """What changes with the contents of a file, of all that its file system tells about it."""
    for key in ("ETag", "etag", "md5Hash", "mtime", "LastModified", "last_modified", "created"):
        if about.get(key) is not None:
            return f"{key} {about[key]}"
    return ""


def _protocols(system: Any) -> tuple[str, ...]:
    return (system.protocol,) if isinstance(system.protocol, str) else tuple(system.protocol)
