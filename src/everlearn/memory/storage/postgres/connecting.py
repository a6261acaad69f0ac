"""Connections to the server, and the numbers of advisory locks."""

from hashlib import blake2b
from typing import Any

import psycopg
from psycopg import sql

from everlearn.memory.storage.postgres.address import PostgresAddress

# How long a client may think between two statements of a transaction.
THINK_SECONDS = 600

DEFAULTS = {
    "connect_timeout": 10,
    "application_name": "everlearn",
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
}


def connected(address: PostgresAddress) -> psycopg.Connection[Any]:
    """A connection that sees one Memory's tables, and no others by accident."""
    settings = {**DEFAULTS, **address.settings}
    db = psycopg.connect(**settings, autocommit=True)
    try:
        path = sql.SQL("SET search_path TO {}, pg_temp").format(sql.Identifier(address.schema))
        db.execute(path)
        # A writer that hangs in a change, or whose machine is gone, does not keep the lock.
        db.execute(f"SET idle_in_transaction_session_timeout = '{THINK_SECONDS}s'".encode())
    except BaseException:
        db.close()
        raise
    return db


def lock_key(word: str) -> int:
    """The number of an advisory lock."""
    return int.from_bytes(blake2b(word.encode(), digest_size=8).digest(), "big", signed=True)
