"""Re-embeds a Memory: recomputes every vector with another network, all or nothing.

The images come from the journal if they were kept there (``keep_images="image"``), otherwise from
the files they were taught from, if those are unchanged (sha256). New vectors are collected in a
separate file beside the journal; if the process is killed, the next call resumes from it. When all
are complete, one transaction replaces the old ones and rewrites the log's hash chain. If an image
can no longer be read nothing changes, unless the caller agrees to drop such teachings; they are
then removed with their entries and reported. The change is one operation, which can be undone
(before_reembed.py).

Boxes given by the user stay; boxes found by the Memory are found again according to the region mode
(regions/region_embedder.py).
"""

import contextlib
import hashlib
import struct
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from everlearn.errors import EverlearnError, NeverLearned, NotFinite, PicturesMissing
from everlearn.images.batches import Embedded, Unreadable, embed_sources
from everlearn.images.decode import Limits, read_bytes
from everlearn.images.embedders import Embedder, Vectors
from everlearn.memory.edits import operations
from everlearn.memory.edits.unknowns import drop_all
from everlearn.memory.insight.influence import Influence
from everlearn.memory.model.feature_map import power_and_learner
from everlearn.memory.model.head import mapped_features, unit
from everlearn.memory.storage.interface import Caches
from everlearn.memory.storage.journal import Journal
from everlearn.memory.storage.log import counting_vectors
from everlearn.memory.storage.regions import (
    given_boxes,
    packed,
    unpacked,
    write_box,
    write_proposals,
)
from everlearn.memory.storage.rows import (
    BEGINNING,
    PictureProposals,
    TaughtBox,
    as_path,
    content_digest,
    next_chain,
    row_checksum,
)
from everlearn.memory.storage.schema import PICTURES
from everlearn.regions.boxes import Box
from everlearn.regions.region_embedder import EmbeddedRegion, Region, RegionEmbedder

# Number of unreadable teachings listed in a message.
NAMED = 5

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Reembedding:
    """Result of re-embedding.

    Attributes
    ----------
    embedder : str
    done : int
        Number of teachings with a new vector.
    left_out : tuple of (id, source)
        Teachings that were dropped because their image could no longer be read; an undo restores
        them.
    """

    embedder: str
    done: int
    left_out: tuple[tuple[int, str], ...]


@dataclass(frozen=True)
class Cost:
    """The cost of an embedder.

    Attributes
    ----------
    milliseconds : float
        Processor time of one core for one picture.
    switch_seconds : float
        Time to embed all images for which a vector is missing, on all cores.
    megabytes : float
        Size of the vectors, and of the statistics in a snapshot.
    """

    milliseconds: float
    switch_seconds: float
    megabytes: float


@dataclass(frozen=True)
class Comparison:
    """How well a Memory would recognise its names with an embedder.

    Attributes
    ----------
    embedder : str
    accuracy : float
        By leave-one-out over all teachings whose image can be read.
    teachings, left_out : int
        Number of images that could be read, and of those that could not.
    regions : str
        Which part of a picture was used where no box was given.
    cost : Cost, optional
        The cost of switching to it.
    """

    embedder: str
    accuracy: float
    teachings: int
    left_out: int
    regions: str = "whole"
    cost: Cost | None = None


@dataclass(frozen=True)
class Reembedded:
    """New content of a teaching: its vector, box, thumbnail, and the picture's proposals."""

    vector: bytes
    region: TaughtBox | None = None
    thumbnail: bytes = b""
    proposals: PictureProposals | None = None


def embed_again(
    caches: Caches,
    journal: Journal,
    embedder: Embedder,
    limits: Limits,
    progress: Progress | None,
    mode: str = "whole",
) -> dict[int, Reembedded]:
    """New vectors by teaching, for every readable image; reuses those of an earlier run."""
    rows = journal.db.rows("SELECT id, source, digest FROM teachings ORDER BY id")
    boxes = given_boxes(journal)
    found: dict[int, Reembedded] = {}
    with contextlib.closing(caches.collected(_key(embedder, mode))) as collected:
        known = _valid(collected.known(), embedder)
        todo = []
        for number, source, digest in rows:
            wanted = Wanted(number, source, digest, boxes.get(number))
            if wanted.key in known:
                found[number] = known[wanted.key]
            else:
                todo.append(wanted)
        done = len(found)
        if progress is not None and done:
            progress(done, len(rows))
        for wanted, reembedded in _embedded(journal, embedder, todo, limits, mode):
            done += 1
            if reembedded is not None:
                found[wanted.number] = reembedded
                collected.add(wanted.key, _serialised(reembedded))
            if progress is not None:
                progress(done, len(rows))
    return {
        number: reembedded
        for number, reembedded in found.items()
        if _fits(reembedded.vector, embedder)
    }


