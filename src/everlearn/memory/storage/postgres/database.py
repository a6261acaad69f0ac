"""One connection to a Memory's tables in PostgreSQL.

A write transaction begins by taking the Memory's advisory lock. The server releases it when the
transaction ends, also if the client was killed, so there is one writer at a time and no stale lock.
Next, teachings in the inbox get their positions (inbox.py). At its end the transaction records that
the journal changed and announces it (``NOTIFY``). The isolation level is READ COMMITTED: reads
after the lock was granted see everything committed before.

Round trips dominate the cost. Written rows are therefore buffered until something is read or the
transaction ends, and are sent together with that statement (libpq's pipeline mode).

A read transaction is read-only, with isolation level REPEATABLE READ.
"""

import contextlib
import itertools
import json
import math
import re
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from everlearn.errors import InvalidParameter, MemoryClosed, NotAllowed, NotAMemory
from everlearn.memory.storage.copying import copy_rows
from everlearn.memory.storage.interface import Database
from everlearn.memory.storage.postgres import migrations, traces
from everlearn.memory.storage.postgres.address import PostgresAddress
from everlearn.memory.storage.postgres.connecting import connected, lock_key
from everlearn.memory.storage.postgres.failures import DatabaseUnreachable, translate_error
from everlearn.memory.storage.postgres.inbox import Inbox
from everlearn.memory.storage.postgres.tables import column_types, columns, primary_key
from everlearn.memory.storage.postgres.watching import Watch
from everlearn.memory.storage.schema import TABLES
from everlearn.memory.storage.sqlite.database import SQLiteDatabase

# How long to wait for other writers.
LOCK_SECONDS = 60
# From this many rows on, one statement inserts them as an array per column.
ARRAY_ROWS = 4
# From this many rows on, they are inserted by COPY.
COPY_ROWS = 512
# More rows than this are sent at once.
MOST_BUFFERED_ROWS = 2048
INSERT_OF_ROWS = re.compile(r"INSERT INTO (\w+) VALUES \([?, ]+\)")
# Seconds between two checks of whether the write-ahead log from before an erase is gone.
TRACES_SECONDS = 5.0
# Rows fetched at a time by an iteration.
ROWS_AT_A_TIME = 2000

RECORD_CHANGE = (
    "WITH changed AS (UPDATE state SET version = version + 1, tag = ?, "
    "position = COALESCE((SELECT MAX(position) FROM log), 0) RETURNING version, tag, position) "
    "SELECT version, tag, pg_notify(?, version || ' ' || tag || ' ' || position) FROM changed"
)
# As RECORD_CHANGE, with events. Their numbers increase even if the clock goes back.
RECORD_CHANGE_AND_EVENTS = (
    "WITH changed AS (UPDATE state SET version = version + 1, tag = ?, "
    "position = COALESCE((SELECT MAX(position) FROM log), 0), last_event = ? + "
    "GREATEST(last_event, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) "
    "RETURNING version, tag, position, last_event), "
    "added AS (INSERT INTO events SELECT last_event - cardinality(?::text[]) + place, "
    "extract(epoch FROM clock_timestamp())::float8, kind, facts FROM changed, "
    "unnest(?::text[], ?::text[]) WITH ORDINALITY AS new(kind, facts, place)) "
    "SELECT version, tag, pg_notify(?, version || ' ' || tag || ' ' || position) FROM changed"
)
# About this many of the latest events are kept.
KEPT_EVENTS = 100_000
# Older events are deleted by one change in this many, chosen at random.
PRUNE_EVERY = 1024


