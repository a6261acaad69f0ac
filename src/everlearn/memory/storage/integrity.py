"""What a journal must look like before anything it says is believed.

A folder may be damaged, and it may come from somebody who means harm. Before a journal is used, its
schema is compared word by word, SQLite checks the structure of the tables with small rows and their
indexes, and every one of those rows is looked at: kinds, sizes, ranges, checksums. Vectors and
pictures are large, so they are looked at when they are read (journal.py).
"""

from collections.abc import Callable, Iterable
from math import isfinite
from typing import Any

from everlearn.errors import DamagedJournal, InvalidLabel
from everlearn.images.folders import require_name
from everlearn.memory.storage.checksums import BEGINNING, SIZE, linked, row_checksum
from everlearn.memory.storage.interface import Database
from everlearn.memory.storage.journal import Journal
from everlearn.memory.storage.schema import PICTURES, SMALL_TABLES

SHA256_BYTES = 32
LONGEST_SOURCE = 32_768
LONGEST_FACT = 1 << 24
MOST_FEATURES = 1 << 24
KINDS = {"teach", "forget", "rename", "merge", "correct", "name", "reembed", "erase"}

Check = Callable[[tuple[Any, ...]], bool]


def require_sound(journal: Journal) -> None:
    """Every small row is whole, intact and makes sense; raises ``DamagedJournal``."""
    db = journal.db
    db.require_ours()
    boxed = db.has_boxes()
    for table in (*SMALL_TABLES, *(("boxes",) if boxed else ())):
        db.require_structure(table)
    _require_rows(db, "facts", "key, value, seal", _valid_fact)
    _require_rows(db, "names", "id, name, seal", _valid_name)
    _require_rows(
        db,
        "operations",
        "id, kind, time, turns, dropped, name, called, seal",
        _valid_operation,
    )
    _require_rows(
        db,
        "teachings",
        "id, position, name, time, source, digest, content, pictures, seal",
        _valid_teaching,
    )
    if boxed:
        _require_rows(db, "boxes", "teaching, x0, y0, x1, y1, found, seal", _sound_box)
        _require_boxes_of_teachings(db)
    _require_consistent_log(db)
    _require_chain(db)
    _require_readable_facts(journal)


def damaged(db: Database, what: str) -> DamagedJournal:
    return DamagedJournal(
        f"{db.location} is damaged: {what}; restore it from a backup (everlearn restore)"
    )


def _require_rows(db: Database, table: str, columns: str, valid: Check) -> None:
    for row in db.each(f"SELECT {columns} FROM {table}"):
        if not (
            isinstance(row[-1], bytes) and valid(row) and row[-1] == row_checksum(table, *row[:-1])
        ):
            raise damaged(db, f"row {row[0]!r:.40} of {table} was altered")


def _valid_fact(row: tuple[Any, ...]) -> bool:
    return _kinds(row, (str, str, bytes)) and len(row[1]) <= LONGEST_FACT


def _valid_name(row: tuple[Any, ...]) -> bool:
    if not _kinds(row, (int, str, bytes)) or row[0] < 1:
        return False
    try:
        require_name(row[1])
    except InvalidLabel:
        return False
    return True


def _valid_operation(row: tuple[Any, ...]) -> bool:
    number, kind, when, turns, dropped, name, called, _ = row
    return (
        _kinds((number, kind, when, turns, dropped), (int, str, float, int, int))
        and number >= 1
        and kind in KINDS
        and isfinite(when)
        and turns >= 0
        and dropped in (0, 1)
        and (name is None or isinstance(name, int))
        and (called is None or isinstance(called, str))
        and (name is None or called is not None)
    )


def _valid_teaching(row: tuple[Any, ...]) -> bool:
    number, position, name, when, source, digest, content, pictures, _ = row
    return (
        _kinds((number, name, when, source, digest, content), (int, int, float, str, bytes, bytes))
        and number >= 1
        and (position is None or isinstance(position, int))
        and isfinite(when)
        and len(source) <= LONGEST_SOURCE
        and len(digest) == SHA256_BYTES
        and len(content) == SIZE
        and isinstance(pictures, int)
        and 0 <= pictures <= sum(PICTURES.values())
    )


def _sound_box(row: tuple[Any, ...]) -> bool:
    teaching, x0, y0, x1, y1, found, _ = row
    return (
        _kinds(row[:-1], (int, float, float, float, float, int))
        and teaching >= 1
        and 0.0 <= x0 < x1 <= 1.0
        and 0.0 <= y0 < y1 <= 1.0
        and found in (0, 1)
    )


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


def _kinds(values: tuple[Any, ...], kinds: tuple[type, ...]) -> bool:
    return tuple(map(type, values)) == kinds