def require_all_there(journal: Journal, vectors: Collection[int]) -> None:
    """Require a new vector for every current teaching."""
    rows = journal.db.rows(
        "SELECT teachings.id, source, names.name FROM teachings "
        "JOIN names ON names.id = teachings.name WHERE position IS NOT NULL ORDER BY teachings.id"
    )
    missing = [row for row in rows if row[0] not in vectors]
    if not missing:
        return
    kept = {row[2] for row in rows if row[0] in vectors}
    lost = sorted({row[2] for row in missing} - kept)
    some = ", ".join(f"{number} ({source or 'no file'})" for number, source, _ in missing[:NAMED])
    more = f" and {len(missing) - NAMED} more" if len(missing) > NAMED else ""
    names = f"; nothing would be left of {', '.join(lost[:NAMED])}" if lost else ""
    raise PicturesMissing(
        f"the pictures of {len(missing)} of {len(rows)} teachings can no longer be read: {some}"
        f"{more}{names}. Nothing was changed. If files were moved, run everlearn relocate OLD "
        "NEW; to go on without these teachings, add --yes, in Python drop=True",
        len(missing),
    )


def replace_vectors(
    journal: Journal, embedder: Embedder, reembedded: dict[int, Reembedded], mode: str = "whole"
) -> Reembedding:
    """Replace all vectors and drop log entries without one; call inside a transaction."""
    rows = journal.db.rows(
        "SELECT id, position, name, time, source, digest, pictures FROM teachings ORDER BY id"
    )
    if not any(row[1] is not None and row[0] in reembedded for row in rows):
        raise NeverLearned(
            "no taught image can be read any more, so there is nothing to embed; nothing "
            "was changed. If files were moved, run everlearn relocate OLD NEW"
        )
    left_out = [(row[0], row[4]) for row in rows if row[0] not in reembedded and row[1] is not None]
    names_left_out = journal.tally([number for number, _ in left_out])
    gone = [(row[0],) for row in rows if row[0] not in reembedded]
    log = journal.db.rows("SELECT operation, teaching, name, sign FROM log ORDER BY position")
    for table in ("log", "teachings", "vectors", "boxes", "proposals"):
        journal.db.run(f"DELETE FROM {table}")
    for table in ("thumbnails", "images"):
        journal.db.run_many(f"DELETE FROM {table} WHERE teaching = ?", gone)
    contents = {number: content_digest(new.vector) for number, new in reembedded.items()}
    counting = _write_log(journal, [entry for entry in log if entry[1] in reembedded], contents)
    journal.set_fact("embedder", embedder.name)
    journal.set_fact("n_features", str(embedder.n_features))
    journal.set_fact("regions", mode)
    for number, _, name, when, source, digest, pictures in rows:
        if number in reembedded:
            pictures = _replace_parts(journal, number, digest, pictures, reembedded[number])
            position, content = counting.get(number), contents[number]
            values = (number, position, name, when, source, digest, content, pictures)
            journal.db.run(
                "INSERT INTO teachings VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                *values,
                row_checksum("teachings", *values),
            )
            journal.db.run("INSERT INTO vectors VALUES (?, ?)", number, reembedded[number].vector)
    operations.record_reembed(journal, len(counting), sorted(names_left_out))
    drop_all(journal)
    return Reembedding(embedder.name, len(counting), tuple(left_out))


