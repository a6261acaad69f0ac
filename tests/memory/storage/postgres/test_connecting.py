"""Connections that are reopened when they are lost."""

import contextlib

import psycopg
import pytest

from everlearn import Memory
from everlearn.errors import CannotReach
from everlearn.memory.storage.postgres.address import parse_address
from everlearn.memory.storage.postgres.connecting import ReconnectingConnection


def backend(db):
    return db.execute("SELECT pg_backend_pid()").fetchone()[0]


def test_a_connection_is_only_used_after_its_setup_succeeded(address):
    Memory(address).close()
    prepared = []

    def prepare(db):
        prepared.append(backend(db))
        if len(prepared) == 1:
            raise psycopg.OperationalError

    connection = ReconnectingConnection(parse_address(address), prepare)
    with contextlib.closing(connection):
        with pytest.raises(CannotReach):
            connection.run(backend)
        assert connection.run(backend) == prepared[1]
        assert connection.run(backend) == prepared[1]
