"""One connection to a Memory's tables in PostgreSQL.

A write transaction begins by taking the Memory's advisory lock, which the server releases with the
transaction, however that ends; so there is one writer at a time and a killed one leaves no lock.
Inside, teachings that wait in the inbox get their positions first (inbox.py). It ends by recording
that the journal changed and announcing it (``NOTIFY``). The isolation level is READ COMMITTED: a
read after the lock was granted sees everything committed before.

Written rows are buffered until something is read or the transaction ends, and are sent together
with that (libpq's pipeline mode): the cost is the number of round trips.

A view is a read-only REPEATABLE READ transaction.
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
from everlearn.memory.storage.postgres.failures import DatabaseUnreachable, named
from everlearn.memory.storage.postgres.inbox import Inbox
from everlearn.memory.storage.postgres.tables import column_types, columns, primary_key
from everlearn.memory.storage.postgres.watching import Watch
from everlearn.memory.storage.schema import TABLES
from everlearn.memory.storage.sqlite.database import SQLiteDatabase

# How long to wait for other writers.
LOCK_SECONDS = 60
# From this many rows on, rows are inserted as arrays of columns; from this many, by COPY.
ARRAY_ROWS = 4
COPY_ROWS = 512
# At most this many rows are buffered.
MOST_WAITING = 2048
WHOLE_ROWS = re.compile(r"INSERT INTO (\w+) VALUES \([?, ]+\)")
# Seconds between two checks of whether the write-ahead log from before an erase is gone.
TRACES_SECONDS = 5.0
ROWS_AT_A_TIME = 2000

CHANGED = (
    "WITH changed AS (UPDATE state SET version = version + 1, tag = ?, "
    "position = COALESCE((SELECT MAX(position) FROM log), 0) RETURNING version, tag, position) "
    "SELECT version, tag, pg_notify(?, version || ' ' || tag || ' ' || position) FROM changed"
)
# As CHANGED, with events. Their numbers increase even if the clock goes back.
CHANGED_AND_TOLD = (
    "WITH changed AS (UPDATE state SET version = version + 1, tag = ?, "
    "position = COALESCE((SELECT MAX(position) FROM log), 0), last_event = ? + "
    "GREATEST(last_event, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) "
    "RETURNING version, tag, position, last_event), "
    "told AS (INSERT INTO events SELECT last_event - cardinality(?::text[]) + place, "
    "extract(epoch FROM clock_timestamp())::float8, kind, facts FROM changed, "
    "unnest(?::text[], ?::text[]) WITH ORDINALITY AS news(kind, facts, place)) "
    "SELECT version, tag, pg_notify(?, version || ' ' || tag || ' ' || position) FROM changed"
)
# About this many of the latest events are kept; pruned after one change in so many.
KEPT_EVENTS = 100_000
DROP_EVERY = 1024


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
        self._view = self._dirty = self._held = self._inbox_waits = False
        self._depth = 0
        self._events: list[tuple[str, str]] = []
        self._waiting: list[tuple[str, Sequence[tuple[Any, ...]]]] = []
        self._known: tuple[int, int] | None = None
        self._watch: Watch | None = None
        self._cursors = itertools.count()
        self._may_order: bool | None = None
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
        with self._named():
            done = self._with_waiting(lambda db: db.execute(_translated(statement), values))
            return done.rowcount

    def run_many(self, statement: str, values: Sequence[tuple[Any, ...]]) -> None:
        self._dirty = True
        if not values:
            return
        whole = WHOLE_ROWS.fullmatch(statement)
        if whole is not None and len(values) >= COPY_ROWS:
            self._send_waiting()
            statement = f"COPY {whole[1]} FROM STDIN"
            with self._named(), self._connection().cursor().copy(statement.encode()) as copy:
                for row in values:
                    copy.write_row(row)
            return
        self._waiting.append((statement, values))
        if not self._depth or sum(len(rows) for _, rows in self._waiting) > MOST_WAITING:
            self._send_waiting()

    def replace(self, table: str, *values: Any) -> None:
        self.run_many(_replacing(table), [values])

    def value(self, query: str, *values: Any) -> Any:
        row = self.row(query, *values)
        return None if row is None else row[0]

    def row(self, query: str, *values: Any) -> Any:
        return self._fetched(lambda cursor: cursor.execute(_translated(query), values).fetchone())

    def rows(self, query: str, *values: Any) -> list[Any]:
        found: list[Any] = self._fetched(
            lambda cursor: cursor.execute(_translated(query), values).fetchall()
        )
        return found

    def _fetched(self, ask: Callable[[psycopg.Cursor[Any]], Any]) -> Any:
        """The result of a query; outside a transaction it is retried on a new connection."""

        def answer(db: psycopg.Connection[Any]) -> Any:
            with db.cursor(binary=True) as cursor:
                return ask(cursor)

        try:
            with self._named():
                return self._with_waiting(answer)
        except DatabaseUnreachable:
            if self._view or self._depth:
                raise
        with self._named():
            return self._with_waiting(answer)

    def not_ascii(self, column: str) -> str:
        """Condition of a query: whether a text has a character outside of ASCII."""
        return f"LENGTH({column}) < OCTET_LENGTH({column})"

    def each(self, query: str, *values: Any) -> Iterator[Any]:
        if not (self._view or self._depth):
            yield from self.rows(query, *values)
            return
        self._send_waiting()
        name = f"each_{next(self._cursors)}"
        with self._named(), self._connection().cursor(name, binary=True) as cursor:
            cursor.itersize = ROWS_AT_A_TIME
            yield from cursor.execute(_translated(query), values)

    # Transactions.

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        if self._depth:
            # Part of a larger change, which happens completely or not at all.
            yield
            return
        self._abandon()
        try:
            self._begin()
            self._depth = 1
            self._order()
            yield
            self._commit()
        finally:
            self._depth = 0
            self._abandon()

    @contextlib.contextmanager
    def try_transaction(self) -> Iterator[bool]:
        """As :meth:`transaction` if there is no other writer; otherwise yields false."""
        if self._depth:
            yield True
            return
        self._abandon()
        try:
            mine = self._begin(wait=False)
            if mine:
                self._depth = 1
                self._order()
            yield mine
            if mine:
                self._commit()
        finally:
            self._depth = 0
            self._abandon()

    def announce(self, news: str) -> None:
        """Notify all processes that watch this Memory."""
        self.row("SELECT pg_notify(?, ?)", self.address.channel, news)

    @property
    def changing(self) -> bool:
        """Whether a write transaction is open."""
        return self._depth > 0

    @property
    def may_order(self) -> bool:
        """Whether this user may assign positions, which needs the right to write the log."""
        if self._may_order is None:
            query = "SELECT has_table_privilege('log', 'INSERT, DELETE')"
            self._may_order = bool(self.value(query))
        return self._may_order

    @contextlib.contextmanager
    def savepoint(self) -> Iterator[None]:
        """A failure inside is rolled back; the rest of the transaction continues."""
        told = len(self._events)
        self._send_waiting()
        try:
            with self._named(), self._connection().transaction():
                yield
                self._send_waiting()
        except BaseException:
            del self._events[told:]
            raise

    def record_event(self, kind: str, /, **facts: Any) -> None:
        assert self._depth
        self._dirty = True
        self._events.append((kind, json.dumps(facts, ensure_ascii=False)))

    def drop_records(self) -> None:
        """Answers stored under keys and events may contain names; both are removed."""
        self.inbox.drop_answers()
        self.run("UPDATE state SET dropped_event = last_event")
        self.run("DELETE FROM events")

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        if self._depth:
            raise InvalidParameter(
                "an erase and a change of network take several transactions, so they cannot run "
                "inside another change or under an idempotency key; run them separately"
            )
        key = lock_key(self.address.schema)
        self._abandon()
        self.value("SELECT pg_advisory_lock(?)", key)
        self._held = True
        try:
            yield
        finally:
            self._held = False
            with contextlib.suppress(DatabaseUnreachable):
                self._abandon()
                self.value("SELECT pg_advisory_unlock(?)", key)

    @contextlib.contextmanager
    def one_view(self) -> Iterator[None]:
        if self._depth:
            # The write lock is held, so there is no other writer.
            yield
            return
        self._abandon()
        begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
        try:
            try:
                self._execute(begin)
            except DatabaseUnreachable:
                # Nothing was read yet, so a lost connection is simply replaced.
                self._execute(begin)
            self._view = True
            yield
        finally:
            self._abandon()

    def moved_on(self) -> bool:
        return False

    def stamp(self) -> tuple[int, int]:
        """In a view the stamp of its state; otherwise that of the last known change."""
        if not (self._view or self._depth):
            if self._watch is not None:
                return self._watch.stamp()
            self.watch()
        return self._stamp()

    def watch(self) -> Watch:
        """Tracks changes of the journal without polling it."""
        if self._watch is None:
            order = self.inbox.wake if self.writes and self.may_order else None
            self._watch = Watch(self.address, self._stamp(), order)
        return self._watch

    def lag_seconds(self) -> float:
        """Seconds since the server last reported the end of the journal."""
        return self.watch().silent_seconds()

    # The journal as a whole.

    def require_ours(self) -> None:
        with self._named():
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
        """Compare the columns with the schema; the rows are checked by their digests."""
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
        self._abandon()
        with self._named():
            return traces.remove(self._connection(), state, wait=wait)

    def copy_to(self, path: Path) -> None:
        with contextlib.closing(SQLiteDatabase(path, write=True)) as target:
            target.take_over(self)
            target.tidy()

    def take_over(self, other: Database) -> None:
        with other.one_view(), self.transaction():
            copy_rows(other, self)

    def waiting_for(self, state: str) -> list[str]:
        with self._named():
            return traces.waiting_for(self._connection(), state)

    def leftovers(self) -> list[str]:
        return []

    # Helpers.

    def _prepare(self) -> None:
        db = self._connection()
        if self.writes:
            with self._named():
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
        self._waiting.clear()
        try:
            return self._lock(wait)
        except DatabaseUnreachable:
            # Nothing was begun, so a lost connection is simply replaced.
            return self._lock(wait)

    def _lock(self, wait: bool) -> bool:
        begin = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
        key = lock_key(self.address.schema)
        waiting = "SELECT EXISTS (SELECT 1 FROM inbox)"
        # The timeout also covers tables locked by other clients.
        begin += f"; SET LOCAL lock_timeout = '{LOCK_SECONDS}s'"
        function = "pg_advisory_xact_lock" if wait else "pg_try_advisory_xact_lock"
        mine, waits = self._answers(f"{begin}; SELECT {function}({key})", waiting)
        self._inbox_waits = bool(waits)
        return wait or bool(mine)

    def _answers(self, first: str, second: str) -> tuple[Any, Any]:
        """The results of the last two of several statements, in one round trip."""
        found: list[Any] = []
        with self._named():
            cursor = self._connection().execute(f"{first}; {second}".encode())
            while True:
                if cursor.description is not None:
                    found.append(cursor.fetchone())
                if not cursor.nextset():
                    return found[-2][0], found[-1][0]

    def _commit(self) -> None:
        known, changed = self._known, None
        if self._events and secrets.randbelow(DROP_EVERY) == 0:
            self._drop_old_events()
        try:
            with self._named(), _pipeline(self._connection()) as db:
                self._queue_waiting(db)
                if self._dirty:
                    changed = self._note_change(db)
                self._execute("COMMIT")
            if changed is not None and (row := changed.fetchone()) is not None:
                known = int(row[0]), int(row[1])
        except DatabaseUnreachable as error:
            raise DatabaseUnreachable(
                f"{error} It is not certain whether this change was kept; check, or send it again"
            ) from None
        self._known = known
        if self._watch is not None and known is not None:
            self._watch.heard(known)

    def _order(self) -> None:
        """Assign positions to what waited in the inbox when the lock was granted."""
        if self._inbox_waits:
            self.inbox.order()

    def _note_change(self, db: psycopg.Connection[Any]) -> psycopg.Cursor[Any]:
        tag, channel = secrets.randbits(62), self.address.channel
        if not self._events:
            return db.execute(_translated(CHANGED), (tag, channel))
        kinds, facts = (list(column) for column in zip(*self._events, strict=True))
        values = tag, len(kinds), kinds, kinds, facts, channel
        return db.execute(_translated(CHANGED_AND_TOLD), values)

    def _with_waiting(self, action: Callable[[psycopg.Connection[Any]], Any]) -> Any:
        """Send the buffered rows and run an action, in one round trip."""
        if not self._waiting:
            return action(self._connection())
        with _pipeline(self._connection()) as db:
            self._queue_waiting(db)
            return action(db)

    def _send_waiting(self) -> None:
        if self._waiting:
            with self._named():
                self._with_waiting(lambda db: None)

    def _queue_waiting(self, db: psycopg.Connection[Any]) -> None:
        waiting, self._waiting = self._waiting, []
        for statement, rows in waiting:
            whole = WHOLE_ROWS.fullmatch(statement)
            if whole is not None and whole[1] in TABLES and len(rows) >= ARRAY_ROWS:
                db.execute(
                    _inserting(whole[1]), [list(column) for column in zip(*rows, strict=True)]
                )
                continue
            for row in rows:
                db.execute(_translated(statement), row)

    def _drop_old_events(self) -> None:
        last = "SELECT number FROM events ORDER BY number DESC OFFSET ? LIMIT 1"
        number = self.value(last, KEPT_EVENTS)
        if number is not None:
            self.run("UPDATE state SET dropped_event = ?", number)
            self.run("DELETE FROM events WHERE number <= ?", number)

    def _abandon(self) -> None:
        """Roll back an open transaction, including one left by an interruption."""
        self._view = False
        self._waiting.clear()
        db = self._db
        if db is None or db.closed:
            return
        status = db.info.transaction_status
        if status == TransactionStatus.IDLE:
            return
        try:
            if status in (TransactionStatus.ACTIVE, TransactionStatus.UNKNOWN):
                raise psycopg.OperationalError
            db.execute("ROLLBACK")
        except psycopg.Error:
            db.close()

    def _execute(self, statement: str) -> None:
        with self._named():
            self._connection().execute(statement.encode())

    def _connection(self) -> psycopg.Connection[Any]:
        if self._closed:
            raise MemoryClosed(f"{self.location} was closed; open it again")
        if self._db is None or self._db.closed:
            if self._depth or self._held:
                raise DatabaseUnreachable(f"{self.location}: the connection was lost in a change")
            with self._named():
                self._db = connected(self.address)
        return self._db

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            raise named(self.address, error, writes=self._depth > 0) from None


@cache
def _translated(statement: str) -> bytes:
    """Placeholders in psycopg's syntax; statements come from this package, never from a user."""
    return statement.replace("%", "%%").replace("?", "%s").encode()


@contextlib.contextmanager
def _pipeline(db: psycopg.Connection[Any]) -> Iterator[psycopg.Connection[Any]]:
    """Pipeline mode: results are awaited when they are read; an old libpq waits for each."""
    with db.pipeline() if psycopg.Pipeline.is_supported() else contextlib.nullcontext():
        yield db


@cache
def _inserting(table: str) -> bytes:
    """Insert rows given as one array per column."""
    arrays = ", ".join(f"%b::{kind}[]" for kind in column_types(table))
    return f"INSERT INTO {table} SELECT * FROM unnest({arrays})".encode()


@cache
def _replacing(table: str) -> str:
    names = columns(table)
    key = primary_key(table)
    values = ", ".join("?" * len(names))
    changes = ", ".join(f"{name} = EXCLUDED.{name}" for name in names if name != key)
    return f"INSERT INTO {table} VALUES ({values}) ON CONFLICT ({key}) DO UPDATE SET {changes}"