def _replace_parts(
    journal: Journal, number: int, digest: bytes, pictures: int, new: Reembedded
) -> int:
    """Write box, thumbnail and proposals of a teaching.

    ``pictures`` are the flags of what is stored beside the vector; returns the new ones.
    """
    pictures &= ~PICTURES["boxes"]
    if new.region is not None:
        pictures |= PICTURES["boxes"]
        write_box(journal, number, new.region)
    if new.proposals is not None:
        write_proposals(journal, digest, new.proposals)
    if new.thumbnail and pictures & PICTURES["thumbnails"]:
        own = row_checksum("thumbnails", number, content_digest(new.thumbnail))
        row = number, new.thumbnail, own
        journal.db.replace("thumbnails", *row)
    return pictures


def is_collected(caches: Caches, embedder: Embedder) -> bool:
    """Whether an earlier run collected vectors of this embedder, of whole pictures."""
    with contextlib.closing(caches.collected(_key(embedder, "whole"))) as collected:
        return bool(collected.known())


def collect(
    caches: Caches, journal: Journal, embedder: Embedder, vectors: dict[int, Vectors]
) -> None:
    """Store new vectors of whole pictures as if :func:`embed_again` had made them."""
    digests = dict(journal.db.rows("SELECT id, digest FROM teachings"))
    with contextlib.closing(caches.collected(_key(embedder, "whole"))) as collected:
        for number, vector in vectors.items():
            reembedded = Reembedded(vector.astype("<f4").tobytes())
            collected.add(digests[number], _serialised(reembedded))


def compare(
    journal: Journal,
    classifier: Any,
    embedder: Embedder,
    reembedded: dict[int, Reembedded],
    mode: str = "whole",
    cost: Cost | None = None,
) -> Comparison:
    """Leave-one-out accuracy with the vectors of another embedder, or of other parts."""
    ids, named, _, _ = counting_vectors(journal)
    chosen = [index for index, number in enumerate(ids) if number in reembedded]
    if not chosen:
        return Comparison(embedder.name, float("nan"), 0, len(ids), mode, cost)
    rows = b"".join(reembedded[ids[i]].vector for i in chosen)
    X = unit(np.frombuffer(rows, "<f4").reshape(len(chosen), -1))
    y = np.unique(named[chosen], return_inverse=True)[1]
    power, learner = power_and_learner(classifier)
    X = mapped_features(power, X)
    blocks = Influence(learner.fit(X, y), X, y).leave_one_out_blocks()
    right = np.concatenate([scores.argmax(axis=1) for _, scores in blocks]) == y
    left_out = len(ids) - len(chosen)
    return Comparison(embedder.name, float(right.mean()), len(chosen), left_out, mode, cost)


@dataclass(frozen=True)
class Wanted:
    """A teaching to be embedded again."""

    number: int
    source: str
    digest: bytes
    box: Box | None

    @property
    def key(self) -> bytes:
        """Identifies the picture and box among collected vectors."""
        return self.digest + (b"" if self.box is None else np.array(self.box, "<f8").tobytes())


def _embedded(
    journal: Journal, embedder: Embedder, todo: list[Wanted], limits: Limits, mode: str
) -> Iterator[tuple[Wanted, Reembedded | None]]:
    """Embed whole pictures in batches, and parts one by one.

    ``None`` stands for pictures that are not where they were or cannot be read.
    """
    plain = [wanted for wanted in todo if wanted.box is None and mode == "whole"]
    parts = [wanted for wanted in todo if wanted.box is not None or mode != "whole"]
    readable: list[Wanted] = []
    gone: list[Wanted] = []

    def images(some: list[Wanted]) -> Iterator[bytes]:
        readable.clear()
        for wanted in some:
            image = taught_image(journal, wanted.number, wanted.source, wanted.digest, limits)
            if image is None:
                gone.append(wanted)
                continue
            readable.append(wanted)
            yield image

    def missing() -> Iterator[tuple[Wanted, None]]:
        while gone:
            yield gone.pop(0), None

    whole = embed_sources(embedder, images(plain), limits=limits) if plain else iter(())
    for done, result in enumerate(whole):
        yield from missing()
        yield readable[done], _reembedded(embedder, result)
    regions = (Region(image, readable[-1].box) for image in images(parts))
    for done, part in enumerate(RegionEmbedder(embedder, limits, mode).embed_many(regions)):
        yield from missing()
        yield readable[done], _reembedded(embedder, part)
    yield from missing()


