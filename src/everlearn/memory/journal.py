"""The journal: what was taught, in order, in one SQLite file. It is the truth.

Teachings are rows that never change but for what they are called and whether they still count.
Every change to what counts is an entry of the *log*, a teaching with a sign:

    teach       +1 the new teaching
    forget      −1 a teaching that counts
    rename into a name that exists   −1 under the old name, +1 under the new
    undo        the entries of the last operation, signs reversed

A model is a fold over the log, so it can be rebuilt at any time, and a model that has followed the
log up to a position needs only what came after. The log is folded in *windows* of ``WINDOW``
positions, always the same ones: two folds of the same log do the same arithmetic in the same order
and agree to the last bit, wherever a snapshot let them start.
"""

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from everlearn.errors import NothingToUndo, UnknownLabel
from everlearn.memory.database import Database

WINDOW = 256
FILE = "journal.sqlite"

Vectors = NDArray[np.float32]
NameIds = NDArray[np.int64]


@dataclass(frozen=True)
class Example:
    """What is written down of one teaching; ``embedder`` is empty for a vector from outside."""

    vector: Vectors
    source: str
    digest: bytes
    thumbnail: bytes = b""
    embedder: str = ""


@dataclass(frozen=True)
class NameRecord:
    """What is known of a name: how many teachings count, and when the last one came."""

    count: int
    last_taught: float


@dataclass(frozen=True)
class Run:
    """Consecutive log entries of one sign within one window."""

    sign: int
    vectors: Vectors
    names: NameIds


