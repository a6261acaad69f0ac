"""Stores images that were answered with *unknown* and groups those that show the same thing.

Groups are formed by average linkage on cosine similarity, cut halfway between the similarity of
examples of one name and that of two names. A group can be named, which teaches its members;
dropped; or ignored, which keeps it and answers everything that resembles it with *ignored*.

Each of these changes the *state* of the group's members, and keeps what the states were before, so
that an undo can put them back (operations.py). What was named or dropped stays in its row, set
aside, until its room is needed or something is erased.

The table in the journal is called ``strangers``, as the page calls them; the state is its column
``ignored``. Image files, where they are kept, stand in ``stranger_images``.
"""

import os
import time
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import PurePath

import numpy as np
from numpy.typing import NDArray

from everlearn.arrays import Array
from everlearn.errors import DamagedJournal, InvalidInput
from everlearn.images.folders import folded
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

# At most this many rows are kept. After that the oldest row that was set aside is deleted or,
# if there is none, the oldest that is not ignored.
MOST = 1000
# States; a number above 0 is that of the group it is ignored with.
FREE, SET_ASIDE = 0, -1
# The highest number that was ever used, once rows were deleted.
NUMBERS_USED = "strangers_used"
# The likeness (cosine) of one thing's pictures where no name has two examples to tell.
USUAL_LIKENESS = 0.6

COLUMNS = "id, time, source, digest, ignored, thumbnail, vector"


