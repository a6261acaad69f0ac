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

Durability: write-ahead log, ``synchronous=FULL``; a transaction has happened when ``commit``
returns, and not before. The connection that writes is the only one that checkpoints.
"""

import contextlib
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from everlearn.errors import (
    CannotRead,
    CannotWrite,
    DamagedJournal,
    NewerFormat,
    NotALearner,
    NothingToUndo,
    UnknownLabel,
)

FORMAT_VERSION = 1
# "ever" in ASCII: how the file says that it is one of ours.
APPLICATION_ID = 0x65766572
WINDOW = 256
FILE = "journal.sqlite"

DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
DISK = (
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
)

SCHEMA = """
CREATE TABLE facts (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE names (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE);
CREATE TABLE operations (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,            -- teach, forget, rename or merge
    time REAL NOT NULL,            -- seconds since 1970
    undone INTEGER NOT NULL DEFAULT 0,
    name INTEGER,                  -- rename: which name, and what it was called before
    called TEXT
);
CREATE TABLE teachings (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    position INTEGER,              -- of the log entry by which it counts; NULL while it does not
    name INTEGER NOT NULL REFERENCES names,
    time REAL NOT NULL,
    source TEXT NOT NULL,
    digest BLOB NOT NULL,          -- sha256 of the image's bytes, or of the vector
    vector BLOB NOT NULL           -- float32, little-endian
);
CREATE TABLE thumbnails (teaching INTEGER PRIMARY KEY REFERENCES teachings, jpeg BLOB NOT NULL);
CREATE TABLE log (
    position INTEGER PRIMARY KEY AUTOINCREMENT,
    operation INTEGER NOT NULL REFERENCES operations,
    teaching INTEGER NOT NULL REFERENCES teachings,
    name INTEGER NOT NULL REFERENCES names,
    sign INTEGER NOT NULL CHECK (sign IN (1, -1))
);
CREATE INDEX by_position ON teachings (position) WHERE position IS NOT NULL;
CREATE INDEX by_name ON teachings (name, time) WHERE position IS NOT NULL;
CREATE INDEX by_digest ON teachings (digest, name) WHERE position IS NOT NULL;
CREATE INDEX by_source ON teachings (source) WHERE position IS NOT NULL;
CREATE INDEX by_operation ON log (operation);
CREATE INDEX by_teaching ON log (teaching);
CREATE INDEX takings ON log (position) WHERE sign = -1;
"""

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
        self.path = folder / FILE
        self.writes = write
        with self._named_errors():
            self._db = self._connected(write)
            try:
                self._require_ours(new=write and not self._value("PRAGMA schema_version"))
            except BaseException:
                self._db.close()
                raise

    def close(self) -> None:
        self._db.close()

    # Facts.

    def fact(self, key: str) -> str | None:
        with self._named_errors():
            value = self._value("SELECT value FROM facts WHERE key = ?", key)
        return None if value is None else str(value)

    def set_fact(self, key: str, value: str) -> None:
        self._db.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (key, value))

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
        with self._named_errors():
            return int(self._value("SELECT MAX(position) FROM log") or 0)

    def names(self) -> dict[str, NameRecord]:
        """Every name that something counts for, sorted."""
        with self._named_errors():
            rows = self._db.execute(
                "SELECT names.name, COUNT(*), MAX(time) FROM teachings "
                "JOIN names ON names.id = teachings.name WHERE position IS NOT NULL "
                "GROUP BY teachings.name ORDER BY names.name"
            ).fetchall()
        return {name: NameRecord(count, last) for name, count, last in rows}

    def name_ids(self) -> dict[int, str]:
        with self._named_errors():
            return dict(self._db.execute("SELECT id, name FROM names").fetchall())

    def find_name(self, name: str) -> int | None:
        with self._named_errors():
            found = self._value("SELECT id FROM names WHERE name = ?", name)
        return None if found is None else int(found)

    def counts(self, name: str, digest: bytes) -> bool:
        """Whether this example already counts under this name."""
        query = (
            "SELECT 1 FROM teachings JOIN names ON names.id = teachings.name "
            "WHERE digest = ? AND names.name = ? AND position IS NOT NULL"
        )
        with self._named_errors():
            return self._value(query, digest, name) is not None

    def find(
        self, *, name: str | None = None, source: str | None = None, digest: bytes | None = None
    ) -> list[int]:
        """The teachings that count and have this name, source (or folder of sources), digest."""
        conditions, values = ["position IS NOT NULL"], list[Any]()
        if name is not None:
            conditions.append("name = (SELECT id FROM names WHERE name = ?)")
            values.append(name)
        if source is not None:
            # A folder stands for all that lies in it: 0 is the character after /.
            folder = source.rstrip("/") + "/"
            conditions.append("(source = ? OR (source >= ? AND source < ?))")
            values += [source, folder, folder[:-1] + "0"]
        if digest is not None:
            conditions.append("digest = ?")
            values.append(digest)
        query = f"SELECT id FROM teachings WHERE {' AND '.join(conditions)} ORDER BY id"
        with self._named_errors():
            return [row[0] for row in self._db.execute(query, values)]

    def taken_back_after(self, position: int) -> bool:
        """Whether anything was taken back after a position of the log."""
        query = "SELECT 1 FROM log WHERE sign = -1 AND position > ? LIMIT 1"
        with self._named_errors():
            return self._value(query, position) is not None

    def runs(self, after: int, through: int) -> Iterator[Run]:
        """The log between two positions, window by window."""
        query = (
            "SELECT log.position, log.sign, log.name, vector FROM log "
            "JOIN teachings ON teachings.id = log.teaching "
            "WHERE log.position > ? AND log.position <= ? ORDER BY log.position"
        )
        yield from self._windowed(query, after, through)

    def counting_runs(self, after: int, through: int) -> Iterator[Run]:
        """As :meth:`runs`, but only what still counts: no entry takes anything back."""
        query = (
            "SELECT position, 1, name, vector FROM teachings "
            "WHERE position > ? AND position <= ? ORDER BY position"
        )
        yield from self._windowed(query, after, through)

    def sample(self, size: int) -> tuple[Vectors, NameIds]:
        """At most ``size`` of the teachings that count, scattered over all, always the same."""
        query = (
            "SELECT vector, name FROM teachings JOIN (SELECT id AS chosen FROM teachings "
            "WHERE position IS NOT NULL ORDER BY (id * 2654435761) % 4294967296 LIMIT ?) "
            "ON id = chosen ORDER BY id"
        )
        with self._named_errors():
            rows = self._db.execute(query, (size,)).fetchall()
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
        with self._named_errors():
            for name, vector, source, digest, jpeg in self._db.execute(query):
                yield name, Example(_matrix([vector])[0], source, digest, jpeg or b"", embedder)

    @contextlib.contextmanager
    def one_view(self) -> Iterator[None]:
        """Whatever is read inside belongs to one moment, though somebody else may be writing."""
        with self._named_errors():
            self._db.execute("BEGIN")
            try:
                yield
            finally:
                self._db.execute("COMMIT")

    # Writing, always inside a transaction.

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """All of it or nothing; on disk when this returns."""
        with self._named_errors():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                # SQLite has rolled back by itself where the disk was full.
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    def begin(self, kind: str) -> int:
        """A new operation."""
        return self._insert("INSERT INTO operations (kind, time) VALUES (?, ?)", kind, time.time())

    def add(self, operation: int, name: str, example: Example) -> int:
        """One teaching more; returns its number."""
        named = self._named(name)
        teaching = self._insert(
            "INSERT INTO teachings (name, time, source, digest, vector) VALUES (?, ?, ?, ?, ?)",
            named,
            time.time(),
            example.source,
            example.digest,
            example.vector.astype("<f4", copy=False).tobytes(),
        )
        if example.thumbnail:
            self._insert("INSERT INTO thumbnails VALUES (?, ?)", teaching, example.thumbnail)
        self._enter(operation, teaching, named, +1)
        return teaching

    def take_back(self, operation: int, teachings: Iterable[int]) -> None:
        """These teachings no longer count."""
        for teaching in teachings:
            named = self._value("SELECT name FROM teachings WHERE id = ?", teaching)
            self._enter(operation, teaching, named, -1)

    def rename(self, old: str, new: str) -> None:
        """Call a name something else; where the new name exists, the two become one."""
        named = self._require_name(old)
        into = self.find_name(new)
        operation = self.begin("rename")
        if into is None:
            self._call(named, new)
            self._db.execute(
                "UPDATE operations SET name = ?, called = ? WHERE id = ?", (named, old, operation)
            )
            return
        for teaching in self.find(name=old):
            self._enter(operation, teaching, named, -1)
            self._enter(operation, teaching, into, +1)

    def undo(self) -> tuple[str, int]:
        """Reverse the last operation; returns its kind and how many log entries it had."""
        last = self._db.execute(
            "SELECT id, kind, name, called FROM operations WHERE undone = 0 "
            "ORDER BY id DESC LIMIT 1"
        ).fetchone()
        if last is None:
            raise NothingToUndo("nothing was taught, forgotten or renamed that could be undone")
        operation, kind, named, called = last
        if called is not None:
            self._call(named, called)
        entries = self._db.execute(
            "SELECT teaching, name, sign FROM log WHERE operation = ? ORDER BY position DESC",
            (operation,),
        ).fetchall()
        for teaching, entered_as, sign in entries:
            self._enter(operation, teaching, entered_as, -sign)
        self._db.execute("UPDATE operations SET undone = 1 WHERE id = ?", (operation,))
        return kind, len(entries)

    def erase(self, teachings: Sequence[int]) -> None:
        """Delete teachings from the history itself: no trace is left, nothing can be undone."""
        ids = [(teaching,) for teaching in teachings]
        for table, column in (("log", "teaching"), ("thumbnails", "teaching"), ("teachings", "id")):
            self._db.executemany(f"DELETE FROM {table} WHERE {column} = ?", ids)
        self._db.execute(
            "DELETE FROM names WHERE id NOT IN (SELECT name FROM teachings) "
            "AND id NOT IN (SELECT name FROM log)"
        )
        self._db.execute(
            "DELETE FROM operations WHERE id NOT IN (SELECT operation FROM log) "
            "AND (name IS NULL OR name NOT IN (SELECT id FROM names))"
        )

    def checkpoint(self) -> None:
        """Bring everything from the write-ahead log into the file itself."""
        with self._named_errors():
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    # Inside.

    def _named(self, name: str) -> int:
        found = self.find_name(name)
        return (
            found
            if found is not None
            else self._insert("INSERT INTO names (name) VALUES (?)", name)
        )

    def _call(self, named: int, name: str) -> None:
        """Change the word for a name; if a name nothing counts for has it, the two swap."""
        self.set_fact("renames", str(self.renames + 1))
        other = self.find_name(name)
        word = self._value("SELECT name FROM names WHERE id = ?", named)
        if other is not None:
            self._db.execute("UPDATE names SET name = '' WHERE id = ?", (other,))
        self._db.execute("UPDATE names SET name = ? WHERE id = ?", (name, named))
        if other is not None:
            self._db.execute("UPDATE names SET name = ? WHERE id = ?", (word, other))

    def _require_name(self, name: str) -> int:
        found = self.find_name(name) if self.find(name=name) else None
        if found is None:
            known = ", ".join(repr(known) for known in list(self.names())[:8])
            raise UnknownLabel(f"{name!r} was never taught; known are {known or 'none yet'}")
        return found

    def _enter(self, operation: int, teaching: int, named: int, sign: int) -> None:
        position = self._insert(
            "INSERT INTO log (operation, teaching, name, sign) VALUES (?, ?, ?, ?)",
            operation,
            teaching,
            named,
            sign,
        )
        self._db.execute(
            "UPDATE teachings SET position = ?, name = ? WHERE id = ?",
            (position if sign > 0 else None, named, teaching),
        )

    def _windowed(self, query: str, after: int, through: int) -> Iterator[Run]:
        for start in range(after // WINDOW * WINDOW, through, WINDOW):
            bounds = max(after, start), min(through, start + WINDOW)
            with self._named_errors():
                rows = self._db.execute(query, bounds).fetchall()
            first = 0
            while first < len(rows):
                last = first
                while last < len(rows) and rows[last][1] == rows[first][1]:
                    last += 1
                part = rows[first:last]
                yield Run(
                    part[0][1],
                    _matrix([row[3] for row in part]),
                    np.array([row[2] for row in part], dtype=np.int64),
                )
                first = last

    def _insert(self, statement: str, *values: Any) -> int:
        return int(self._db.execute(statement, values).lastrowid or 0)

    def _value(self, query: str, *values: Any) -> Any:
        row = self._db.execute(query, values).fetchone()
        return None if row is None else row[0]

    def _connected(self, write: bool) -> sqlite3.Connection:
        if write:
            db = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = FULL")
            db.execute("PRAGMA secure_delete = ON")
            return db
        if not self.path.exists():
            raise NotALearner(f"there is no Learner in {self.path.parent}; teach one first")
        # Readers need a file beside the journal. Where none can be made, nobody can be writing.
        frozen = not os.access(self.path.parent, os.W_OK)
        settled = not self.path.with_name(f"{FILE}-wal").exists()
        options = "mode=ro&immutable=1" if frozen and settled else "mode=ro"
        return sqlite3.connect(
            f"file:{quote(str(self.path))}?{options}",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
        )

    def _require_ours(self, *, new: bool) -> None:
        if new:
            with self.transaction():
                for statement in SCHEMA.split(";\n"):
                    self._db.execute(statement)
                self._db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                self._db.execute(f"PRAGMA user_version = {FORMAT_VERSION}")
            return
        if not self._value("PRAGMA schema_version"):
            raise NotALearner(f"there is no Learner in {self.path.parent} yet; teach one first")
        if self._value("PRAGMA application_id") != APPLICATION_ID:
            raise NotALearner(f"{self.path} is a database, but not the journal of a Learner")
        version = self._value("PRAGMA user_version")
        if version > FORMAT_VERSION:
            raise NewerFormat(
                f"{self.path} has format version {version}, this everlearn reads up to "
                f"{FORMAT_VERSION}; upgrade everlearn to open it"
            )

    @contextlib.contextmanager
    def _named_errors(self) -> Iterator[None]:
        """SQLite's errors under the name of their cause."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            cause = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
            if cause in DAMAGED:
                raise DamagedJournal(
                    f"{self.path} is damaged: {error}; restore it from a backup, or try "
                    "'sqlite3 journal.sqlite .recover' on a copy"
                ) from None
            if cause not in DISK:
                raise
            if self.writes:
                raise CannotWrite(
                    f"{self.path} cannot be written: {error}; nothing of this change was kept and "
                    "nothing before it was lost. Check the space left and the permissions; "
                    "read_only=True opens it to be asked"
                ) from None
            raise CannotRead(f"{self.path} cannot be read: {error}") from None


def _matrix(blobs: Sequence[bytes]) -> Vectors:
    if not blobs:
        return np.empty((0, 0), dtype=np.float32)
    return np.frombuffer(b"".join(blobs), dtype="<f4").reshape(len(blobs), -1)
