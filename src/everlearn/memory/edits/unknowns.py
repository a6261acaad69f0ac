"""Images that were answered with *unknown* and kept: which of them show the same thing?

They are grouped by likeness: average linkage, cut halfway between the likeness of one name's
examples and that of two names'. A group can be named, which teaches its members; dropped; or
ignored, which keeps it and makes everything that resembles it be answered with *ignored*.

The table in the journal is called ``strangers``, as the page calls them.
"""

import os
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import PurePath

import numpy as np
from numpy.typing import NDArray

from everlearn.arrays import Array
from everlearn.errors import DamagedJournal, InvalidInput
from everlearn.memory.model.calibrated import familiarity_of
from everlearn.memory.model.head import unit
from everlearn.memory.model.model import Model
from everlearn.memory.storage.journal import Journal
from everlearn.memory.storage.regions import with_box, without_box
from everlearn.memory.storage.rows import (
    Example,
    TaughtBox,
    as_kept,
    content_of,
    given_box,
    row_checksum,
)

# So many are kept at most; then the oldest that is not ignored makes room.
MOST = 1000
# The likeness (cosine) of one thing's pictures where no name has two examples to tell.
USUAL_LIKENESS = 0.6

COLUMNS = "id, time, source, digest, ignored, thumbnail, vector"


@dataclass(frozen=True)
class Group:
    """Unknown images that are alike.

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
    sources : tuple of str
        Where its members came from, in the order of ``examples``; empty where it is not known.
    """

    id: int
    count: int
    examples: tuple[int, ...]
    likely: str | None
    ignored: bool
    sources: tuple[str, ...] = ()


@dataclass(frozen=True)
class UnknownImage:
    id: int
    ignored: int
    example: Example


def remember(journal: Journal, example: Example) -> None:
    """Keep one unknown image, or a part of it; the same one is kept once. Inside a transaction."""
    kept = journal.db.rows("SELECT source FROM strangers WHERE digest = ?", example.digest)
    if any(without_box(source)[1] == given_box(example.region) for (source,) in kept):
        return
    if int(journal.db.value("SELECT COUNT(*) FROM strangers")) >= MOST:
        journal.db.run(
            "DELETE FROM strangers WHERE id = (SELECT MIN(id) FROM strangers WHERE ignored = 0)"
        )
    number = int(journal.db.value("SELECT MAX(id) FROM strangers") or 0) + 1
    _keep(journal, number, time.time(), 0, example)


def all_unknowns(journal: Journal) -> list[UnknownImage]:
    """Every one kept, each validated as it is read."""
    found = []
    for number, when, source, digest, ignored, jpeg, vector, own in journal.db.rows(
        f"SELECT {COLUMNS}, seal FROM strangers ORDER BY id"
    ):
        blobs = all(isinstance(value, bytes) for value in (digest, jpeg, vector))
        if not blobs or own != _checksum(number, when, source, digest, ignored, jpeg, vector):
            raise DamagedJournal(f"{journal.db.location} is damaged: an unknown image was altered")
        x = np.frombuffer(vector, dtype="<f4") if len(vector) == 4 * journal.n_features else None
        if x is None or not np.isfinite(x).all() or not isinstance(source, str):
            raise DamagedJournal(f"{journal.db.location} is damaged: an unknown image is not valid")
        embedder = journal.fact("embedder") or ""
        source, box = without_box(source)
        region = None if box is None else TaughtBox(box, found=False)
        example = Example(x, source, digest, jpeg, embedder, region=region)
        found.append(UnknownImage(number, ignored, example))
    return found


def thumbnail_of(journal: Journal, number: int) -> bytes | None:
    """A small JPEG of an unknown image, if one was kept."""
    row = journal.db.row(f"SELECT {COLUMNS}, seal FROM strangers WHERE id = ?", number)
    if row is None:
        return None
    if row[-1] != _checksum(*row[:-1]):
        raise DamagedJournal(f"{journal.db.location} is damaged: an unknown image was altered")
    return bytes(row[5]) or None


def groups(images: list[UnknownImage], likeness: float) -> list[list[UnknownImage]]:
    """Unknown images that are alike, the largest group first; ignored groups stay as they are."""
    ignored: dict[int, list[UnknownImage]] = {}
    for one in images:
        if one.ignored:
            ignored.setdefault(one.ignored, []).append(one)
    free = [one for one in images if not one.ignored]
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


