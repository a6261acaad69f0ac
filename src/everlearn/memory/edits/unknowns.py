"""Stores images that were answered with *unknown* and groups those that show the same thing.

Groups are formed by average linkage on cosine similarity, cut halfway between the similarity of
examples of one name and that of two names. A group can be named, which teaches its members;
dropped; or ignored, after which everything that resembles it is answered with *ignored*.

Each of these changes the *state* of the group's members. The operation stores their earlier states,
which an undo restores (operations.py). The rows of named and dropped images are *set aside*: they
are deleted when newer images exceed the limit, or with the next erase.

The table in the journal is called ``strangers``, as on the page; the state is its column
``ignored``. Stored image files are in the table ``stranger_images``.
"""

import os
import time
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import PurePath

import numpy as np
from numpy.typing import NDArray

from everlearn.arrays import Array
from everlearn.errors import InvalidInput
from everlearn.images.names import folded
from everlearn.memory.model.calibrated import familiarity_of
from everlearn.memory.model.head import unit
from everlearn.memory.model.model import Model
from everlearn.memory.storage.interface import damaged_journal
from everlearn.memory.storage.journal import Journal
from everlearn.memory.storage.regions import with_box, without_box
from everlearn.memory.storage.rows import (
    Example,
    TaughtBox,
    as_stored,
    content_digest,
    given_box,
    row_checksum,
)

# At most this many rows are kept. For a further one, the oldest row that was set aside is deleted
# or, if there is none, the oldest that is not ignored.
MOST = 1000
# States. A positive state is the number of the group with which an image is ignored.
FREE, SET_ASIDE = 0, -1
# The fact with the highest number that was ever used; written when rows are deleted.
NUMBERS_USED = "strangers_used"
# Cosine similarity of pictures of one thing, assumed if no name has two examples.
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
    """A kept unknown image; ``ignored`` is its state."""

    id: int
    ignored: int
    example: Example


def remember(journal: Journal, example: Example) -> None:
    """Keep an unknown image, or a part of one, unless it is kept already. Inside a transaction."""
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
        own = row_checksum("stranger_images", number, content_digest(example.image))
        journal.db.replace("stranger_images", number, example.image, own)


def all_unknowns(journal: Journal) -> list[UnknownImage]:
    """All kept unknown images that are not set aside, validated."""
    return [one for one in every_row(journal) if one.ignored != SET_ASIDE]


def every_row(journal: Journal) -> list[UnknownImage]:
    """All images, including those set aside, without their files (:func:`with_image`)."""
    embedder = journal.fact("embedder") or ""
    found = []
    for number, when, source, digest, ignored, jpeg, vector, own in journal.db.rows(
        f"SELECT {COLUMNS}, seal FROM strangers ORDER BY id"
    ):
        blobs = all(isinstance(value, bytes) for value in (digest, jpeg, vector))
        if not blobs or own != _checksum(number, when, source, digest, ignored, jpeg, vector):
            raise damaged_journal(journal.db, "an unknown image was altered")
        x = np.frombuffer(vector, dtype="<f4") if len(vector) == 4 * journal.n_features else None
        if x is None or not np.isfinite(x).all() or not isinstance(source, str):
            raise damaged_journal(journal.db, "an unknown image is not valid")
        source, box = without_box(source)
        region = None if box is None else TaughtBox(box, found=False)
        example = Example(x, source, digest, jpeg, embedder, region=region)
        found.append(UnknownImage(number, ignored, example))
    return found


def with_image(journal: Journal, one: UnknownImage) -> Example:
    """The example of an unknown image, with its file if that was kept."""
    if not journal.db.has_table("stranger_images"):
        return one.example
    row = journal.db.row("SELECT file, seal FROM stranger_images WHERE stranger = ?", one.id)
    if row is None:
        return one.example
    file, own = row
    if not isinstance(file, bytes) or own != row_checksum(
        "stranger_images", one.id, content_digest(file)
    ):
        raise damaged_journal(journal.db, "the file of an unknown image was altered")
    return replace(one.example, image=file)


def require_unknowns(journal: Journal) -> None:
    """Require that unknown images and their files match their checksums."""
    for one in every_row(journal):
        with_image(journal, one)
    query = "SELECT 1 FROM stranger_images WHERE stranger NOT IN (SELECT id FROM strangers) LIMIT 1"
    if journal.db.has_table("stranger_images") and journal.db.row(query) is not None:
        raise damaged_journal(journal.db, "there is a file of an unknown image that does not exist")


