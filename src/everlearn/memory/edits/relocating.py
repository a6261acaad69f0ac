"""Updates the paths of teachings whose pictures were moved."""

import hashlib
import os
from dataclasses import dataclass

from everlearn.errors import EverlearnError, UnknownLabel
from everlearn.images.decode import Limits, read_bytes
from everlearn.memory.storage.appending import set_source
from everlearn.memory.storage.journal import Journal
from everlearn.memory.storage.rows import Example, as_path, as_stored


@dataclass(frozen=True)
class Relocation:
    """Result of a relocation.

    Attributes
    ----------
    moved : int
        Number of teachings with a new path.
    missing : tuple of str
        Sources for which the new path holds no file with the same bytes.
    """

    moved: int
    missing: tuple[str, ...]


def relocate(journal: Journal, old: str, new: str, limits: Limits) -> Relocation:
    """Update the paths of teachings from a file or folder; call inside a transaction."""
    found = journal.find(source=old, forgotten=True)
    if not found:
        raise UnknownLabel(f"nothing was taught from {old}")
    moved, missing = 0, []
    for teaching in found:
        source, digest = journal.origin(teaching)
        path = as_path(new + source[len(as_stored(old).rstrip(os.sep)) :])
        if _has_digest(path, digest, limits):
            set_source(journal, teaching, path)
            moved += 1
        else:
            missing.append(source)
    return Relocation(moved, tuple(missing))


def follow_moved(journal: Journal, name: str, example: Example) -> None:
    """Update the path of a picture taught again from another one, if its file is gone."""
    if not os.path.isabs(example.source):
        return
    for teaching in journal.find(name=name, digest=example.digest):
        source, _ = journal.origin(teaching)
        if source == as_stored(example.source) or not os.path.isabs(source):
            continue
        if not os.path.exists(as_path(source)):
            set_source(journal, teaching, example.source)


def _has_digest(path: str, digest: bytes, limits: Limits) -> bool:
    try:
        return hashlib.sha256(read_bytes(path, limits)).digest() == digest
    except EverlearnError:
        return False
