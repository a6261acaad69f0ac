"""Connections to the server, and the numbers of advisory locks."""

from collections.abc import Callable
from hashlib import blake2b
from typing import Any, TypeVar

import psycopg
from psycopg import sql

from everlearn.memory.storage.postgres.address import PostgresAddress
from everlearn.memory.storage.postgres.failures import translated

Result = TypeVar("Result")

# How long a client may be idle inside a transaction.
THINK_SECONDS = 600

DEFAULTS = {
    "connect_timeout": 10,
    "application_name": "everlearn",
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
}


def connected(address: PostgresAddress) -> psycopg.Connection[Any]:
    """A connection whose search path is one Memory's schema."""
    settings = {**DEFAULTS, **address.settings}
    db = psycopg.connect(**settings, autocommit=True)
    try:
        path = sql.SQL("SET search_path TO {}, pg_temp").format(sql.Identifier(address.schema))
        db.execute(path)
        # A writer that hangs in a change, or whose machine is gone, must not keep the lock.
        db.execute(f"SET idle_in_transaction_session_timeout = '{THINK_SECONDS}s'".encode())
    except BaseException:
        db.close()
        raise
    return db


class LastingConnection:
    """A connection for single statements, reconnected when it is lost.

    Parameters
    ----------
    address : PostgresAddress
    greet : callable, optional
        Called with each new connection.
    """

    def __init__(
        self,
        address: PostgresAddress,
        greet: Callable[[psycopg.Connection[Any]], None] | None = None,
    ) -> None:
        self._address = address
        self._greet = greet
        self._db: psycopg.Connection[Any] | None = None

    def close(self) -> None:
        if self._db is not None:
            self._db.close()

    def do(
        self, action: Callable[[psycopg.Connection[Any]], Result], *, writes: bool = False
    ) -> Result:
        """Run an idempotent action; if the connection is lost, it is repeated once."""
        with translated(self._address, writes=writes):
            if self._db is not None and not self._db.closed:
                try:
                    return action(self._db)
                except psycopg.OperationalError:
                    if not self._db.closed:
                        raise
            self._db = connected(self._address)
            if self._greet is not None:
                self._greet(self._db)
            return action(self._db)


def lock_key(word: str) -> int:
    """The key of an advisory lock."""
    return int.from_bytes(blake2b(word.encode(), digest_size=8).digest(), "big", signed=True)
