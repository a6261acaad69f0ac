"""Snapshots shared by all processes that use a Memory, stored in pieces as rows of a table.

One process writes a snapshot; the others load it and check its digest (snapshot.py). Caches have a
connection of their own, so that a Memory opened read-only can write them too.
"""

import contextlib
import math
import time
from collections.abc import Iterator
from typing import Any

import psycopg

from everlearn.errors import CannotReach, CannotWrite, NotAMemory
from everlearn.memory.storage.interface import NETWORK_PREFIX
from everlearn.memory.storage.postgres.address import PostgresAddress
from everlearn.memory.storage.postgres.connecting import ReconnectingConnection, lock_key
from everlearn.memory.storage.postgres.database import PostgresDatabase

PIECE_BYTES = 4 << 20
MOST_BYTES = 1 << 30
# Seconds between two checks of whether a snapshot is worth writing.
CHECK_SECONDS = 2.0


class SharedCaches:
    """The table ``caches`` of one Memory.

    Parameters
    ----------
    address : PostgresAddress
    """

    def __init__(self, address: PostgresAddress) -> None:
        self._address = address
        self._connection = ReconnectingConnection(address)
        self._checked_at = -math.inf

    def close(self) -> None:
        self._connection.close()

    def names(self, prefix: str) -> list[str]:
        query = "SELECT name FROM caches WHERE part = 0 AND starts_with(name, %s) ORDER BY name"
        try:
            return [row[0] for row in self.fetch(query, prefix)]
        except NotAMemory:
            return []

    def read(self, name: str) -> bytes:
        rows = self.fetch("SELECT data, parts FROM caches WHERE name = %s ORDER BY part", name)
        if not rows or len(rows) != rows[0][1]:
            raise FileNotFoundError(name)
        return b"".join(row[0] for row in rows)

    def view(self, name: str) -> memoryview:
        return memoryview(self.read(name))

    def write(self, name: str, data: bytes) -> None:
        if len(data) > MOST_BYTES:
            raise CannotWrite(
                f"{name} has {len(data)} bytes; at most {MOST_BYTES} are shared through a database"
            )
        starts = range(0, max(len(data), 1), PIECE_BYTES)

        def replace(db: psycopg.Connection[Any]) -> None:
            with db.transaction():
                db.execute("SELECT pg_advisory_xact_lock(%s)", (lock_key(f"cache {name}"),))
                db.execute("DELETE FROM caches WHERE name = %s", (name,))
                for part, start in enumerate(starts):
                    row = name, part, len(starts), data[start : start + PIECE_BYTES]
                    db.execute("INSERT INTO caches VALUES (%s, %s, %s, %s)", row)

        try:
            self._connection.run(replace, writes=True)
        except NotAMemory:
            # A restore copies networks before there are any tables.
            PostgresDatabase(self._address, write=True).close()
            self._connection.run(replace, writes=True)

    def remove(self, name: str) -> None:
        self.change("DELETE FROM caches WHERE name = %s", name)

    def tidy(self) -> None:
        """Nothing to do: transactions leave no partial writes."""

    @contextlib.contextmanager
    def snapshot_lock(self, *, now: bool) -> Iterator[bool]:
        if not now and time.monotonic() < self._checked_at + CHECK_SECONDS:
            yield False
            return
        self._checked_at = time.monotonic()
        key = lock_key(f"snapshot {self._address.schema}")
        locked = bool(self.fetch("SELECT pg_try_advisory_lock(%s)", key)[0][0])
        try:
            yield locked
        finally:
            if locked:
                # A lost connection has released the lock.
                with contextlib.suppress(CannotReach):
                    self.fetch("SELECT pg_advisory_unlock(%s)", key)

    def collected(self, key: str) -> "SharedCollected":
        return SharedCollected(self, key)

    def remove_collected(self) -> None:
        self.change("DELETE FROM collected")

    def remove_derived(self) -> bool:
        """Nothing to do: networks and ingested parts are kept beside folders only."""
        return True

    def remaining(self) -> list[str]:
        return self.names(NETWORK_PREFIX)

    def older_than(self, when: float) -> list[str]:
        return []

    def fetch(self, query: str, *values: Any) -> list[Any]:
        """The rows of a query."""

        def fetch(db: psycopg.Connection[Any]) -> list[Any]:
            with db.cursor(binary=True) as cursor:
                return cursor.execute(query.encode(), values).fetchall()

        return self._connection.run(fetch)

    def change(self, statement: str, *values: Any) -> None:
        """Execute an idempotent statement."""
        self._connection.run(lambda db: db.execute(statement.encode(), values), writes=True)


class SharedCollected:
    """Vectors of one embedder, collected during a re-embedding."""

    def __init__(self, caches: SharedCaches, key: str) -> None:
        self._caches = caches
        self._key = key

    def known(self) -> dict[bytes, bytes]:
        query = "SELECT digest, vector FROM collected WHERE key = %s"
        return dict(self._caches.fetch(query, self._key))

    def add(self, digest: bytes, vector: bytes) -> None:
        self._caches.change(
            "INSERT INTO collected VALUES (%s, %s, %s) ON CONFLICT (key, digest) "
            "DO UPDATE SET vector = EXCLUDED.vector",
            self._key,
            digest,
            vector,
        )

    def close(self) -> None:
        """Nothing to do: rows are committed as they are added."""
