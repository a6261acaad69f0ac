"""A journal from one engine to another: the same rows, so the same bits."""

from itertools import islice

from everlearn.memory.storage.interface import Database
from everlearn.memory.storage.schema import TABLES

ROWS_AT_A_TIME = 1000


def copy_rows(source: Database, target: Database) -> None:
    """Put the rows of one journal in the place of another's; inside a transaction of the other."""
    for table in TABLES:
        target.run(f"DELETE FROM {table}")
        if not source.has_table(table):
            continue
        rest = source.each(f"SELECT * FROM {table}")
        while rows := list(islice(rest, ROWS_AT_A_TIME)):
            marks = ", ".join("?" * len(rows[0]))
            target.run_many(f"INSERT INTO {table} VALUES ({marks})", rows)