class PostgresDatabase:
    """A connection, reconnected when it is lost.

    Parameters
    ----------
    address : PostgresAddress
    write : bool
        Create missing tables and migrate older ones.
    """

    # A transaction costs a dozen round trips, however many teachings it has.
    rows_at_once = 256

    def __init__(self, address: PostgresAddress, *, write: bool) -> None:
        self.address = address
        self.location = self.memory = str(address)
        self.writes = write
        self.inbox = Inbox(self)
        self._db: psycopg.Connection[Any] | None = None
        self._closed = False
        self._in_read_transaction = self._dirty = self._holds_lock = self._inbox_waits = False
        self._in_transaction = False
        self._events: list[tuple[str, str]] = []
        self._buffer: list[tuple[str, Sequence[tuple[Any, ...]]]] = []
        self._known_stamp: tuple[int, int] | None = None
        self._watch: Watch | None = None
        self._cursors = itertools.count()
        self._may_assign_positions: bool | None = None
        self._traces_at = -math.inf
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._closed = True
        if self._watch is not None:
            self._watch.close()
        if self._db is not None:
            self._db.close()

    # Statements.

    def run(self, statement: str, *values: Any) -> int:
        self._dirty = True
        with self._translate_errors():
            done = self._with_buffer_sent(lambda db: db.execute(_psycopg_query(statement), values))
            return done.rowcount

    def run_many(self, statement: str, values: Sequence[tuple[Any, ...]]) -> None:
        self._dirty = True
        if not values:
            return
        insert = INSERT_OF_ROWS.fullmatch(statement)
        if insert is not None and len(values) >= COPY_ROWS:
            self._send_buffer()
            statement = f"COPY {insert[1]} FROM STDIN"
            with (
                self._translate_errors(),
                self._connection().cursor().copy(statement.encode()) as copy,
            ):
                for row in values:
                    copy.write_row(row)
            return
        self._buffer.append((statement, values))
        if (
            not self._in_transaction
            or sum(len(rows) for _, rows in self._buffer) > MOST_BUFFERED_ROWS
        ):
            self._send_buffer()

    def replace(self, table: str, *values: Any) -> None:
        self.run_many(_upsert(table), [values])

    def value(self, query: str, *values: Any) -> Any:
        row = self.row(query, *values)
        return None if row is None else row[0]

    def row(self, query: str, *values: Any) -> Any:
        return self._fetched(
            lambda cursor: cursor.execute(_psycopg_query(query), values).fetchone()
        )

    def rows(self, query: str, *values: Any) -> list[Any]:
        found: list[Any] = self._fetched(
            lambda cursor: cursor.execute(_psycopg_query(query), values).fetchall()
        )
        return found

    def _fetched(self, ask: Callable[[psycopg.Cursor[Any]], Any]) -> Any:
        """The result of a query; outside a transaction it is retried on a new connection."""

        def answer(db: psycopg.Connection[Any]) -> Any:
            with db.cursor(binary=True) as cursor:
                return ask(cursor)

        try:
            with self._translate_errors():
                return self._with_buffer_sent(answer)
        except DatabaseUnreachable:
            if self._in_read_transaction or self._in_transaction:
                raise
        with self._translate_errors():
            return self._with_buffer_sent(answer)

    def same_letters(self, column: str) -> str:
        """Condition of a query: whether an ASCII text equals a value of lower case letters."""
        return f"LOWER({column}) = ?"

    def not_ascii(self, column: str) -> str:
        """Condition of a query: whether a text has a character outside of ASCII."""
        return f"LENGTH({column}) < OCTET_LENGTH({column})"

    def each(self, query: str, *values: Any) -> Iterator[Any]:
        if not (self._in_read_transaction or self._in_transaction):
            yield from self.rows(query, *values)
            return
        self._send_buffer()
        name = f"each_{next(self._cursors)}"
        with self._translate_errors(), self._connection().cursor(name, binary=True) as cursor:
            cursor.itersize = ROWS_AT_A_TIME
            yield from cursor.execute(_psycopg_query(query), values)

    # Transactions.

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        if self._in_transaction:
            yield  # part of the enclosing transaction
            return
        self._roll_back()
        try:
            self._begin()
            self._in_transaction = True
            self._assign_positions()
            yield
            self._commit()
        finally:
            self._in_transaction = False
            self._roll_back()

    @contextlib.contextmanager
    def try_transaction(self) -> Iterator[bool]:
        """As :meth:`transaction` if there is no other writer; otherwise yields false."""
        if self._in_transaction:
            yield True
            return
        self._roll_back()
        try:
            mine = self._begin(wait=False)
            if mine:
                self._in_transaction = True
                self._assign_positions()
            yield mine
            if mine:
                self._commit()
        finally:
            self._in_transaction = False
            self._roll_back()

    def announce(self, message: str) -> None:
        """Notify all processes that watch this Memory."""
        self.row("SELECT pg_notify(?, ?)", self.address.channel, message)

    @property
    def changing(self) -> bool:
        """Whether a write transaction is open."""
        return self._in_transaction

    @property
    def may_assign_positions(self) -> bool:
        """Whether this user may assign positions: that writes to the log."""
        if self._may_assign_positions is None:
            query = "SELECT has_table_privilege('log', 'INSERT, DELETE')"
            self._may_assign_positions = bool(self.value(query))
        return self._may_assign_positions

    @contextlib.contextmanager
    def savepoint(self) -> Iterator[None]:
        """Context in which a failure undoes only what was done inside; it is raised again."""
        n_events = len(self._events)
        self._send_buffer()
        try:
            with self._translate_errors(), self._connection().transaction():
                yield
                self._send_buffer()
        except BaseException:
            self._buffer.clear()
            del self._events[n_events:]
            raise

    def record_event(self, kind: str, /, **facts: Any) -> None:
        assert self._in_transaction
        self._dirty = True
        self._events.append((kind, json.dumps(facts, ensure_ascii=False)))

    def drop_records(self) -> None:
        """Remove stored answers and events, which may contain names."""
        self.inbox.drop_answers()
        self.run("UPDATE state SET dropped_event = last_event")
        self.run("DELETE FROM events")

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        if self._in_transaction:
            raise InvalidParameter(
                "an erase and a change of network take several transactions, so they cannot run "
                "inside another change or under an idempotency key; run them separately"
            )
        key = lock_key(self.address.schema)
        self._roll_back()
        self.value("SELECT pg_advisory_lock(?)", key)
        self._holds_lock = True
        try:
            yield
        finally:
            self._holds_lock = False
            with contextlib.suppress(DatabaseUnreachable):
                self._roll_back()
                self.value("SELECT pg_advisory_unlock(?)", key)

    @contextlib.contextmanager
    def read_transaction(self) -> Iterator[None]:
        if self._in_transaction:
            yield  # the write lock is held, so there is no other writer
            return
        self._roll_back()
        begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
        try:
            try:
                self._execute(begin)
            except DatabaseUnreachable:
                self._execute(begin)  # on a new connection; nothing was read on the lost one
            self._in_read_transaction = True
            yield
        finally:
            self._roll_back()

    def changed_since_opening(self) -> bool:
        return False

    def stamp(self) -> tuple[int, int]:
        """Inside a transaction the stamp of what it reads; otherwise of the last known change."""
        if not (self._in_read_transaction or self._in_transaction):
            if self._watch is not None:
                return self._watch.stamp()
            self.watch()
        return self._stamp()

    def watch(self) -> Watch:
        """The thread that follows changes of the journal, started by the first call."""
        if self._watch is None:
            wake = self.inbox.wake if self.writes and self.may_assign_positions else None
            self._watch = Watch(self.address, self._stamp(), wake)
        return self._watch

    def lag_seconds(self) -> float:
        """Seconds since the server last reported the end of the journal."""
        return self.watch().seconds_since_update()

    # The journal as a whole.

    def require_known_format(self) -> None:
        with self._translate_errors():
            found = migrations.found_versions(self._connection())
        if found is None:
            raise NotAMemory(f"{self.location} has a schema of this name that is not a Memory's")
        migrations.require_known(found, self.address)
        if found != migrations.CURRENT:
            raise NotAMemory(
                f"{self.location} is from an older version of everlearn; have its owner open "
                "it for teaching, which migrates it"
            )

    def has_table(self, table: str) -> bool:
        return True

    def require_structure(self, table: str | None = None) -> None:
        """Compare the columns with the schema; rows have checksums of their own."""
        for one in (table,) if table else TABLES:
            found = self.rows(
                "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(?) AND attnum > 0 "
                "AND NOT attisdropped ORDER BY attnum",
                one,
            )
            if [row[0] for row in found] != columns(one):
                raise NotAMemory(f"{self.location}: the table {one} is not a Memory's")

    def tidy(self) -> None:
        """Nothing to do: the server does this by itself."""

    def remove_traces(self, state: str, *, wait: bool) -> str | None:
        now = time.monotonic()
        if state != traces.PAGES and not wait and now < self._traces_at + TRACES_SECONDS:
            return state
        self._traces_at = now
        self._roll_back()
        with self._translate_errors():
            return traces.remove(self._connection(), state, wait=wait)

    def copy_to(self, path: Path) -> None:
        with contextlib.closing(SQLiteDatabase(path, write=True)) as target:
            target.take_over(self)
            target.tidy()

    def take_over(self, other: Database) -> None:
        with other.read_transaction(), self.transaction():
            copy_rows(other, self)

    def waiting_for(self, state: str) -> list[str]:
        with self._translate_errors():
            return traces.waiting_for(self._connection(), state)

    def leftovers(self) -> list[str]:
        return []

    # Helpers.

    def _prepare(self) -> None:
        db = self._connection()
        if self.writes:
            with self._translate_errors():
                migrations.prepare(db, self.address, lock_key(self.address.schema))
        elif self.value("SELECT to_regclass('state')") is None:
            if self.value("SELECT 1 FROM pg_namespace WHERE nspname = ?", self.address.schema):
                raise NotAllowed(
                    f"this user may not read {self.location}; have its owner run "
                    "'everlearn -m ADDRESS postgres grant'"
                )
            raise NotAMemory(f"there is no Memory in {self.location}; teach one first")

    def _stamp(self) -> tuple[int, int]:
        row = self.row("SELECT version, tag FROM state")
        if row is None:
            raise NotAMemory(f"there is no Memory in {self.location} yet; teach one first")
        return int(row[0]), int(row[1])

    def _begin(self, *, wait: bool = True) -> bool:
        self._dirty = False
        self._events.clear()
        self._buffer.clear()
        try:
            return self._lock(wait)
        except DatabaseUnreachable:
            return self._lock(wait)  # on a new connection; nothing was written on the lost one

    def _lock(self, wait: bool) -> bool:
        begin = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
        key = lock_key(self.address.schema)
        queue = "SELECT EXISTS (SELECT 1 FROM inbox)"
        # The timeout also covers tables locked by other clients.
        begin += f"; SET LOCAL lock_timeout = '{LOCK_SECONDS}s'"
        function = "pg_advisory_xact_lock" if wait else "pg_try_advisory_xact_lock"
        locked, queued = self._last_two_values(f"{begin}; SELECT {function}({key}); {queue}")
        self._inbox_waits = bool(queued)
        return wait or bool(locked)

    def _last_two_values(self, statements: str) -> tuple[Any, Any]:
        """The results of the last two of several statements, in one round trip."""
        found: list[Any] = []
        with self._translate_errors():
            cursor = self._connection().execute(statements.encode())
            while True:
                if cursor.description is not None:
                    found.append(cursor.fetchone())
                if not cursor.nextset():
                    return found[-2][0], found[-1][0]

    def _commit(self) -> None:
        known, changed = self._known_stamp, None
        if self._events and secrets.randbelow(PRUNE_EVERY) == 0:
            self._prune_events()
        try:
            with self._translate_errors(), _pipeline(self._connection()) as db:
                self._queue_buffer(db)
                if self._dirty:
                    changed = self._record_change(db)
                self._execute("COMMIT")
            if changed is not None and (row := changed.fetchone()) is not None:
                known = int(row[0]), int(row[1])
        except DatabaseUnreachable as error:
            raise DatabaseUnreachable(
                f"{error} It is not certain whether this change was kept; check, or send it again"
            ) from None
        self._known_stamp = known
        if self._watch is not None and known is not None:
            self._watch.update(known)

    def _assign_positions(self) -> None:
        """Assign positions to what was in the inbox when the lock was granted."""
        if self._inbox_waits:
            self.inbox.assign_positions()

    def _record_change(self, db: psycopg.Connection[Any]) -> psycopg.Cursor[Any]:
        tag, channel = secrets.randbits(62), self.address.channel
        if not self._events:
            return db.execute(_psycopg_query(RECORD_CHANGE), (tag, channel))
        kinds, facts = (list(column) for column in zip(*self._events, strict=True))
        values = tag, len(kinds), kinds, kinds, facts, channel
        return db.execute(_psycopg_query(RECORD_CHANGE_AND_EVENTS), values)

    def _with_buffer_sent(self, action: Callable[[psycopg.Connection[Any]], Any]) -> Any:
        """Send the buffered rows and run an action, in one round trip."""
        if not self._buffer:
            return action(self._connection())
        with _pipeline(self._connection()) as db:
            self._queue_buffer(db)
            return action(db)

    def _send_buffer(self) -> None:
        if self._buffer:
            with self._translate_errors():
                self._with_buffer_sent(lambda db: None)

    def _queue_buffer(self, db: psycopg.Connection[Any]) -> None:
        buffered, self._buffer = self._buffer, []
        for statement, rows in buffered:
            insert = INSERT_OF_ROWS.fullmatch(statement)
            if insert is not None and insert[1] in TABLES and len(rows) >= ARRAY_ROWS:
                db.execute(
                    _insert_from_arrays(insert[1]),
                    [list(column) for column in zip(*rows, strict=True)],
                )
                continue
            for row in rows:
                db.execute(_psycopg_query(statement), row)

    def _prune_events(self) -> None:
        last = "SELECT number FROM events ORDER BY number DESC OFFSET ? LIMIT 1"
        number = self.value(last, KEPT_EVENTS)
        if number is not None:
            self.run("UPDATE state SET dropped_event = ?", number)
            self.run("DELETE FROM events WHERE number <= ?", number)

    def _roll_back(self) -> None:
        """Roll back an open transaction, including one left by an interruption."""
        self._in_read_transaction = False
        self._buffer.clear()
        db = self._db
        if db is None or db.closed:
            return
        status = db.info.transaction_status
        if status == TransactionStatus.IDLE:
            return
        if status in (TransactionStatus.ACTIVE, TransactionStatus.UNKNOWN):
            db.close()
            return
        try:
            db.execute("ROLLBACK")
        except psycopg.Error:
            db.close()

    def _execute(self, statement: str) -> None:
        with self._translate_errors():
            self._connection().execute(statement.encode())

    def _connection(self) -> psycopg.Connection[Any]:
        if self._closed:
            raise MemoryClosed(f"{self.location} was closed; open it again")
        if self._db is None or self._db.closed:
            if self._in_transaction or self._holds_lock:
                raise DatabaseUnreachable(f"{self.location}: the connection was lost in a change")
            with self._translate_errors():
                self._db = connected(self.address)
        return self._db

    @contextlib.contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            raise translate_error(self.address, error, writes=self._in_transaction) from None


@cache
def _psycopg_query(statement: str) -> bytes:
    """A statement with psycopg's placeholders; it must not contain text from a user."""
    return statement.replace("%", "%%").replace("?", "%s").encode()


@contextlib.contextmanager
def _pipeline(db: psycopg.Connection[Any]) -> Iterator[psycopg.Connection[Any]]:
    """Context in which statements are sent without waiting for results, if libpq supports it."""
    with db.pipeline() if psycopg.Pipeline.is_supported() else contextlib.nullcontext():
        yield db


@cache
def _insert_from_arrays(table: str) -> bytes:
    """A statement that inserts rows given as one array per column."""
    arrays = ", ".join(f"%b::{kind}[]" for kind in column_types(table))
    return f"INSERT INTO {table} SELECT * FROM unnest({arrays})".encode()


@cache
def _upsert(table: str) -> str:
    """A statement that inserts a row, or replaces the one with the same primary key."""
    names = columns(table)
    key = primary_key(table)
    values = ", ".join("?" * len(names))
    changes = ", ".join(f"{name} = EXCLUDED.{name}" for name in names if name != key)
    return f"INSERT INTO {table} VALUES ({values}) ON CONFLICT ({key}) DO UPDATE SET {changes}"