def resembles_ignored(images: list[UnknownImage], x: Array, likeness: float) -> bool:
    """Whether something looks like a group that is to be ignored."""
    members: dict[int, list[NDArray[np.float32]]] = {}
    for one in images:
        if one.ignored:
            members.setdefault(one.ignored, []).append(one.example.vector)
    return any(float(np.mean(unit(np.stack(rows)) @ x)) >= likeness for rows in members.values())


def any_ignored(journal: Journal) -> bool:
    return journal.db.value("SELECT 1 FROM strangers WHERE ignored != 0 LIMIT 1") is not None


def ignore(journal: Journal, group: list[UnknownImage]) -> None:
    """Keep a group quiet; inside a transaction."""
    number = group[0].id
    for one in group:
        when = journal.db.value("SELECT time FROM strangers WHERE id = ?", one.id)
        _keep(journal, one.id, when, number, one.example)


def drop(journal: Journal, group: list[UnknownImage]) -> None:
    """Forget a group; inside a transaction."""
    numbers = [(one.id,) for one in group]
    journal.db.run_many("DELETE FROM strangers WHERE id = ?", numbers)


def nearest_names(model: Model, journal: Journal) -> dict[int, str]:
    """The name that each kept image resembles most."""
    found = all_unknowns(journal)
    if not found or not model.taught:
        return {}
    directions, known = familiarity_of(model).directions, model.means.classes_
    nearest = (unit(np.stack([one.example.vector for one in found])) @ directions.T).argmax(axis=1)
    words = journal.name_ids()
    return {
        one.id: words[int(known[place])] for one, place in zip(found, nearest.tolist(), strict=True)
    }


def drop_erased(journal: Journal, teachings: Collection[int], resembling: Collection[int]) -> int:
    """Drop images that show or name what is about to be erased; how many. Inside a transaction.

    Those are the same pictures, pictures from the same files, from folders that hold nothing else
    or are called like a name that goes, and those said to be ``resembling`` it.
    """
    gone = set(teachings)
    sources, folders, digests, names = set[str](), set[str](), set[bytes](), set[str]()
    for teaching in gone:
        source, digest = journal.origin(teaching)
        digests.add(digest)
        names.add(journal.name_of(teaching))
        if source:
            sources.add(source)
            folders.add(os.path.dirname(source))
    names = {name.casefold() for name in names if set(journal.find(name=name)) <= gone}
    folders = {folder for folder in folders if set(journal.find(source=folder)) <= gone} - {""}
    found = [
        one
        for one in all_unknowns(journal)
        if one.id in resembling
        or one.example.digest in digests
        or one.example.source in sources
        or os.path.dirname(one.example.source) in folders
        or names.intersection(part.casefold() for part in PurePath(one.example.source).parts)
    ]
    drop(journal, found)
    return len(found)


def find_group(found: list[list[UnknownImage]], number: int) -> list[UnknownImage]:
    for group in found:
        if group[0].id == number:
            return group
    known = ", ".join(str(group[0].id) for group in found[:8])
    raise InvalidInput(
        f"there is no group {number} of unknown pictures; there are {known or 'none'}"
    )


def _alike(free: list[UnknownImage], likeness: float) -> list[NDArray[np.bool_]]:
    """Which images are in which group, one mask each."""
    if len(free) < 2:
        return [np.ones(1, dtype=np.bool_)] if free else []
    from scipy.cluster.hierarchy import fcluster, linkage

    X = unit(np.stack([one.example.vector for one in free]))
    distances = np.clip(1.0 - X @ X.T, 0.0, 2.0)[np.triu_indices(len(X), 1)]
    labels = fcluster(linkage(distances, "average"), 1.0 - likeness, "distance")
    return [labels == label for label in np.unique(labels)]


def _keep(journal: Journal, number: int, when: float, ignored: int, example: Example) -> None:
    row = (
        number,
        when,
        with_box(as_kept(example.source), given_box(example.region)),
        example.digest,
        ignored,
        example.thumbnail,
        example.vector.astype("<f4", copy=False).tobytes(),
    )
    journal.db.replace("strangers", *row, _checksum(*row))


def _checksum(
    number: int, when: float, source: str, digest: bytes, ignored: int, jpeg: bytes, vector: bytes
) -> bytes:
    pictures = content_of(jpeg), content_of(vector)
    return row_checksum("strangers", number, when, source, digest, ignored, *pictures)
