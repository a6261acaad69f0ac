"""Rights on a Memory in a database, as PostgreSQL privileges.

asker      reads the journal and the snapshots: ``Memory(…, read_only=True)``
teacher    also adds teachings to the inbox; a writer or the owner assigns their positions
writer     also writes the journal: can change everything, but not finish an erase
owner      created the tables: can also migrate them, and rewrite them to finish an erase
"""

import re
from typing import Any

import psycopg
from psycopg import sql

from everlearn.errors import InvalidParameter
from everlearn.memory.storage.postgres.address import PostgresAddress
from everlearn.memory.storage.postgres.connecting import connected
from everlearn.memory.storage.postgres.failures import translate_errors
from everlearn.memory.storage.postgres.tables import ALL_TABLES
from everlearn.memory.storage.schema import TABLES

KINDS = ("asker", "teacher", "writer")
ROLE = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,62}")
SEQUENCE = "inbox_id_seq"


def grant(address: PostgresAddress, role: str, kind: str) -> bool:
    """Give a role the rights of a kind on one Memory; returns whether the role was created.

    A created role may log in and has no password; the administrator sets one.
    """
    if kind not in KINDS:
        raise InvalidParameter(f"rights are one of {', '.join(KINDS)}, not {kind!r}")
    if not ROLE.fullmatch(role):
        raise InvalidParameter(
            f"the name of a role has letters, digits, dashes and underscores; {role!r} does not"
        )
    with translate_errors(address, writes=True), connected(address) as db, db.transaction():
        known = db.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (role,)).fetchone()
        if known is None:
            db.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(role)))
        _revoke(db, address, role)
        _run(db, "GRANT USAGE ON SCHEMA {schema} TO {role}", address, role)
        for privileges, tables in _privileges(kind).items():
            for table in tables:
                _run(db, f"GRANT {privileges} ON {{schema}}.{table} TO {{role}}", address, role)
        if kind != "asker":
            _run(db, f"GRANT USAGE ON SEQUENCE {{schema}}.{SEQUENCE} TO {{role}}", address, role)
        return known is None


def _privileges(kind: str) -> dict[str, tuple[str, ...]]:
    """Lists of privileges, each with its tables."""
    readable = *TABLES, "state", "caches", "events"
    if kind == "asker":
        return {"SELECT": readable}
    if kind == "teacher":
        return {"SELECT": (*readable, "requests"), "SELECT, INSERT": ("inbox",)}
    return {"SELECT, INSERT, UPDATE, DELETE": ALL_TABLES}


def _revoke(db: psycopg.Connection[Any], address: PostgresAddress, role: str) -> None:
    """Revoke all earlier rights of the role."""
    for what in ("ALL TABLES", "ALL SEQUENCES"):
        _run(db, f"REVOKE ALL ON {what} IN SCHEMA {{schema}} FROM {{role}}", address, role)


def _run(db: psycopg.Connection[Any], text: str, address: PostgresAddress, role: str) -> None:
    names = {"schema": sql.Identifier(address.schema), "role": sql.Identifier(role)}
    db.execute(sql.SQL(text).format(**names))
