"""Creates and migrates a Memory's tables, under the Memory's lock.

Two processes that open a new Memory at once create it once. Every step is one transaction:
PostgreSQL rolls back ``CREATE TABLE`` like any other statement.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import psycopg
from psycopg import sql

from everlearn.errors import NewerFormat
from everlearn.memory.storage.postgres.address import PostgresAddress
from everlearn.memory.storage.postgres.tables import (
    SHARED_VERSION,
    creation_statements,
    event_upgrade_statements,
    journal_upgrade_statements,
)
from everlearn.memory.storage.schema import FORMAT_VERSION, TABLES, has_table

# Version before there were events.
WITHOUT_EVENTS = 1


class Versions(NamedTuple):
    """Versions of the journal's tables, shared with folders, and of PostgreSQL's own tables."""

    journal: int
    shared: int


CURRENT = Versions(FORMAT_VERSION, SHARED_VERSION)


def prepare(db: psycopg.Connection[Any], address: PostgresAddress, key: int) -> None:
    """Create what is missing; does nothing if everything exists."""
    if found_versions(db) == CURRENT:
        return
    with db.transaction():
        db.execute("SELECT pg_advisory_xact_lock(%s)", (key,))
        found = found_versions(db)
        if found is None:
            schema = sql.Identifier(address.schema)
            db.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(schema))
            _run(db, creation_statements())
            return
        require_known(found, address)
        if found.shared == WITHOUT_EVENTS:
            _run(db, event_upgrade_statements())
            _extend_rights(db, readable=("events",), writable=("events", "cursors"))
        if found.journal < FORMAT_VERSION:
            _run(db, journal_upgrade_statements(found.journal))
            new = tuple(table for table in TABLES if not has_table(found.journal, table))
            _extend_rights(db, readable=new, writable=new)
        db.execute("UPDATE state SET format = %s, shared = %s", CURRENT)


def require_known(found: Versions, address: PostgresAddress) -> None:
    """Refuse tables of a later version than this everlearn's."""
    for version, known in zip(found, CURRENT, strict=True):
        if version > known:
            raise NewerFormat(
                f"{address} has format version {version}, this everlearn reads up to {known}; "
                "upgrade everlearn to open it"
            )


def found_versions(db: psycopg.Connection[Any]) -> Versions | None:
    """The versions of the existing tables; ``None`` if there are none."""
    there = db.execute("SELECT to_regclass('state') IS NOT NULL").fetchone()
    if there is None or not there[0]:
        return None
    row = db.execute("SELECT to_jsonb(state) FROM state").fetchone()
    if row is None:
        return None
    return Versions(int(row[0]["format"]), int(row[0].get("shared", WITHOUT_EVENTS)))


def _extend_rights(
    db: psycopg.Connection[Any], *, readable: tuple[str, ...], writable: tuple[str, ...]
) -> None:
    """Grant roles that can write (or only read) the log the same on the new tables."""
    granted = db.execute(
        "SELECT DISTINCT grantee, privilege_type FROM information_schema.role_table_grants WHERE "
        "table_schema = current_schema() AND table_name = 'log' AND grantee <> current_user AND "
        "privilege_type IN ('SELECT', 'INSERT', 'UPDATE', 'DELETE')"
    ).fetchall()
    writers = {role for role, right in granted if right == "INSERT"}
    for role, right in granted:
        tables = ", ".join(writable if role in writers else readable)
        text = sql.SQL("GRANT {} ON {} TO {}")
        db.execute(text.format(sql.SQL(right), sql.SQL(tables), sql.Identifier(role)))


def _run(db: psycopg.Connection[Any], statements: Iterable[str]) -> None:
    for statement in statements:
        db.execute(statement.encode())
