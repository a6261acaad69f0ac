"""Change events of a Memory: read from a table, delivered at least once per consumer.

Every change writes its events in its own transaction (database.py), so no event is lost or reports
a change that was rolled back. Numbers are assigned while the Memory's lock is held: they increase
in the order of commits, and a reader that follows them misses none.

A consumer (a webhook, a broker) is notified by one process at a time. That process holds the
consumer's advisory lock for as long as its connection lives and records its progress in
``cursors``. When it ends, another process gets the lock and continues from there. Events that were
delivered but not yet recorded are delivered again, with the same number.
"""

import contextlib
import json
from typing import Any

import psycopg
from psycopg import sql

from everlearn.memory.storage.interface import StoredEvent
from everlearn.memory.storage.postgres.address import PostgresAddress
from everlearn.memory.storage.postgres.connecting import ReconnectingConnection, lock_key


class PostgresEvents:
    """The events of one Memory.

    Parameters
    ----------
    address : PostgresAddress
    """

    def __init__(self, address: PostgresAddress) -> None:
        self._address = address
        self._connection = ReconnectingConnection(address, self._on_connect)
        self._led: set[str] = set()

    def close(self) -> None:
        self._connection.close()

    def last(self) -> int:
        return int(self._row("SELECT last_event FROM state")[0])

    def after(self, number: int, limit: int) -> list[StoredEvent]:
        query = (
            "SELECT number, time, kind, facts FROM events WHERE number > %s ORDER BY number "
            "LIMIT %s"
        )
        found = self._connection.run(lambda db: db.execute(query, (number, limit)).fetchall())
        return [StoredEvent(row[0], row[1], row[2], json.loads(row[3])) for row in found]

    def wait(self, seconds: float) -> None:
        def listen(db: psycopg.Connection[Any]) -> None:
            with contextlib.closing(db.notifies(timeout=seconds, stop_after=1)) as notices:
                for _ in notices:
                    return

        self._connection.run(listen)

    def lead(self, consumer: str) -> bool:
        key = lock_key(f"events {self._address.schema} {consumer}")
        self._row("SELECT 1")  # notices a lost connection, and with it lost locks
        if consumer not in self._led and self._row("SELECT pg_try_advisory_lock(%s)", key)[0]:
            self._led.add(consumer)
        return consumer in self._led

    def cursor(self, consumer: str, start: int) -> int:
        query = "SELECT number FROM cursors WHERE consumer = %s"
        found = self._row(query, consumer)
        if found is None:
            begin = "INSERT INTO cursors VALUES (%s, %s) ON CONFLICT DO NOTHING"
            self._connection.run(lambda db: db.execute(begin, (consumer, start)), writes=True)
            found = self._row(query, consumer)
        return int(found[0])

    def advance(self, consumer: str, number: int) -> None:
        change = "UPDATE cursors SET number = %s WHERE consumer = %s AND number < %s"
        self._connection.run(lambda db: db.execute(change, (number, consumer, number)), writes=True)

    def _row(self, query: str, *values: Any) -> Any:
        return self._connection.run(lambda db: db.execute(query.encode(), values).fetchone())

    def _on_connect(self, db: psycopg.Connection[Any]) -> None:
        self._led.clear()  # the server released the locks of the previous connection
        db.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._address.channel)))
