"""Another network, the same Memory: every vector made anew, all at once.

The images come from the journal where they were kept (``keep_images="image"``), else from the files
they were taught from, if those are still the same (sha256). New vectors are collected in a file of
their own beside the journal; killed, the work goes on there the next time. Only when all are there
does one transaction put them in the place of the old ones and write the log's chain anew. Teachings
whose image can no longer be read are kept out, entries and all, and reported.
"""

import contextlib
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from everlearn.errors import EverlearnError, NeverLearned, NotFinite
from everlearn.images.batches import Embedded, embed_sources
from everlearn.images.decode import Limits, read_bytes
from everlearn.images.embedders import Embedder
from everlearn.memory.insight.influence import Influence
from everlearn.memory.model.feature_map import power_and_learner
from everlearn.memory.model.head import mapped_features, unit
from everlearn.memory.storage.checksums import BEGINNING, content_of, linked, row_checksum
from everlearn.memory.storage.interface import Caches
from everlearn.memory.storage.journal import Journal

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
        Teachings whose image could no longer be read; they no longer count.
    """

    embedder: str
    done: int
    left_out: tuple[tuple[int, str], ...]


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
    """

    embedder: str
    accuracy: float
    teachings: int
    left_out: int


def embed_anew(
    caches: Caches, journal: Journal, embedder: Embedder, limits: Limits, progress: Progress | None
) -> dict[int, bytes]:
    """New vectors by teaching, of all that can be read; what an earlier run made is used."""
    rows = journal.db.rows("SELECT id, source, digest FROM teachings ORDER BY id")
    found: dict[int, bytes] = {}
    with contextlib.closing(caches.collected(_key(embedder))) as side:
        known = side.known()
        todo = []
        for number, source, digest in rows:
            if digest in known:
                found[number] = known[digest]
            else:
                todo.append((number, source, digest))
        done = len(found)
        for number, digest, vector in _vectors(journal, embedder, todo, limits):
            done += 1
            if vector is not None:
                found[number] = vector
                side.add(digest, vector)
            if progress is not None:
                progress(done, len(rows))
    return {number: vector for number, vector in found.items() if _fits(vector, embedder)}


def replace_vectors(journal: Journal, embedder: Embedder, vectors: dict[int, bytes]) -> Reembedding:
    """All vectors at once, and the log without what has none; inside a transaction."""
    rows = journal.db.rows(
        "SELECT id, position, name, time, source, digest, pictures FROM teachings ORDER BY id"
    )
    if not any(row[1] is not None and row[0] in vectors for row in rows):
        raise NeverLearned(
            "no image that was taught can be read any more, so there is nothing to embed; nothing "
            "was changed"
        )
    left_out = [(row[0], row[4]) for row in rows if row[0] not in vectors and row[1] is not None]
    gone = [(row[0],) for row in rows if row[0] not in vectors]
    log = journal.db.rows("SELECT operation, teaching, name, sign FROM log ORDER BY position")
    for table in ("log", "teachings", "vectors"):
        journal.db.run(f"DELETE FROM {table}")
    for table in ("thumbnails", "images"):
        journal.db.run_many(f"DELETE FROM {table} WHERE teaching = ?", gone)
    contents = {number: content_of(vector) for number, vector in vectors.items()}
    counting = _write_log(journal, [entry for entry in log if entry[1] in vectors], contents)
    for number, _, name, when, source, digest, pictures in rows:
        if number in vectors:
            place, content = counting.get(number), contents[number]
            values = (number, place, name, when, source, digest, content, pictures)
            journal.db.run(
                "INSERT INTO teachings VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                *values,
                row_checksum("teachings", *values),
            )
            journal.db.run("INSERT INTO vectors VALUES (?, ?)", number, vectors[number])
    journal.db.run("DELETE FROM strangers")
    journal.set_fact("embedder", embedder.name)
    journal.set_fact("n_features", str(embedder.n_features))
    return Reembedding(embedder.name, len(counting), tuple(left_out))


def compare(
    journal: Journal, classifier: Any, embedder: Embedder, vectors: dict[int, bytes]
) -> Comparison:
    """Accuracy by leave-one-out with the vectors of another embedder."""
    ids, named, _, _ = journal.everything()
    chosen = [index for index, number in enumerate(ids) if number in vectors]
    if not chosen:
        return Comparison(embedder.name, float("nan"), 0, len(ids))
    X = unit(
        np.frombuffer(b"".join(vectors[ids[i]] for i in chosen), "<f4").reshape(len(chosen), -1)
    )
    y = np.unique(named[chosen], return_inverse=True)[1]
    power, learner = power_and_learner(classifier)
    X = mapped_features(power, X)
    right = Influence(learner.fit(X, y), X, y).all_leave_one_out().argmax(axis=1) == y
    return Comparison(embedder.name, float(right.mean()), len(chosen), len(ids) - len(chosen))


def _vectors(
    journal: Journal, embedder: Embedder, todo: list[tuple[int, str, bytes]], limits: Limits
) -> Iterator[tuple[int, bytes, bytes | None]]:
    readable: list[tuple[int, bytes]] = []

    def images() -> Iterator[bytes]:
        for number, source, digest in todo:
            image = _image(journal, number, source, digest, limits)
            if image is not None:
                readable.append((number, digest))
                yield image

    for done, result in enumerate(embed_sources(embedder, images(), limits=limits)):
        number, digest = readable[done]
        if not isinstance(result, Embedded):
            yield number, digest, None
            continue
        if not np.isfinite(result.vector).all():
            raise NotFinite(f"the embedder {embedder.name!r} gave NaN or infinity; use another")
        yield number, digest, result.vector.astype("<f4", copy=False).tobytes()


def _image(
    journal: Journal, number: int, source: str, digest: bytes, limits: Limits
) -> bytes | None:
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
    return isinstance(vector, bytes) and len(vector) == 4 * embedder.n_features


def _key(embedder: Embedder) -> str:
    """What the vectors of an embedder are collected under."""
    return hashlib.sha256(embedder.name.encode()).hexdigest()[:16]
