"""The log, read in order: what a model is folded from, and the teachings that count at its end.

A model is a fold over the log, so it can be rebuilt at any time, and a model at some position needs
only the entries after it. The log is folded in *windows* of ``WINDOW`` positions, which begin at
multiples of it. Two folds of the same log therefore do the same arithmetic in the same order and
agree to the last bit, whichever snapshot they started from (model.py handles the last window while
it is incomplete).

The chain of the entries, and the digest and length of every vector, are checked as they are read.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np

from everlearn.memory.storage.interface import damaged_journal
from everlearn.memory.storage.journal import Journal
from everlearn.memory.storage.regions import proposals_of, taught_boxes
from everlearn.memory.storage.rows import (
    Example,
    LogRun,
    NameIds,
    Vectors,
    content_digest,
    next_chain,
)

WINDOW = 256


def runs(journal: Journal, after: int, through: int, step: int = WINDOW) -> Iterator[LogRun]:
    """The log between two positions in runs of at most ``step`` entries; checks its chain."""
    query = (
        "SELECT log.sign, log.name, vector, content, log.position, operation, log.teaching, "
        "chain FROM log JOIN teachings ON teachings.id = log.teaching "
        "LEFT JOIN vectors ON vectors.teaching = log.teaching "
        "JOIN names ON names.id = log.name "
        "WHERE log.position > ? AND log.position <= ? ORDER BY log.position"
    )
    chain = journal.chain_at(after)
    for start in range(after // step * step, through, step):
        first, last = max(after, start), min(through, start + step)
        rows = journal.db.rows(query, first, last)
        if len(rows) != last - first:
            raise damaged_journal(
                journal.db, f"entries {first + 1} to {last} of the log are not complete"
            )
        for sign, name, _, content, position, operation, teaching, stored in rows:
            entry = position, operation, teaching, name, sign
            chain = next_chain(chain or b"", *entry, content)
            if chain != stored:
                raise damaged_journal(journal.db, f"entry {position} of the log was altered")
        yield from _runs_of_one_sign(journal, rows)


def counting_runs(
    journal: Journal, after: int, through: int, step: int = WINDOW
) -> Iterator[LogRun]:
    """As :func:`runs`, but only teachings that still count: no negative signs."""
    query = (
        "SELECT 1, name, vector, content FROM teachings "
        "LEFT JOIN vectors ON vectors.teaching = teachings.id "
        "WHERE position > ? AND position <= ? ORDER BY position"
    )
    for start in range(after // step * step, through, step):
        rows = journal.db.rows(query, max(after, start), min(through, start + step))
        yield from _runs_of_one_sign(journal, rows)


def has_negative_entry_after(journal: Journal, position: int) -> bool:
    """Whether the log after a position has an entry with a negative sign."""
    query = "SELECT 1 FROM log WHERE sign = -1 AND position > ? LIMIT 1"
    return journal.db.value(query, position) is not None


def n_negative_entries_after(journal: Journal, position: int, most: int) -> int:
    """Number of entries with a negative sign after a position, counted up to ``most``."""
    query = "SELECT 1 FROM log WHERE sign = -1 AND position > ? LIMIT ?"
    return int(journal.db.value(f"SELECT COUNT(*) FROM ({query}) AS found", position, most))


def highest_id(journal: Journal) -> int:
    """The highest id of a teaching."""
    return int(journal.db.value("SELECT MAX(id) FROM teachings") or 0)


def counting_among(
    journal: Journal, ids: Sequence[int], through: int
) -> tuple[list[int], NameIds, Vectors]:
    """Those of some teachings that count up to a position: their ids, names and vectors."""
    rows = journal.db.rows(
        "SELECT 1, name, vector, content, id FROM teachings "
        "LEFT JOIN vectors ON vectors.teaching = teachings.id "
        f"WHERE position <= ? AND id IN ({', '.join('?' * len(ids))})",
        through,
        *ids,
    )
    names = np.array([row[1] for row in rows], dtype=np.int64)
    return [row[4] for row in rows], names, _matrix(journal, rows)


def counting_vectors(journal: Journal) -> tuple[list[int], NameIds, list[str], Vectors]:
    """Ids, ids of names, sources and vectors of all teachings that count, in order."""
    rows = journal.db.rows(
        "SELECT 1, name, vector, content, id, source FROM teachings "
        "LEFT JOIN vectors ON vectors.teaching = teachings.id "
        "WHERE position IS NOT NULL ORDER BY position"
    )
    names = np.array([row[1] for row in rows], dtype=np.int64)
    return [row[4] for row in rows], names, [row[5] for row in rows], _matrix(journal, rows)


def counting_examples(journal: Journal) -> Iterator[tuple[str, Example]]:
    """Name and content of all teachings that count, in order."""
    query = (
        "SELECT 1, names.name, vector, content, source, digest, teachings.id FROM teachings "
        "LEFT JOIN vectors ON vectors.teaching = teachings.id "
        "JOIN names ON names.id = teachings.name "
        "WHERE position IS NOT NULL ORDER BY position"
    )
    embedder, boxes = journal.fact("embedder") or "", taught_boxes(journal)
    for row in journal.db.each(query):
        thumbnail, image = journal.thumbnail(row[6]) or b"", journal.image(row[6]) or b""
        regions = boxes.get(row[6]), proposals_of(journal, row[5])
        vector = _matrix(journal, [row])[0]
        yield row[1], Example(vector, row[4], row[5], thumbnail, embedder, image, *regions)


def _runs_of_one_sign(journal: Journal, rows: Sequence[tuple[object, ...]]) -> Iterator[LogRun]:
    for sign, entries in groupby(rows, key=lambda row: row[0]):
        part = list(entries)
        names = np.array([row[1] for row in part], dtype=np.int64)
        yield LogRun(int(sign), _matrix(journal, part), names)


def _matrix(journal: Journal, rows: Sequence[tuple[object, ...]]) -> Vectors:
    """Column 2 of some rows, checked against the digests in column 3."""
    blobs: list[bytes] = [row[2] for row in rows]  # type: ignore[misc]
    if not blobs:
        return np.empty((0, journal.n_features), dtype=np.float32)
    if None in blobs:
        raise damaged_journal(journal.db, "a vector is missing")
    if not all(isinstance(blob, bytes) for blob in blobs):
        raise damaged_journal(journal.db, "a vector is not stored as bytes")
    if any(content_digest(row[2]) != row[3] for row in rows):  # type: ignore[arg-type]
        raise damaged_journal(journal.db, "a vector was altered")
    if {len(blob) for blob in blobs} != {4 * journal.n_features}:
        raise damaged_journal(journal.db, "a vector has the wrong length")
    matrix = np.frombuffer(b"".join(blobs), dtype="<f4").reshape(len(blobs), -1)
    if not np.isfinite(matrix).all():
        raise damaged_journal(journal.db, "a vector holds NaN or infinity")
    return matrix