class Journal:
    """One SQLite file; one that writes, any number that read.

    Parameters
    ----------
    folder : Path
    write : bool
        Open for teaching. The caller sees to it that there is one such journal at a time.
    """

    def __init__(self, folder: Path, *, write: bool) -> None:
        self.writes = write
        self._db = Database(folder / FILE, write=write)

    def close(self) -> None:
        self._db.close()

    def transaction(self) -> AbstractContextManager[None]:
        """All changes inside happen, or none; they are on disk when this returns."""
        return self._db.transaction()

    def one_view(self) -> AbstractContextManager[None]:
        """Whatever is read inside belongs to one moment, though somebody else may be writing."""
        return self._db.one_view()

    def checkpoint(self) -> None:
        """Bring everything from the write-ahead log into the file itself."""
        self._db.checkpoint()

    # Facts.

    def fact(self, key: str) -> str | None:
        value = self._db.value("SELECT value FROM facts WHERE key = ?", key)
        return None if value is None else str(value)

    def set_fact(self, key: str, value: str) -> None:
        self._db.run("INSERT OR REPLACE INTO facts VALUES (?, ?)", key, value)

    @property
    def epoch(self) -> int:
        """Counts how often the history before now was replaced; snapshots of others are void."""
        return int(self.fact("epoch") or 0)

    @property
    def renames(self) -> int:
        """Counts how often a name got another word."""
        return int(self.fact("renames") or 0)

    # Reading.

    @property
    def last_position(self) -> int:
        return int(self._db.value("SELECT MAX(position) FROM log") or 0)

    def names(self) -> dict[str, NameRecord]:
        """Every name that something counts for, sorted."""
        rows = self._db.rows(
            "SELECT names.name, COUNT(*), MAX(time) FROM teachings "
            "JOIN names ON names.id = teachings.name WHERE position IS NOT NULL "
            "GROUP BY teachings.name ORDER BY names.name"
        )
        return {name: NameRecord(count, last) for name, count, last in rows}

    def name_ids(self) -> dict[int, str]:
        return dict(self._db.rows("SELECT id, name FROM names"))

    def find_name(self, name: str) -> int | None:
        found = self._db.value("SELECT id FROM names WHERE name = ?", name)
        return None if found is None else int(found)

    def counts(self, name: str, digest: bytes) -> bool:
        """Whether this example already counts under this name."""
        query = (
            "SELECT 1 FROM teachings JOIN names ON names.id = teachings.name "
            "WHERE digest = ? AND names.name = ? AND position IS NOT NULL"
        )
        return self._db.value(query, digest, name) is not None

    def find(
        self, *, name: str | None = None, source: str | None = None, digest: bytes | None = None
    ) -> list[int]:
        """The teachings that count and have this name, source (or folder of sources), digest."""
        conditions, values = ["position IS NOT NULL"], list[str | bytes]()
        if name is not None:
            conditions.append("name = (SELECT id FROM names WHERE name = ?)")
            values.append(name)
        if source is not None:
            # A folder stands for all that lies in it: from its separator to the next character.
            folder = source.rstrip(os.sep)
            conditions.append("(source = ? OR (source >= ? AND source < ?))")
            values += [source, folder + os.sep, folder + chr(ord(os.sep) + 1)]
        if digest is not None:
            conditions.append("digest = ?")
            values.append(digest)
        query = f"SELECT id FROM teachings WHERE {' AND '.join(conditions)} ORDER BY id"
        return [row[0] for row in self._db.rows(query, *values)]

    def taken_back_after(self, position: int) -> bool:
        """Whether anything was taken back after a position of the log."""
        query = "SELECT 1 FROM log WHERE sign = -1 AND position > ? LIMIT 1"
        return self._db.value(query, position) is not None

    def runs(self, after: int, through: int) -> Iterator[Run]:
        """The log between two positions, window by window."""
        query = (
            "SELECT log.sign, log.name, vector FROM log "
            "JOIN teachings ON teachings.id = log.teaching "
            "WHERE log.position > ? AND log.position <= ? ORDER BY log.position"
        )
        yield from self._windowed(query, after, through)

    def counting_runs(self, after: int, through: int) -> Iterator[Run]:
        """As :meth:`runs`, but only what still counts: no entry takes anything back."""
        query = (
            "SELECT 1, name, vector FROM teachings "
            "WHERE position > ? AND position <= ? ORDER BY position"
        )
        yield from self._windowed(query, after, through)

    def sample(self, size: int) -> tuple[Vectors, NameIds]:
        """At most ``size`` of the teachings that count, scattered over all, always the same."""
        rows = self._db.rows(
            "SELECT vector, name FROM teachings JOIN (SELECT id AS chosen FROM teachings "
            "WHERE position IS NOT NULL ORDER BY (id * 2654435761) % 4294967296 LIMIT ?) "
            "ON id = chosen ORDER BY id",
            size,
        )
        return _matrix([row[0] for row in rows]), np.array([row[1] for row in rows], dtype=np.int64)

    def examples(self) -> Iterator[tuple[str, Example]]:
        """Everything that counts, in the order it was taught."""
        query = (
            "SELECT names.name, vector, source, digest, jpeg FROM teachings "
            "JOIN names ON names.id = teachings.name "
            "LEFT JOIN thumbnails ON teaching = teachings.id "
            "WHERE position IS NOT NULL ORDER BY position"
        )
        embedder = self.fact("embedder") or ""
        for name, vector, source, digest, jpeg in self._db.each(query):
            yield name, Example(_matrix([vector])[0], source, digest, jpeg or b"", embedder)

    # Writing, always inside a transaction.

    def begin(self, kind: str) -> int:
        """A new operation."""
        return self._db.run("INSERT INTO operations (kind, time) VALUES (?, ?)", kind, time.time())

    def add(self, operation: int, name: str, example: Example) -> int:
        """One teaching more; returns its number."""
        named = self.find_name(name)
        if named is None:
            named = self._db.run("INSERT INTO names (name) VALUES (?)", name)
        teaching = self._db.run(
            "INSERT INTO teachings (name, time, source, digest, vector) VALUES (?, ?, ?, ?, ?)",
            named,
            time.time(),
            example.source,
            example.digest,
            example.vector.astype("<f4", copy=False).tobytes(),
        )
        if example.thumbnail:
            self._db.run("INSERT INTO thumbnails VALUES (?, ?)", teaching, example.thumbnail)
        self._enter(operation, teaching, named, +1)
        return teaching

    def take_back(self, operation: int, teachings: Iterable[int]) -> None:
        """These teachings no longer count."""
        for teaching in teachings:
            named = self._db.value("SELECT name FROM teachings WHERE id = ?", teaching)
            self._enter(operation, teaching, named, -1)

    def rename(self, old: str, new: str) -> None:
        """Call a name something else; where the new name exists, the two become one."""
        teachings = self.find(name=old)
        named, into = self.find_name(old), self.find_name(new)
        if named is None or not teachings:
            known = ", ".join(repr(name) for name in list(self.names())[:8])
            raise UnknownLabel(f"{old!r} was never taught; known are {known or 'none yet'}")
        operation = self.begin("rename")
        if into is None:
            self._call(named, new)
            self._db.run(
                "UPDATE operations SET name = ?, called = ? WHERE id = ?", named, old, operation
            )
            return
        for teaching in teachings:
            self._enter(operation, teaching, named, -1)
            self._enter(operation, teaching, into, +1)

    def undo(self) -> str:
        """Reverse the last operation; returns which kind it was."""
        last = self._db.rows(
            "SELECT id, kind, name, called FROM operations WHERE undone = 0 "
            "ORDER BY id DESC LIMIT 1"
        )
        if not last:
            raise NothingToUndo("nothing was taught, forgotten or renamed that could be undone")
        operation, kind, named, called = last[0]
        if called is not None:
            self._call(named, called)
        entries = self._db.rows(
            "SELECT teaching, name, sign FROM log WHERE operation = ? ORDER BY position DESC",
            operation,
        )
        for teaching, entered_as, sign in entries:
            self._enter(operation, teaching, entered_as, -sign)
        self._db.run("UPDATE operations SET undone = 1 WHERE id = ?", operation)
        return str(kind)

    def erase(self, teachings: Iterable[int]) -> None:
        """Delete teachings from the history itself: no trace is left, nothing can be undone."""
        ids = [(teaching,) for teaching in teachings]
        for table, column in (("log", "teaching"), ("thumbnails", "teaching"), ("teachings", "id")):
            self._db.run_many(f"DELETE FROM {table} WHERE {column} = ?", ids)
        self._db.run(
            "DELETE FROM names WHERE id NOT IN (SELECT name FROM teachings) "
            "AND id NOT IN (SELECT name FROM log)"
        )
        self._db.run(
            "DELETE FROM operations WHERE id NOT IN (SELECT operation FROM log) "
            "AND (name IS NULL OR name NOT IN (SELECT id FROM names))"
        )

    # Inside.

    def _call(self, named: int, name: str) -> None:
        """Change the word for a name; if a name nothing counts for has it, the two swap."""
        self.set_fact("renames", str(self.renames + 1))
        other = self.find_name(name)
        word = self._db.value("SELECT name FROM names WHERE id = ?", named)
        if other is not None:
            self._db.run("UPDATE names SET name = '' WHERE id = ?", other)
        self._db.run("UPDATE names SET name = ? WHERE id = ?", name, named)
        if other is not None:
            self._db.run("UPDATE names SET name = ? WHERE id = ?", word, other)

    def _enter(self, operation: int, teaching: int, named: int, sign: int) -> None:
        position = self._db.run(
            "INSERT INTO log (operation, teaching, name, sign) VALUES (?, ?, ?, ?)",
            operation,
            teaching,
            named,
            sign,
        )
        self._db.run(
            "UPDATE teachings SET position = ?, name = ? WHERE id = ?",
            position if sign > 0 else None,
            named,
            teaching,
        )

    def _windowed(self, query: str, after: int, through: int) -> Iterator[Run]:
        for start in range(after // WINDOW * WINDOW, through, WINDOW):
            rows = self._db.rows(query, max(after, start), min(through, start + WINDOW))
            for sign, entries in groupby(rows, key=lambda row: row[0]):
                _, names, vectors = zip(*entries, strict=True)
                yield Run(sign, _matrix(vectors), np.array(names, dtype=np.int64))


def _matrix(blobs: Sequence[bytes]) -> Vectors:
    if not blobs:
        return np.empty((0, 0), dtype=np.float32)
    return np.frombuffer(b"".join(blobs), dtype="<f4").reshape(len(blobs), -1)
