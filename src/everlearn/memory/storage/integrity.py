"""Integrity checks of a journal before any of its content is used.

A folder may be damaged, and it may come from somebody who means harm. Before a journal is used, its
schema is compared word by word, SQLite checks the structure of the tables with small rows and their
indexes, and every one of those rows is looked at: kinds, sizes, ranges (rows.py), checksums.
Vectors and pictures are large, so they are looked at when they are read (journal.py).
"""

from collections.abc import Iterable

from everlearn.errors import DamagedJournal
from everlearn.memory.storage.interface import Database
from everlearn.memory.storage.journal import Journal
from everlearn.memory.storage.rows import BEGINNING, MOST_FEATURES, VALID, linked, row_checksum
from everlearn.memory.storage.schema import PICTURES, SMALL_TABLES


def require_sound(journal: Journal) -> None:
    """Every small row is whole, intact and makes sense; raises ``DamagedJournal``."""
    db = journal.db
    db.require_ours()
    boxed = db.has_boxes()
    for table in (*SMALL_TABLES, *(("boxes",) if boxed else ())):
        db.require_structure(table)
    _require_rows(db, "facts", "key, value")
    _require_rows(db, "names", "id, name")
    _require_rows(db, "operations", "id, kind, time, turns, dropped, name, called")
    _require_rows(db, "teachings", "id, position, name, time, source, digest, content, pictures")
    if boxed:
        _require_rows(db, "boxes", "teaching, x0, y0, x1, y1, found")
        _require_boxes_of_teachings(db)
    _require_consistent_log(db)
    _require_chain(db)
    _require_readable_facts(journal)


def damaged(db: Database, what: str) -> DamagedJournal:
    return DamagedJournal(
        f"{db.location} is damaged: {what}; restore it from a backup (everlearn restore)"
    )


def _require_rows(db: Database, table: str, columns: str) -> None:
    for *row, kept in db.each(f"SELECT {columns}, seal FROM {table}"):
        if not (VALID[table](tuple(row)) and kept == row_checksum(table, *row)):
            raise damaged(db, f"row {row[0]!r:.40} of {table} was altered")


def _require_boxes_of_teachings(db: Database) -> None:
    """A teaching has a box if it says so, and a box a teaching."""
    query = (
        "SELECT 1 FROM teachings LEFT JOIN boxes ON teaching = id "
        "WHERE (pictures & ? != 0) != (teaching IS NOT NULL) "
        "UNION SELECT 1 FROM boxes WHERE teaching NOT IN (SELECT id FROM teachings) LIMIT 1"
    )
    if db.row(query, PICTURES["boxes"]) is not None:
        raise damaged(db, "a teaching has lost its box, or a box its teaching")


def _require_chain(db: Database) -> None:
    """Every entry of the log is what was written, also those before a snapshot."""
    chain = BEGINNING
    for kept, *entry in db.each(
        "SELECT chain, log.position, operation, teaching, log.name, sign, content FROM log "
        "JOIN teachings ON teachings.id = teaching ORDER BY log.position"
    ):
        chain = linked(chain, *entry)
        if chain != kept:
            raise damaged(db, f"entry {entry[0]} of the log was altered")


def _require_consistent_log(db: Database) -> None:
    """Positions without a gap, and every number means something."""
    count, first, last = db.row("SELECT COUNT(*), MIN(position), MAX(position) FROM log")
    if count and (first, last) != (1, count):
        raise damaged(db, "the log has gaps")
    questions = {
        "an entry of the log is not one": (
            "SELECT 1 FROM log WHERE length(chain) != 16 OR sign NOT IN (1, -1)"
        ),
        "a name, teaching or operation is missing": (
            "SELECT 1 FROM log WHERE operation NOT IN (SELECT id FROM operations) "
            "OR teaching NOT IN (SELECT id FROM teachings) OR name NOT IN (SELECT id FROM names)"
        ),
        "a teaching has a name that is missing": (
            "SELECT 1 FROM teachings WHERE name NOT IN (SELECT id FROM names)"
        ),
        "an operation is about a name that is missing": (
            "SELECT 1 FROM operations WHERE name IS NOT NULL AND name NOT IN (SELECT id FROM names)"
        ),
        "a teaching counts by an entry that is not its own": (
            "SELECT 1 FROM teachings LEFT JOIN log ON log.position = teachings.position "
            "WHERE teachings.position IS NOT NULL AND (log.position IS NULL "
            "OR log.teaching != teachings.id OR log.name != teachings.name OR log.sign != 1)"
        ),
        "what counts is not what the log says": (
            "SELECT 1 WHERE (SELECT COUNT(*) FROM teachings WHERE position IS NOT NULL) "
            "!= (SELECT COALESCE(SUM(sign), 0) FROM log)"
        ),
    }
    for what, query in questions.items():
        if db.row(f"{query} LIMIT 1") is not None:
            raise damaged(db, what)


def _require_readable_facts(journal: Journal) -> None:
    numbers: Iterable[tuple[str, int]] = (
        ("n_features", MOST_FEATURES),
        ("teachings_used", 1 << 62),
    )
    for key, most in numbers:
        value = journal.fact(key)
        if value is not None and not (value.isascii() and value.isdigit() and int(value) <= most):
            raise damaged(journal.db, f"the fact {key} is not a number that makes sense")
