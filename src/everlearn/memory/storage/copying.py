"""Copies a journal from one storage engine to another, row by row and bit by bit."""

from itertools import islice

from everlearn.memory.storage.interface import Database
from everlearn.memory.storage.schema import TABLES

ROWS_AT_A_TIME = 1000


def copy_rows(source: Database, target: Database) -> None:
    """Replace all rows of ``target`` by those of ``source``.

    Call inside a read transaction of ``source`` and a transaction of ``target``.
    """
    for table in TABLES:
        target.run(f"DELETE FROM {table}")
        if not source.has_table(table):
            continue
        rest = source.each(f"SELECT * FROM {table}")
        while rows := list(islice(rest, ROWS_AT_A_TIME)):
            marks = ", ".join("?" * len(rows[0]))
            target.run_many(f"INSERT INTO {table} VALUES ({marks})", rows)
