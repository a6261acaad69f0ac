"""The journal in SQLite: durability settings, and named errors.

Write-ahead log and ``synchronous=FULL``: a transaction is on disk when ``COMMIT`` returns.
``secure_delete``: deleted content is overwritten. There is a single connection that writes and
checkpoints; the others (readers.py) are read-only.
"""

import contextlib
import os
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from everlearn.errors import (
    CannotWrite,
    DamagedJournal,
    EverlearnError,
    MemoryClosed,
    NewerFormat,
    NotAMemory,
)
from everlearn.memory.storage.copying import copy_rows
from everlearn.memory.storage.interface import CannotReadNow, Database, damaged_journal
from everlearn.memory.storage.schema import (
    APPLICATION_ID,
    FORMAT_VERSION,
    OLDEST_VERSION,
    SCHEMA_QUERY,
    expected_schema,
    hardened,
    has_table,
    upgrade,
    write_schema,
)
from everlearn.memory.storage.sqlite.readers import Reader, open_reader
from everlearn.persistence import flush_folder

FILE = "journal.sqlite"
# Ends of the names of SQLite's files: the database, its logs, and their index.
BESIDE = ("", "-wal", "-journal", "-shm")

# Errors of the disk, of permissions and of locks; any other error means damage.
ACCESS_ERRORS = (
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_PROTOCOL,
)
# Invalid UTF-8 raises an error while it is read, or while SQLite's own message is decoded.
ERRORS = (sqlite3.Error, UnicodeDecodeError)
# A commit was written but perhaps not flushed to disk: a power cut may undo it.
FLUSH_ERRORS = (sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_DIR_FSYNC)
ENTRY_OF_WRONG_TYPE = (
    "SELECT 1 FROM log WHERE typeof(operation) != 'integer' OR typeof(teaching) != 'integer' "
    "OR typeof(name) != 'integer' OR typeof(chain) != 'blob' LIMIT 1"
)
# States of a pending erase: pages and write-ahead log are left to clean, or only the log.
PAGES, LOG = "pages", "log"
# How long the writer waits for readers before it gives up a checkpoint.
PATIENCE_SECONDS = 2.0


