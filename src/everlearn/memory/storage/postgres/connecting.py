"""Connections to the server, and the keys of advisory locks."""

from collections.abc import Callable
from hashlib import blake2b
from typing import Any, TypeVar

import psycopg
from psycopg import sql

from everlearn.memory.storage.postgres.address import PostgresAddress
from everlearn.memory.storage.postgres.failures import translate_errors

Result = TypeVar("Result")

# How long a client may be idle inside a transaction.
IDLE_IN_TRANSACTION_SECONDS = 600

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
        # Ends the transaction, and so releases the lock, of a writer that hangs or is gone.
        db.execute(
            f"SET idle_in_transaction_session_timeout = '{IDLE_IN_TRANSACTION_SECONDS}s'".encode()
        )
    except BaseException:
        db.close()
        raise
    return db


class ReconnectingConnection:
    """A connection for single statements, reconnected when it is lost.

    Parameters
    ----------
    address : PostgresAddress
    on_connect : callable, optional
        Called with each new connection.
    """

    def __init__(
        self,
        address: PostgresAddress,
        on_connect: Callable[[psycopg.Connection[Any]], None] | None = None,
    ) -> None:
        self._address = address
        self._on_connect = on_connect
        self._db: psycopg.Connection[Any] | None = None

    def close(self) -> None:
        if self._db is not None:
            self._db.close()

    def run(
        self, action: Callable[[psycopg.Connection[Any]], Result], *, writes: bool = False
    ) -> Result:
        """Run an idempotent action; it is repeated once if the connection is lost."""
        with translate_errors(self._address, writes=writes):
            if self._db is not None and not self._db.closed:
                try:
                    return action(self._db)
                except psycopg.OperationalError:
                    if not self._db.closed:
                        raise
            self._db = self._connect()
            return action(self._db)

    def _connect(self) -> psycopg.Connection[Any]:
        db = connected(self._address)
        try:
            if self._on_connect is not None:
                self._on_connect(db)
        except BaseException:
            db.close()
            raise
        return db


def lock_key(name: str) -> int:
    """The number by which PostgreSQL knows the advisory lock of this name."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "big", signed=True)
