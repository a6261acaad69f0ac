"""Making a Memory's tables, and bringing older ones up to date, under the Memory's lock.

Two processes that open a new Memory at once make it once. Every step is one transaction: PostgreSQL
undoes half of a ``CREATE TABLE`` as it undoes half of a row.
"""

from collections.abc import Callable
from typing import Any

import psycopg
from psycopg import sql

from everlearn.errors import NewerFormat
from everlearn.memory.storage.postgres.address import PostgresAddress
from everlearn.memory.storage.postgres.tables import statements, statements_for_boxes
from everlearn.memory.storage.schema import FORMAT_VERSION, WITHOUT_BOXES

Step = Callable[[psycopg.Connection[Any]], None]


def _add_boxes(db: psycopg.Connection[Any]) -> None:
    for statement in statements_for_boxes():
        db.execute(statement.encode())


# From which format a step leads to the next one.
STEPS: dict[int, Step] = {WITHOUT_BOXES: _add_boxes}


def prepare(db: psycopg.Connection[Any], address: PostgresAddress, key: int) -> None:
    """Make what is missing; nothing happens where everything is there."""
    if _format(db) == FORMAT_VERSION:
        return
    with db.transaction():
        db.execute("SELECT pg_advisory_xact_lock(%s)", (key,))
        found = _format(db)
        if found is None:
            schema = sql.Identifier(address.schema)
            db.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(schema))
            for statement in statements():
                db.execute(statement.encode())
            return
        if found > FORMAT_VERSION:
            raise NewerFormat(
                f"{address} has format version {found}, this everlearn reads up to "
                f"{FORMAT_VERSION}; upgrade everlearn to open it"
            )
        for version in range(found, FORMAT_VERSION):
            STEPS[version](db)
            db.execute("UPDATE state SET format = %s", (version + 1,))


def _format(db: psycopg.Connection[Any]) -> int | None:
    """The format of the tables there are; ``None`` where there are none."""
    there = db.execute("SELECT to_regclass('state') IS NOT NULL").fetchone()
    if there is None or not there[0]:
        return None
    row = db.execute("SELECT format FROM state").fetchone()
    return None if row is None else int(row[0])