def _reembedded(
    embedder: Embedder, found: Embedded | EmbeddedRegion | Unreadable
) -> Reembedded | None:
    """The new content of a teaching from the result of embedding; ``None`` if unreadable."""
    if isinstance(found, Unreadable):
        return None
    if not np.isfinite(found.vector).all():
        raise NotFinite(f"the embedder {embedder.name!r} gave NaN or infinity; use another")
    vector = found.vector.astype("<f4", copy=False).tobytes()
    if isinstance(found, Embedded):
        return Reembedded(vector, None, found.thumbnail)
    region = None if found.box is None else TaughtBox(found.box, found.found)
    proposals = None
    if found.proposals is not None and found.proposal_vectors is not None:
        proposals = PictureProposals(found.proposals, found.proposal_vectors)
    return Reembedded(vector, region, found.thumbnail, proposals)


def taught_image(
    journal: Journal, number: int, source: str, digest: bytes, limits: Limits
) -> bytes | None:
    """The image file of a teaching: from the journal, or from its source if unchanged."""
    kept = journal.image(number)
    if kept is not None:
        return kept
    if not source:
        return None
    try:
        data = read_bytes(as_path(source), limits)
    except EverlearnError:
        return None
    return data if hashlib.sha256(data).digest() == digest else None


def image_of_teaching(journal: Journal, number: int, limits: Limits) -> bytes | None:
    """As :func:`taught_image`, by the number of the teaching alone; ``None`` if there is none."""
    found = journal.db.row("SELECT source, digest FROM teachings WHERE id = ?", number)
    return None if found is None else taught_image(journal, number, found[0], found[1], limits)


def _write_log(
    journal: Journal, entries: list[tuple[int, int, int, int]], contents: dict[int, bytes]
) -> dict[int, int]:
    """Rewrite the log with its hash chain; returns the position at which each teaching counts."""
    chain, rows, counting = BEGINNING, [], {}
    for position, (operation, teaching, name, sign) in enumerate(entries, start=1):
        entry = position, operation, teaching, name, sign
        chain = next_chain(chain, *entry, contents[teaching])
        rows.append((*entry, chain))
        if sign > 0:
            counting[teaching] = position
        else:
            counting.pop(teaching, None)
    journal.db.run_many("INSERT INTO log VALUES (?, ?, ?, ?, ?, ?)", rows)
    return counting


def _fits(vector: object, embedder: Embedder) -> bool:
    """Whether these are the bytes of a finite vector of the embedder's length."""
    if not isinstance(vector, bytes) or len(vector) != 4 * embedder.n_features:
        return False
    return bool(np.isfinite(np.frombuffer(vector, dtype="<f4")).all())


def _key(embedder: Embedder, mode: str) -> str:
    """Key under which vectors of an embedder and mode are collected."""
    return hashlib.sha256(f"{embedder.name} {mode}".encode()).hexdigest()[:16]


def _serialised(reembedded: Reembedded) -> bytes:
    """The bytes that :func:`_deserialised` reads."""
    parts = reembedded.vector, reembedded.thumbnail, packed(reembedded.region, reembedded.proposals)
    return struct.pack("<3Q", *map(len, parts)) + b"".join(parts)


def _valid(collected: dict[bytes, bytes], embedder: Embedder) -> dict[bytes, Reembedded]:
    """The collected entries that are valid for this embedder."""
    found = {}
    for key, data in collected.items():
        try:
            reembedded = _deserialised(data)
        except (ValueError, KeyError, TypeError, OverflowError, struct.error):
            continue
        proposals = reembedded.proposals
        if proposals is not None and proposals.vectors.shape[1] != embedder.n_features:
            continue
        if _fits(reembedded.vector, embedder):
            found[key] = reembedded
    return found


def _deserialised(data: bytes) -> Reembedded:
    first, second, _ = struct.unpack_from("<3Q", data)
    vector, rest = data[24 : 24 + first], data[24 + first :]
    region, proposals = unpacked(rest[second:])
    return Reembedded(vector, region, rest[:second], proposals)