def require_regular(path: Path) -> None:
    """Refuse a pipe or device in place of a file, on which SQLite would wait forever."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise NotAMemory(f"{path} is not a regular file; remove it, or restore a backup")


class SQLiteDatabase:
    """One connection to the journal's file; ``write`` creates the file if necessary."""

    rows_at_once = 64

    def __init__(self, path: Path, *, write: bool) -> None:
        self.path = path
        self.location = str(path)
        self.memory = str(path.parent)
        self.writes = write
        self._reader: Reader | None = None
        for end in BESIDE:
            require_regular(path.with_name(f"{path.name}{end}"))
        try:
            if write:
                if not path.exists():
                    self._create()
                self._db = self._open_writer()
            else:
                self._reader = open_reader(path)
                self._db = self._reader.db
        except ERRORS as error:
            raise self._translate_error(error) from None

    def close(self) -> None:
        self._db.close()
        if self._reader is not None:
            self._reader.close()

    def run(self, statement: str, *values: Any) -> int:
        """Execute a statement; returns the number of rows changed."""
        try:
            return int(self._db.execute(statement, values).rowcount)
        except ERRORS as error:
            raise self._translate_error(error) from None

    def run_many(self, statement: str, values: Sequence[tuple[Any, ...]]) -> None:
        try:
            self._db.executemany(statement, values)
        except ERRORS as error:
            raise self._translate_error(error) from None

    def replace(self, table: str, *values: Any) -> None:
        marks = ", ".join("?" * len(values))
        self.run(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", *values)

    def value(self, query: str, *values: Any) -> Any:
        """The first column of the first row, or ``None``."""
        row = self.row(query, *values)
        return None if row is None else row[0]

    def row(self, query: str, *values: Any) -> Any:
        """The first row, or ``None``."""
        try:
            return self._db.execute(query, values).fetchone()
        except ERRORS as error:
            raise self._translate_error(error) from None

    def rows(self, query: str, *values: Any) -> list[Any]:
        try:
            return self._db.execute(query, values).fetchall()
        except ERRORS as error:
            raise self._translate_error(error) from None

    def same_letters(self, column: str) -> str:
        """Condition of a query: whether an ASCII text equals a value of lower case letters."""
        return f"{column} = ? COLLATE NOCASE"  # a third of the time of LOWER

    def not_ascii(self, column: str) -> str:
        """Condition of a query: whether a text has a character outside of ASCII."""
        return f"LENGTH({column}) < LENGTH(CAST({column} AS BLOB))"

    def each(self, query: str, *values: Any) -> Iterator[Any]:
        """Rows, one at a time."""
        try:
            yield from self._db.execute(query, values)
        except ERRORS as error:
            raise self._translate_error(error) from None

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """All changes inside happen, or none; they are on disk when this returns."""
        self._roll_back()
        try:
            self.run("BEGIN IMMEDIATE")
            yield
            self._commit()
        except BaseException:
            self._roll_back()
            raise

    @property
    def inbox(self) -> None:
        """``None``: there is a single writer."""
        return None

    def exclusive(self) -> contextlib.AbstractContextManager[None]:
        """Nothing to do: the writer holds the folder's lock."""
        return contextlib.nullcontext()

    @contextlib.contextmanager
    def read_transaction(self) -> Iterator[None]:
        """Context whose reads all see one state, even while another process writes."""
        self._roll_back()
        try:
            self.run("BEGIN")
            yield
        finally:
            self._roll_back()

    def changed_since_opening(self) -> bool:
        """Whether reads may have seen two states, because the reader could not take a lock."""
        return self._reader is not None and self._reader.changed_since_opening()

    def stamp(self) -> tuple[int, int]:
        """A value that changes with every commit; compare stamps of the same connection."""
        return int(self.value("PRAGMA data_version")), self._db.total_changes

    def checkpoint(self, *, wait: bool = True) -> bool:
        """Move the write-ahead log into the file; returns whether this succeeded.

        It fails while a reader holds an older state; ``wait`` gives readers a moment.
        """
        self._roll_back()
        self.run(f"PRAGMA busy_timeout = {int(1000 * PATIENCE_SECONDS) if wait else 0}")
        busy = self.row("PRAGMA wal_checkpoint(TRUNCATE)")[0]
        self.run(f"PRAGMA busy_timeout = {int(1000 * PATIENCE_SECONDS)}")
        log = self.path.with_name(f"{self.path.name}-wal")
        return not busy and (not log.exists() or log.stat().st_size == 0)

    def rebuild(self) -> None:
        """Rewrite every page, so that none keeps bytes of deleted rows."""
        self._roll_back()
        self.run("VACUUM")

    def record_event(self, kind: str, /, **facts: Any) -> None:
        """Nothing to do: the single writer reports its changes itself."""

    def drop_records(self) -> None:
        """Nothing to do: no requests or events are stored."""

    def require_known_format(self) -> None:
        """Require a journal of this version without other tables."""
        if self.value("PRAGMA application_id") != APPLICATION_ID:
            raise NotAMemory(f"{self.path} is a database, but not the journal of a Memory")
        version = self.value("PRAGMA user_version")
        if version > FORMAT_VERSION:
            raise NewerFormat(
                f"{self.path} has format version {version}, this everlearn reads up to "
                f"{FORMAT_VERSION}; upgrade everlearn to open it"
            )
        if version < OLDEST_VERSION:
            raise NotAMemory(
                f"{self.path} has format version {version}, from before everlearn was released; "
                "teach a new Memory from the images"
            )
        if tuple(self.rows(SCHEMA_QUERY)) != expected_schema(version):
            raise self._damaged("its tables are not those of a Memory")

    def has_table(self, table: str) -> bool:
        return has_table(int(self.value("PRAGMA user_version")), table)

    def require_structure(self, table: str | None = None) -> None:
        """Have SQLite check a table and its indexes, or the whole file."""
        found = self.value(f"PRAGMA integrity_check({table or 1})")
        if found != "ok":
            raise self._damaged(str(found).replace("\n", " ")[:200])
        # A column of SQLite accepts any type, whatever it was declared as.
        if table == "log" and self.row(ENTRY_OF_WRONG_TYPE) is not None:
            raise self._damaged("a log entry has a value of the wrong type")

    def tidy(self) -> None:
        self.checkpoint()

    def remove_traces(self, state: str, *, wait: bool) -> str | None:
        """First rewrite every page, then empty the write-ahead log, which holds the old pages."""
        if state == PAGES:
            self.rebuild()
            return LOG
        return None if self.checkpoint(wait=wait) else LOG

    def waiting_for(self, state: str) -> list[str]:
        return ["a reader holds an older state of the journal; the next change tries again"]

    def lag_seconds(self) -> float:
        """0: every read sees the file as it is."""
        return 0.0

    def leftovers(self) -> list[str]:
        if self.value("PRAGMA freelist_count"):
            return ["the journal has free pages, which may hold deleted content"]
        return []

    def copy_to(self, path: Path) -> None:
        """Copy the database, as of one position, to a self-contained file."""
        try:
            with contextlib.closing(sqlite3.connect(path)) as target:
                self._db.backup(target)
                target.execute("PRAGMA journal_mode = DELETE")
        except sqlite3.Error as error:
            raise CannotWrite(f"{path} cannot be written: {error}") from None

    def take_over(self, other: Database) -> None:
        """Replace the content by that of another database, in one transaction."""
        if not isinstance(other, SQLiteDatabase):
            with other.read_transaction(), self.transaction():
                copy_rows(other, self)
            return
        self._roll_back()
        try:
            other._db.backup(self._db)
            upgrade(self._db)
        except ERRORS as error:
            raise self._translate_commit_error(error) from None

    def _commit(self) -> None:
        try:
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            raise self._translate_commit_error(error) from None

    def _translate_commit_error(self, error: Exception) -> EverlearnError:
        if getattr(error, "sqlite_errorcode", 0) not in FLUSH_ERRORS:
            return self._translate_error(error)
        return CannotWrite(
            f"{self.path} could not be flushed to disk: {error}; it is not certain whether "
            "this change was kept. Nothing before it was lost; check the disk, then open the "
            "Memory again to see"
        )

    def _damaged(self, what: str) -> DamagedJournal:
        return damaged_journal(self, what)

    def _roll_back(self) -> None:
        """Roll back an open transaction, including one left by an interruption."""
        with contextlib.suppress(sqlite3.ProgrammingError):
            if self._db.in_transaction:
                self._db.rollback()

    def _open_writer(self) -> sqlite3.Connection:
        db = sqlite3.connect(
            self.path, isolation_level=None, check_same_thread=False, timeout=PATIENCE_SECONDS
        )
        hardened(db, "journal_mode = WAL", "synchronous = FULL", "secure_delete = ON")
        try:
            upgrade(db)
        except BaseException:
            db.close()
            raise
        return db

    def _create(self) -> None:
        """Create an empty journal under a temporary name, then rename it."""
        unfinished = self.path.with_name(f".{self.path.name}.unfinished")
        try:
            for leftover in self.path.parent.glob(f"{unfinished.name}*"):
                leftover.unlink()
            with contextlib.closing(sqlite3.connect(unfinished)) as db:
                write_schema(db)
                db.execute("PRAGMA journal_mode = WAL")
            os.replace(unfinished, self.path)
            flush_folder(self.path.parent)
        except OSError as error:
            raise CannotWrite(f"{self.path} cannot be created: {error.strerror}") from None

    def _translate_error(self, error: Exception) -> EverlearnError:
        """Translate an error of SQLite into everlearn's."""
        if isinstance(error, sqlite3.ProgrammingError) and "closed" in str(error):
            return MemoryClosed(f"{self.path.parent} was closed; open it again")
        cause = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        if cause not in ACCESS_ERRORS:
            return DamagedJournal(
                f"{self.path} is damaged: {error}; restore it from a backup (everlearn restore), "
                "or try 'sqlite3 journal.sqlite .recover' on a copy"
            )
        if not self.writes:
            return CannotReadNow(f"{self.path} cannot be read: {error}")
        return CannotWrite(
            f"{self.path} cannot be written: {error}; nothing of this change was kept and nothing "
            "before it was lost. Check the space left and the permissions; a Memory that cannot "
            "be written can still be opened read-only and asked"
        )