@dataclass(frozen=True)
class Group:
    """Similar unknown images.

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
        Where its members came from, in the order of ``examples``; empty where unknown.
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
    rows = journal.db.rows(
        "SELECT id, ignored, source FROM strangers WHERE digest = ?", example.digest
    )
    box = given_box(example.region)
    known = [(number, state) for number, state, at in rows if without_box(at)[1] == box]
    if any(state != SET_ASIDE for _, state in known):
        return
    _delete(journal, [number for number, _ in known])
    if int(journal.db.value("SELECT COUNT(*) FROM strangers")) >= MOST:
        oldest = "SELECT id FROM strangers WHERE ignored <= 0 ORDER BY ignored, id LIMIT 1"
        _delete(journal, [number for (number,) in journal.db.rows(oldest)])
    used = int(journal.fact(NUMBERS_USED) or 0)
    number = max(used, int(journal.db.value("SELECT MAX(id) FROM strangers") or 0)) + 1
    _keep(journal, number, time.time(), FREE, example)
    if example.image:
        own = row_checksum("stranger_images", number, content_of(example.image))
        journal.db.replace("stranger_images", number, example.image, own)


def all_unknowns(journal: Journal) -> list[UnknownImage]:
    """All kept unknown images that are not set aside, validated."""
    return [one for one in every_row(journal) if one.ignored != SET_ASIDE]


def every_row(journal: Journal) -> list[UnknownImage]:
    """All rows, including those set aside, without files (:func:`with_image`)."""
    embedder = journal.fact("embedder") or ""
    found = []
    for number, when, source, digest, ignored, jpeg, vector, own in journal.db.rows(
        f"SELECT {COLUMNS}, seal FROM strangers ORDER BY id"
    ):
        blobs = all(isinstance(value, bytes) for value in (digest, jpeg, vector))
        if not blobs or own != _checksum(number, when, source, digest, ignored, jpeg, vector):
            raise _damaged(journal, "an unknown image was altered")
        x = np.frombuffer(vector, dtype="<f4") if len(vector) == 4 * journal.n_features else None
        if x is None or not np.isfinite(x).all() or not isinstance(source, str):
            raise _damaged(journal, "an unknown image is not valid")
        source, box = without_box(source)
        region = None if box is None else TaughtBox(box, found=False)
        example = Example(x, source, digest, jpeg, embedder, region=region)
        found.append(UnknownImage(number, ignored, example))
    return found


def with_image(journal: Journal, one: UnknownImage) -> Example:
    """An unknown image with its file, where that was kept."""
    if not journal.db.has_table("stranger_images"):
        return one.example
    row = journal.db.row("SELECT file, seal FROM stranger_images WHERE stranger = ?", one.id)
    if row is None:
        return one.example
    file, own = row
    if not isinstance(file, bytes) or own != row_checksum(
        "stranger_images", one.id, content_of(file)
    ):
        raise _damaged(journal, "the file of an unknown image was altered")
    return replace(one.example, image=file)


def require_unknowns(journal: Journal) -> None:
    """Require that unknown images and their files match their checksums."""
    for one in every_row(journal):
        with_image(journal, one)
    query = "SELECT 1 FROM stranger_images WHERE stranger NOT IN (SELECT id FROM strangers) LIMIT 1"
    if journal.db.has_table("stranger_images") and journal.db.row(query) is not None:
        raise _damaged(journal, "there is a file of an unknown image that does not exist")


def thumbnail_of(journal: Journal, number: int) -> bytes | None:
    """A small JPEG of an unknown image, if one was kept."""
    row = journal.db.row(f"SELECT {COLUMNS}, seal FROM strangers WHERE id = ?", number)
    if row is None:
        return None
    if row[-1] != _checksum(*row[:-1]):
        raise _damaged(journal, "an unknown image was altered")
    return bytes(row[5]) or None


def groups(images: list[UnknownImage], likeness: float) -> list[list[UnknownImage]]:
    """Groups of similar images, largest first; ignored groups stay as they are."""
    ignored: dict[int, list[UnknownImage]] = {}
    for one in images:
        if one.ignored:
            ignored.setdefault(one.ignored, []).append(one)
    free = [one for one in images if not one.ignored]
    found = [[free[i] for i in np.flatnonzero(labels)] for labels in _alike(free, likeness)]
    return sorted([*found, *ignored.values()], key=lambda group: (-len(group), group[0].id))


def likeness_of(counts: Array, means: Array, lengths: Array) -> float:
    """Cosine similarity halfway between that within a name and that between names."""
    several = counts > 1
    within = float(np.mean(lengths[several] ** 2)) if several.any() else USUAL_LIKENESS
    if len(counts) < 2:
        return within
    products = means @ means.T
    others = (products.sum() - products.trace()) / (len(means) * (len(means) - 1))
    return 0.5 * (within + float(others))


def resembles_ignored(images: list[UnknownImage], x: Array, likeness: float) -> bool:
    """Whether an example resembles a group that is set to be ignored."""
    members: dict[int, list[NDArray[np.float32]]] = {}
    for one in images:
        if one.ignored:
            members.setdefault(one.ignored, []).append(one.example.vector)
    return any(float(np.mean(unit(np.stack(rows)) @ x)) >= likeness for rows in members.values())


def any_ignored(journal: Journal) -> bool:
    return journal.db.value("SELECT 1 FROM strangers WHERE ignored > 0 LIMIT 1") is not None


def set_states(journal: Journal, states: dict[int, int]) -> dict[int, int]:
    """Give images other states; returns those they had. Inside a transaction.

    Images that were deleted to free space are skipped.
    """
    before = {}
    for number, state in states.items():
        row = journal.db.row(f"SELECT {COLUMNS} FROM strangers WHERE id = ?", number)
        if row is not None:
            before[number] = row[4]
            row = (*row[:4], state, *row[5:])
            journal.db.replace("strangers", *row, _checksum(*row))
    return before


def nearest_names(model: Model, journal: Journal) -> dict[int, str]:
    """The name that each stored image resembles most."""
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
    """Delete images that show or name what is about to be erased; returns how many.

    Those are the same pictures, pictures from the same files, from folders that hold nothing else
    or are called like a name that goes, and those said to be ``resembling`` it; and whatever was
    set aside, for no undo goes beyond an erase.
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
    names = {folded(name) for name in names if set(journal.find(name=name)) <= gone}
    folders = {folder for folder in folders if set(journal.find(source=folder)) <= gone} - {""}
    found = [
        one.id
        for one in every_row(journal)
        if one.id in resembling
        or one.ignored == SET_ASIDE
        or one.example.digest in digests
        or one.example.source in sources
        or os.path.dirname(one.example.source) in folders
        or names.intersection(folded(part) for part in PurePath(one.example.source).parts)
    ]
    _delete(journal, found)
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
    """One boolean mask of members per group."""
    if len(free) < 2:
        return [np.ones(1, dtype=np.bool_)] if free else []
    from scipy.cluster.hierarchy import fcluster, linkage

    X = unit(np.stack([one.example.vector for one in free]))
    distances = np.clip(1.0 - X @ X.T, 0.0, 2.0)[np.triu_indices(len(X), 1)]
    labels = fcluster(linkage(distances, "average"), 1.0 - likeness, "distance")
    return [labels == label for label in np.unique(labels)]


def _delete(journal: Journal, numbers: list[int]) -> None:
    """Remove images for good; a number is never used twice, so that no undo finds another image."""
    if not numbers:
        return
    used = int(journal.fact(NUMBERS_USED) or 0)
    journal.set_fact(NUMBERS_USED, str(max(used, *numbers)))
    rows = [(number,) for number in numbers]
    journal.db.run_many("DELETE FROM strangers WHERE id = ?", rows)
    journal.db.run_many("DELETE FROM stranger_images WHERE stranger = ?", rows)


def drop_all(journal: Journal) -> None:
    """Remove every image for good; inside a transaction."""
    _delete(journal, [number for (number,) in journal.db.rows("SELECT id FROM strangers")])


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


def _damaged(journal: Journal, what: str) -> DamagedJournal:
    return DamagedJournal(
        f"{journal.db.location} is damaged: {what}; restore it from a backup (everlearn restore)"
    )
