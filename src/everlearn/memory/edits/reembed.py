"""Another network, the same Memory: every vector made anew, all at once.

The images come from the journal where they were kept (``keep_images="image"``), else from the files
they were taught from, if those are still the same (sha256). New vectors are collected in a file of
their own beside the journal; killed, the work goes on there the next time. Only when all are there
does one transaction put them in the place of the old ones and write the log's chain anew. Where an
image can no longer be read nothing is changed, unless the caller says that such teachings may go;
they are then kept out, entries and all, and reported. It is one operation, which can be undone
(before_reembed.py).

Boxes that the user gave stay as they are; those that were found are found anew, as the mode says
that pictures are looked at in (regions/looking.py).
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
from everlearn.memory.storage.regions import (
    keep_box,
    keep_proposals,
    packed,
    taught_boxes,
    unpacked,
)
from everlearn.memory.storage.rows import (
    BEGINNING,
    PictureProposals,
    TaughtBox,
    content_of,
    given_box,
    linked,
    row_checksum,
)
from everlearn.memory.storage.schema import PICTURES
from everlearn.regions.boxes import Box
from everlearn.regions.looking import Looker, Region, Sight

# How many teachings that cannot be read a message names.
NAMED = 5

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Reembedding:
    """What became of the teachings.

    Attributes
    ----------
    embedder : str
    done : int
        How many have a new vector.
    left_out : tuple of (id, source)
        Teachings whose image could no longer be read; they no longer count, until an undo.
    """

    embedder: str
    done: int
    left_out: tuple[tuple[int, str], ...]


@dataclass(frozen=True)
class Cost:
    """What an embedder costs.

    Attributes
    ----------
    milliseconds : float
        Of one core for one picture.
    switch_seconds : float
        To embed anew what has to be, on all cores.
    megabytes : float
        On disk: vectors, and statistics in a snapshot.
    """

    milliseconds: float
    switch_seconds: float
    megabytes: float


@dataclass(frozen=True)
class Comparison:
    """How well a Memory would know its names with an embedder.

    Attributes
    ----------
    embedder : str
    accuracy : float
        By leave-one-out over all teachings whose image can be read.
    teachings, left_out : int
        How many could be read, and how many could not.
    regions : str
        Which part of a picture was meant where no box was given.
    cost : Cost, optional
        What a switch to it takes.
    """

    embedder: str
    accuracy: float
    teachings: int
    left_out: int
    regions: str = "whole"
    cost: Cost | None = None


@dataclass(frozen=True)
class Anew:
    """What a teaching will be: its vector, the part of the picture, and what else was seen."""

    vector: bytes
    region: TaughtBox | None = None
    thumbnail: bytes = b""
    proposals: PictureProposals | None = None


def embed_anew(
    caches: Caches,
    journal: Journal,
    embedder: Embedder,
    limits: Limits,
    progress: Progress | None,
    mode: str = "whole",
) -> dict[int, Anew]:
    """New vectors by teaching, of all that can be read; what an earlier run made is used."""
    rows = journal.db.rows("SELECT id, source, digest FROM teachings ORDER BY id")
    boxes = {number: given_box(taught) for number, taught in taught_boxes(journal).items()}
    found: dict[int, Anew] = {}
    with contextlib.closing(caches.collected(_key(embedder, mode))) as side:
        known = _believed(side.known(), embedder)
        todo = []
        for number, source, digest in rows:
            wanted = Wanted(number, source, digest, boxes.get(number))
            if wanted.key in known:
                found[number] = known[wanted.key]
            else:
                todo.append(wanted)
        done = len(found)
        for wanted, anew in _looked_at(journal, embedder, todo, limits, mode):
            done += 1
            if anew is not None:
                found[wanted.number] = anew
                side.add(wanted.key, _written(anew))
            if progress is not None:
                progress(done, len(rows))
    return {number: anew for number, anew in found.items() if _fits(anew.vector, embedder)}


def require_all_there(journal: Journal, vectors: Collection[int]) -> None:
    """Refuse where teachings that count have no new vector."""
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
        f"{more}{names}. Nothing was changed. If files were moved, say where to: everlearn "
        "relocate OLD NEW; to go on without these teachings: reembed(..., drop=True), or --yes",
        len(missing),
    )


def replace_vectors(
    journal: Journal, embedder: Embedder, anew: dict[int, Anew], mode: str = "whole"
) -> Reembedding:
    """All vectors at once, and the log without what has none; inside a transaction."""
    rows = journal.db.rows(
        "SELECT id, position, name, time, source, digest, pictures FROM teachings ORDER BY id"
    )
    if not any(row[1] is not None and row[0] in anew for row in rows):
        raise NeverLearned(
            "no image that was taught can be read any more, so there is nothing to embed; nothing "
            "was changed"
        )
    left_out = [(row[0], row[4]) for row in rows if row[0] not in anew and row[1] is not None]
    gone = [(row[0],) for row in rows if row[0] not in anew]
    log = journal.db.rows("SELECT operation, teaching, name, sign FROM log ORDER BY position")
    for table in ("log", "teachings", "vectors", "boxes", "proposals"):
        journal.db.run(f"DELETE FROM {table}")
    for table in ("thumbnails", "images"):
        journal.db.run_many(f"DELETE FROM {table} WHERE teaching = ?", gone)
    contents = {number: content_of(new.vector) for number, new in anew.items()}
    counting = _write_log(journal, [entry for entry in log if entry[1] in anew], contents)
    journal.set_fact("embedder", embedder.name)
    journal.set_fact("n_features", str(embedder.n_features))
    journal.set_fact("regions", mode)
    for number, _, name, when, source, digest, pictures in rows:
        if number in anew:
            pictures = _replace_parts(journal, number, digest, pictures, anew[number])
            place, content = counting.get(number), contents[number]
            values = (number, place, name, when, source, digest, content, pictures)
            journal.db.run(
                "INSERT INTO teachings VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                *values,
                row_checksum("teachings", *values),
            )
            journal.db.run("INSERT INTO vectors VALUES (?, ?)", number, anew[number].vector)
    operations.record_reembed(journal, len(counting))
    drop_all(journal)
    return Reembedding(embedder.name, len(counting), tuple(left_out))


def _replace_parts(journal: Journal, number: int, digest: bytes, pictures: int, new: Anew) -> int:
    """Box, thumbnail and proposals of a teaching; which pictures are kept of it now."""
    pictures &= ~PICTURES["boxes"]
    if new.region is not None:
        pictures |= PICTURES["boxes"]
        keep_box(journal, number, new.region)
    if new.proposals is not None:
        keep_proposals(journal, digest, new.proposals)
    if new.thumbnail and pictures & PICTURES["thumbnails"]:
        own = row_checksum("thumbnails", number, content_of(new.thumbnail))
        row = number, new.thumbnail, own
        journal.db.replace("thumbnails", *row)
    return pictures


def is_collected(caches: Caches, embedder: Embedder) -> bool:
    """Whether an earlier run collected vectors of an embedder, of whole pictures."""
    with contextlib.closing(caches.collected(_key(embedder, "whole"))) as side:
        return bool(side.known())


def collect(
    caches: Caches, journal: Journal, embedder: Embedder, vectors: dict[int, Vectors]
) -> None:
    """Keep new vectors of whole pictures, by teaching, as if :func:`embed_anew` had made them."""
    digests = dict(journal.db.rows("SELECT id, digest FROM teachings"))
    with contextlib.closing(caches.collected(_key(embedder, "whole"))) as side:
        for number, vector in vectors.items():
            side.add(digests[number], _written(Anew(vector.astype("<f4").tobytes())))


def compare(
    journal: Journal,
    classifier: Any,
    embedder: Embedder,
    anew: dict[int, Anew],
    mode: str = "whole",
    cost: Cost | None = None,
) -> Comparison:
    """Accuracy by leave-one-out with the vectors of another embedder, or of other parts."""
    ids, named, _, _ = journal.everything()
    chosen = [index for index, number in enumerate(ids) if number in anew]
    if not chosen:
        return Comparison(embedder.name, float("nan"), 0, len(ids), mode, cost)
    rows = b"".join(anew[ids[i]].vector for i in chosen)
    X = unit(np.frombuffer(rows, "<f4").reshape(len(chosen), -1))
    y = np.unique(named[chosen], return_inverse=True)[1]
    power, learner = power_and_learner(classifier)
    X = mapped_features(power, X)
    right = Influence(learner.fit(X, y), X, y).all_leave_one_out().argmax(axis=1) == y
    left_out = len(ids) - len(chosen)
    return Comparison(embedder.name, float(right.mean()), len(chosen), left_out, mode, cost)


@dataclass(frozen=True)
class Wanted:
    """A teaching to be looked at again."""

    number: int
    source: str
    digest: bytes
    box: Box | None

    @property
    def key(self) -> bytes:
        """By which the same picture and box are found again."""
        return self.digest + (b"" if self.box is None else np.array(self.box, "<f8").tobytes())


def _looked_at(
    journal: Journal, embedder: Embedder, todo: list[Wanted], limits: Limits, mode: str
) -> Iterator[tuple[Wanted, Anew | None]]:
    """Whole pictures as batches, parts one by one; ``None`` for what cannot be read."""
    plain = [wanted for wanted in todo if wanted.box is None and mode == "whole"]
    parts = [wanted for wanted in todo if wanted.box is not None or mode != "whole"]
    readable: list[Wanted] = []

    def images(some: list[Wanted]) -> Iterator[bytes]:
        readable.clear()
        for wanted in some:
            image = taught_image(journal, wanted.number, wanted.source, wanted.digest, limits)
            if image is not None:
                readable.append(wanted)
                yield image

    whole = embed_sources(embedder, images(plain), limits=limits) if plain else iter(())
    for done, result in enumerate(whole):
        yield readable[done], _anew(embedder, result)
    regions = (Region(image, readable[-1].box) for image in images(parts))
    for done, seen in enumerate(Looker(embedder, limits, mode).look_many(regions)):
        yield readable[done], _anew(embedder, seen)


def _anew(embedder: Embedder, seen: Embedded | Sight | Unreadable) -> Anew | None:
    if isinstance(seen, Unreadable):
        return None
    if not np.isfinite(seen.vector).all():
        raise NotFinite(f"the embedder {embedder.name!r} gave NaN or infinity; use another")
    vector = seen.vector.astype("<f4", copy=False).tobytes()
    if isinstance(seen, Embedded):
        return Anew(vector, None, seen.thumbnail)
    region = None if seen.box is None else TaughtBox(seen.box, seen.found)
    proposals = None
    if seen.proposals is not None and seen.proposal_vectors is not None:
        proposals = PictureProposals(seen.proposals, seen.proposal_vectors)
    return Anew(vector, region, seen.thumbnail, proposals)


def taught_image(
    journal: Journal, number: int, source: str, digest: bytes, limits: Limits
) -> bytes | None:
    """The image file of a teaching: as kept in the journal, or from its source if unchanged."""
    kept = journal.image(number)
    if kept is not None:
        return kept
    if not source:
        return None
    try:
        data = read_bytes(source, limits)
    except EverlearnError:
        return None
    return data if hashlib.sha256(data).digest() == digest else None


def _write_log(
    journal: Journal, entries: list[tuple[int, int, int, int]], contents: dict[int, bytes]
) -> dict[int, int]:
    """The log anew, with its chain; by which position each teaching counts."""
    chain, rows, counting = BEGINNING, [], {}
    for position, (operation, teaching, name, sign) in enumerate(entries, start=1):
        entry = position, operation, teaching, name, sign
        chain = linked(chain, *entry, contents[teaching])
        rows.append((*entry, chain))
        if sign > 0:
            counting[teaching] = position
        else:
            counting.pop(teaching, None)
    journal.db.run_many("INSERT INTO log VALUES (?, ?, ?, ?, ?, ?)", rows)
    return counting


def _fits(vector: object, embedder: Embedder) -> bool:
    if not isinstance(vector, bytes) or len(vector) != 4 * embedder.n_features:
        return False
    return bool(np.isfinite(np.frombuffer(vector, dtype="<f4")).all())


def _key(embedder: Embedder, mode: str) -> str:
    """What the vectors of an embedder and mode are collected under."""
    return hashlib.sha256(f"{embedder.name} {mode}".encode()).hexdigest()[:16]


def _written(anew: Anew) -> bytes:
    """All of it as bytes that :func:`_read_back` reads."""
    parts = anew.vector, anew.thumbnail, packed(anew.region, anew.proposals)
    return struct.pack("<3Q", *map(len, parts)) + b"".join(parts)


def _believed(collected: dict[bytes, bytes], embedder: Embedder) -> dict[bytes, Anew]:
    """What was collected, but for what cannot be what this embedder made."""
    found = {}
    for key, data in collected.items():
        try:
            anew = _read_back(data)
        except (ValueError, KeyError, TypeError, OverflowError, struct.error):
            continue
        beside = anew.proposals
        if beside is not None and beside.vectors.shape[1] != embedder.n_features:
            continue
        if _fits(anew.vector, embedder):
            found[key] = anew
    return found


def _read_back(data: bytes) -> Anew:
    first, second, _ = struct.unpack_from("<3Q", data)
    vector, rest = data[24 : 24 + first], data[24 + first :]
    region, proposals = unpacked(rest[second:])
    return Anew(vector, region, rest[:second], proposals)
