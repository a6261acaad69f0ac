"""Pictures that were answered with *unknown* and kept: which of these strangers are the same?

Strangers are grouped by likeness: average linkage, cut halfway between the likeness of one name's
examples and that of two names'. A group can be named, which teaches its members; dropped; or
ignored, which keeps it and makes everything that resembles it be answered with *ignored*.
"""

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from everlearn.errors import DamagedJournal, InvalidInput
from everlearn.memory.model.head import unit
from everlearn.memory.storage.checksums import content_of, row_checksum
from everlearn.memory.storage.journal import Example, Journal, as_kept

Array = NDArray[np.float64]

# So many are kept at most; then the oldest that is not ignored makes room.
MOST = 1000
# The likeness (cosine) of one thing's pictures where no name has two examples to tell.
USUAL_LIKENESS = 0.6

COLUMNS = "id, time, source, digest, ignored, thumbnail, vector"


@dataclass(frozen=True)
class Group:
    """Strangers that are alike.

    Attributes
    ----------
    id : int
        The number of its first member.
    count : int
    examples : tuple of int
        The numbers of its members.
    likely : str or None
        The known name it resembles most.
    ignored : bool
    """

    id: int
    count: int
    examples: tuple[int, ...]
    likely: str | None
    ignored: bool


@dataclass(frozen=True)
class UnknownImage:
    id: int
    ignored: int
    example: Example


def remember(journal: Journal, example: Example) -> None:
    """Keep one stranger; the same picture is kept once. Inside a transaction."""
    if journal.db.row("SELECT 1 FROM strangers WHERE digest = ?", example.digest) is not None:
        return
    if int(journal.db.value("SELECT COUNT(*) FROM strangers")) >= MOST:
        journal.db.run(
            "DELETE FROM strangers WHERE id = (SELECT MIN(id) FROM strangers WHERE ignored = 0)"
        )
    number = int(journal.db.value("SELECT MAX(id) FROM strangers") or 0) + 1
    _keep(journal, number, time.time(), 0, example)


def all_strangers(journal: Journal) -> list[UnknownImage]:
    """Everyone kept, each looked at as it is read."""
    found = []
    for number, when, source, digest, ignored, jpeg, vector, own in journal.db.rows(
        f"SELECT {COLUMNS}, seal FROM strangers ORDER BY id"
    ):
        blobs = all(isinstance(value, bytes) for value in (digest, jpeg, vector))
        if not blobs or own != _checksum(number, when, source, digest, ignored, jpeg, vector):
            raise DamagedJournal(f"{journal.path} is damaged: a stranger was altered")
        x = np.frombuffer(vector, dtype="<f4") if len(vector) == 4 * journal.n_features else None
        if x is None or not np.isfinite(x).all() or not isinstance(source, str):
            raise DamagedJournal(f"{journal.path} is damaged: a stranger makes no sense")
        embedder = journal.fact("embedder") or ""
        found.append(UnknownImage(number, ignored, Example(x, source, digest, jpeg, embedder)))
    return found


def thumbnail_of(journal: Journal, number: int) -> bytes | None:
    """A small JPEG of a stranger, if one was kept."""
    row = journal.db.row(f"SELECT {COLUMNS}, seal FROM strangers WHERE id = ?", number)
    if row is None:
        return None
    if row[-1] != _checksum(*row[:-1]):
        raise DamagedJournal(f"{journal.path} is damaged: a stranger was altered")
    return bytes(row[5]) or None


def groups(strangers: list[UnknownImage], likeness: float) -> list[list[UnknownImage]]:
    """Strangers that are alike, the largest group first; ignored ones stay as they were put."""
    ignored: dict[int, list[UnknownImage]] = {}
    for stranger in strangers:
        if stranger.ignored:
            ignored.setdefault(stranger.ignored, []).append(stranger)
    free = [stranger for stranger in strangers if not stranger.ignored]
    found = [[free[i] for i in np.flatnonzero(labels)] for labels in _alike(free, likeness)]
    return sorted([*found, *ignored.values()], key=lambda group: (-len(group), group[0].id))


def likeness_of(counts: Array, means: Array, lengths: Array) -> float:
    """The likeness (cosine) halfway between that of one name's examples and that of two names'."""
    several = counts > 1
    within = float(np.mean(lengths[several] ** 2)) if several.any() else USUAL_LIKENESS
    if len(counts) < 2:
        return within
    products = means @ means.T
    others = (products.sum() - products.trace()) / (len(means) * (len(means) - 1))
    return 0.5 * (within + float(others))


def resembles_ignored(strangers: list[UnknownImage], x: Array, likeness: float) -> bool:
    """Whether something looks like a group that is to be ignored."""
    members: dict[int, list[NDArray[np.float32]]] = {}
    for stranger in strangers:
        if stranger.ignored:
            members.setdefault(stranger.ignored, []).append(stranger.example.vector)
    return any(float(np.mean(unit(np.stack(rows)) @ x)) >= likeness for rows in members.values())


def ignore(journal: Journal, group: list[UnknownImage]) -> None:
    """Keep a group quiet; inside a transaction."""
    number = group[0].id
    for stranger in group:
        when = journal.db.value("SELECT time FROM strangers WHERE id = ?", stranger.id)
        _keep(journal, stranger.id, when, number, stranger.example)


def drop(journal: Journal, group: list[UnknownImage]) -> None:
    """Forget a group; inside a transaction."""
    numbers = [(stranger.id,) for stranger in group]
    journal.db.run_many("DELETE FROM strangers WHERE id = ?", numbers)


def find_group(found: list[list[UnknownImage]], number: int) -> list[UnknownImage]:
    for group in found:
        if group[0].id == number:
            return group
    known = ", ".join(str(group[0].id) for group in found[:8])
    raise InvalidInput(f"there is no group {number} of strangers; there are {known or 'none'}")


def _alike(free: list[UnknownImage], likeness: float) -> list[NDArray[np.bool_]]:
    """Which strangers are in which group, one mask each."""
    if len(free) < 2:
        return [np.ones(1, dtype=np.bool_)] if free else []
    from scipy.cluster.hierarchy import fcluster, linkage

    X = unit(np.stack([stranger.example.vector for stranger in free]))
    distances = np.clip(1.0 - X @ X.T, 0.0, 2.0)[np.triu_indices(len(X), 1)]
    labels = fcluster(linkage(distances, "average"), 1.0 - likeness, "distance")
    return [labels == label for label in np.unique(labels)]


def _keep(journal: Journal, number: int, when: float, ignored: int, example: Example) -> None:
    row = (
        number,
        when,
        as_kept(example.source),
        example.digest,
        ignored,
        example.thumbnail,
        example.vector.astype("<f4", copy=False).tobytes(),
    )
    journal.db.run(
        "INSERT OR REPLACE INTO strangers VALUES (?, ?, ?, ?, ?, ?, ?, ?)", *row, _checksum(*row)
    )


def _checksum(
    number: int, when: float, source: str, digest: bytes, ignored: int, jpeg: bytes, vector: bytes
) -> bytes:
    pictures = content_of(jpeg), content_of(vector)
    return row_checksum("strangers", number, when, source, digest, ignored, *pictures)