def thumbnail_of(journal: Journal, number: int) -> bytes | None:
    """A small JPEG of an unknown image, if one was kept."""
    row = journal.db.row(f"SELECT {COLUMNS}, seal FROM strangers WHERE id = ?", number)
    if row is None:
        return None
    if row[-1] != _checksum(*row[:-1]):
        raise damaged_journal(journal.db, "an unknown image was altered")
    return bytes(row[5]) or None


def groups(images: list[UnknownImage], likeness: float) -> list[list[UnknownImage]]:
    """Groups of similar images, largest first; ignored groups are not formed anew."""
    ignored: dict[int, list[UnknownImage]] = {}
    for one in images:
        if one.ignored:
            ignored.setdefault(one.ignored, []).append(one)
    free = [one for one in images if not one.ignored]
    found = [[free[i] for i in np.flatnonzero(labels)] for labels in _alike(free, likeness)]
    return sorted([*found, *ignored.values()], key=lambda group: (-len(group), group[0].id))


def likeness_of(counts: Array, means: Array, lengths: Array) -> float:
    """Cosine similarity halfway between the mean within names and the mean between names."""
    several = counts > 1
    within = float(np.mean(lengths[several] ** 2)) if several.any() else USUAL_LIKENESS
    if len(counts) < 2:
        return within
    products = means @ means.T
    others = (products.sum() - products.trace()) / (len(means) * (len(means) - 1))
    return 0.5 * (within + float(others))


def resembles_ignored(images: list[UnknownImage], x: Array, likeness: float) -> bool:
    """Whether an example resembles an ignored group."""
    members: dict[int, list[NDArray[np.float32]]] = {}
    for one in images:
        if one.ignored:
            members.setdefault(one.ignored, []).append(one.example.vector)
    return any(float(np.mean(unit(np.stack(rows)) @ x)) >= likeness for rows in members.values())


def any_ignored(journal: Journal) -> bool:
    """Whether any group is ignored."""
    return journal.db.value("SELECT 1 FROM strangers WHERE ignored > 0 LIMIT 1") is not None


def set_states(journal: Journal, states: dict[int, int]) -> dict[int, int]:
    """Set the states of images; returns those they had before. Inside a transaction.

    Images that have been deleted are skipped.
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
    """The name that each kept unknown image resembles most, by the number of the image."""
    found = all_unknowns(journal)
    if not found or not model.taught:
        return {}
    directions, known = familiarity_of(model).directions, model.means.classes_
    nearest = (unit(np.stack([one.example.vector for one in found])) @ directions.T).argmax(axis=1)
    words = journal.names_by_id()
    return {
        one.id: words[int(known[index])] for one, index in zip(found, nearest.tolist(), strict=True)
    }


def drop_erased(journal: Journal, teachings: Collection[int], resembling: Collection[int]) -> int:
    """Delete images that may show what is about to be erased; returns how many.

    These are the same pictures; pictures from the same files, from folders with no other teachings,
    or with a path that contains a completely erased name; and those numbered in ``resembling``.
    Images that were set aside are deleted as well, since no undo goes back beyond an erase.
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


def find_group(groups: list[list[UnknownImage]], number: int) -> list[UnknownImage]:
    """The group of the image with this number.

    Any member is accepted: an image that came since the groups were listed may be the first.
    """
    for group in groups:
        if any(one.id == number for one in group):
            return group
    known = ", ".join(str(group[0].id) for group in groups[:8])
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
    """Delete rows; their numbers are never used again, so that no undo finds another image."""
    if not numbers:
        return
    used = int(journal.fact(NUMBERS_USED) or 0)
    journal.set_fact(NUMBERS_USED, str(max(used, *numbers)))
    rows = [(number,) for number in numbers]
    journal.db.run_many("DELETE FROM strangers WHERE id = ?", rows)
    journal.db.run_many("DELETE FROM stranger_images WHERE stranger = ?", rows)


def drop_all(journal: Journal) -> None:
    """Delete all rows; inside a transaction."""
    _delete(journal, [number for (number,) in journal.db.rows("SELECT id FROM strangers")])


def _keep(journal: Journal, number: int, when: float, ignored: int, example: Example) -> None:
    row = (
        number,
        when,
        with_box(as_stored(example.source), given_box(example.region)),
        example.digest,
        ignored,
        example.thumbnail,
        example.vector.astype("<f4", copy=False).tobytes(),
    )
    journal.db.replace("strangers", *row, _checksum(*row))


def _checksum(
    number: int, when: float, source: str, digest: bytes, ignored: int, jpeg: bytes, vector: bytes
) -> bytes:
    pictures = content_digest(jpeg), content_digest(vector)
    return row_checksum("strangers", number, when, source, digest, ignored, *pictures)
