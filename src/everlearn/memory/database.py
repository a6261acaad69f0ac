"""The journal's file: SQLite with the settings that make a promise, and errors that have names.

Write-ahead log and ``synchronous=FULL``: a transaction is on disk when ``COMMIT`` returns.
``secure_delete``: what is deleted is overwritten. There is one connection that writes, and it is
the only one that checkpoints; readers open the file read-only and can do neither.
"""

import contextlib
import os
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from everlearn.errors import (
    CannotRead,
    CannotWrite,
    DamagedJournal,
    LearnerClosed,
    NewerFormat,
    NotALearner,
)
from everlearn.persistence import flush_folder

FORMAT_VERSION = 1
# "ever" in ASCII: how the file says that it is one of ours.
APPLICATION_ID = 0x65766572

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


class Database:
    """One connection to the journal's file; with ``write`` the file is made if it is not there."""

    def __init__(self, path: Path, *, write: bool) -> None:
        self.path = path
        self.writes = write
        with self._named_errors():
            if write and not path.exists():
                self._create()
            self._db = self._connected()
        try:
            self._require_ours()
        except BaseException:
            self._db.close()
            raise

    def close(self) -> None:
        self._db.close()

    def run(self, statement: str, *values: Any) -> int:
        """Carry a statement out; the number of the row it inserted."""
        with self._named_errors():
            return int(self._db.execute(statement, values).lastrowid or 0)

    def run_many(self, statement: str, values: Sequence[tuple[Any, ...]]) -> None:
        with self._named_errors():
            self._db.executemany(statement, values)

    def value(self, query: str, *values: Any) -> Any:
        """The first column of the first row, or ``None``."""
        with self._named_errors():
            row = self._db.execute(query, values).fetchone()
        return None if row is None else row[0]

    def rows(self, query: str, *values: Any) -> list[Any]:
        with self._named_errors():
            return self._db.execute(query, values).fetchall()

    def each(self, query: str, *values: Any) -> Iterator[Any]:
        """Rows, one at a time."""
        with self._named_errors():
            yield from self._db.execute(query, values)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """All of it or nothing; on disk when this returns."""
        self.run("BEGIN IMMEDIATE")
        try:
            yield
            self.run("COMMIT")
        except BaseException:
            # SQLite has rolled back by itself where the disk was full.
            if self._in_transaction():
                self.run("ROLLBACK")
            raise

    @contextlib.contextmanager
    def one_view(self) -> Iterator[None]:
        """Whatever is read inside belongs to one moment, though somebody else may be writing."""
        self.run("BEGIN")
        try:
            yield
        finally:
            if self._in_transaction():
                self.run("COMMIT")

    def checkpoint(self) -> None:
        """Bring everything from the write-ahead log into the file itself."""
        self.run("PRAGMA wal_checkpoint(TRUNCATE)")

    def _in_transaction(self) -> bool:
        return self._db.in_transaction

    def _connected(self) -> sqlite3.Connection:
        if self.writes:
            db = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
            for setting in ("journal_mode = WAL", "synchronous = FULL", "secure_delete = ON"):
                db.execute(f"PRAGMA {setting}")
            return db
        if not self.path.exists():
            raise NotALearner(f"there is no Learner in {self.path.parent}; teach one first")
        # Readers need a file beside the journal. Where none can be made, nobody can be writing.
        frozen = not os.access(self.path.parent, os.W_OK)
        settled = not self.path.with_name(f"{self.path.name}-wal").exists()
        options = "mode=ro&immutable=1" if frozen and settled else "mode=ro"
        return sqlite3.connect(
            f"file:{quote(str(self.path))}?{options}",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
        )

    def _create(self) -> None:
        """An empty journal, complete from the moment it has its name."""
        unfinished = self.path.with_name(f".{self.path.name}.unfinished")
        try:
            for leftover in self.path.parent.glob(f"{unfinished.name}*"):
                leftover.unlink()
            with contextlib.closing(sqlite3.connect(unfinished)) as db:
                db.executescript(SCHEMA)
                db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                db.execute(f"PRAGMA user_version = {FORMAT_VERSION}")
                db.execute("PRAGMA journal_mode = WAL")
            os.replace(unfinished, self.path)
            flush_folder(self.path.parent)
        except OSError as error:
            raise CannotWrite(f"{self.path} cannot be made: {error.strerror}") from None

    def _require_ours(self) -> None:
        if self.value("PRAGMA application_id") != APPLICATION_ID:
            raise NotALearner(f"{self.path} is a database, but not the journal of a Learner")
        version = self.value("PRAGMA user_version")
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
        except sqlite3.ProgrammingError as error:
            if "closed" not in str(error):
                raise
            raise LearnerClosed(f"{self.path.parent} was closed; open it again") from None
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
