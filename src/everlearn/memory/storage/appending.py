"""Appends to the journal: teachings, and entries of the log about them.

Every change to what counts is an entry of the *log*, a teaching with a sign:

    teach       +1 the new teaching
    forget      −1 a teaching that counts
    rename into a name that exists   −1 under the old name, +1 under the new
    undo, redo  the entries of an operation, signs reversed                    (operations.py)

Entries are never removed or changed; an erase writes the log anew (erase.py). A teaching's row says
whether it counts: it has the position of its last entry, or none if that is negative. Every row is
validated before it is written (rows.py). Call these functions inside a transaction.
"""

import time
from collections.abc import Iterable, Sequence
from typing import Any

from everlearn.memory.storage.interface import damaged_journal
from everlearn.memory.storage.journal import Journal, rows_among
from everlearn.memory.storage.regions import box_row, write_proposals
from everlearn.memory.storage.rows import (
    BEGINNING,
    Example,
    as_stored,
    content_digest,
    next_chain,
    require_row,
    require_width,
    row_checksum,
)
from everlearn.memory.storage.schema import PICTURES


def add_teaching(journal: Journal, operation: int, name: str, example: Example) -> int:
    """Add one teaching; returns its id."""
    return add_teachings(journal, operation, [(name, example)])[0]


def add_teachings(
    journal: Journal, operation: int, examples: Sequence[tuple[str, Example]]
) -> list[int]:
    """Add teachings in this order; returns their ids. The number of statements is constant."""
    names = _ids_for_names(journal, (name for name, _ in examples))
    first = _next_teaching_id(journal)
    position, chain = _last_entry(journal)
    tables: dict[str, list[tuple[Any, ...]]] = {
        table: [] for table in ("vectors", "thumbnails", "images", "boxes", "log", "teachings")
    }
    for teaching, (name, example) in enumerate(examples, start=first):
        require_width(len(example.vector))
        vector = example.vector.astype("<f4", copy=False).tobytes()
        content = content_digest(vector)
        tables["vectors"].append((teaching, vector))
        pictures = 0
        for table, data in (("thumbnails", example.thumbnail), ("images", example.image)):
            if data:
                pictures |= PICTURES[table]
                checksum = row_checksum(table, teaching, content_digest(data))
                tables[table].append((teaching, data, checksum))
        if example.region is not None:
            pictures |= PICTURES["boxes"]
            tables["boxes"].append(box_row(teaching, example.region))
        if example.proposals is not None:
            write_proposals(journal, example.digest, example.proposals)
        position += 1
        taught_at = time.time() if example.taught_at is None else example.taught_at
        entry = position, operation, teaching, names[name], +1
        chain = next_chain(chain, *entry, content)
        tables["log"].append((*entry, chain))
        source = as_stored(example.source)
        row = (
            teaching, position, names[name], taught_at, source,
            example.digest, content, pictures,
        )  # fmt: skip
        require_row("teachings", row)
        tables["teachings"].append((*row, row_checksum("teachings", *row)))
    for table, rows in tables.items():
        if rows:
            marks = ", ".join("?" * len(rows[0]))
            journal.db.run_many(f"INSERT INTO {table} VALUES ({marks})", rows)
    return list(range(first, first + len(examples)))


def stop_counting(journal: Journal, operation: int, teachings: Iterable[int]) -> None:
    """Append a negative entry for each of these teachings, which count."""
    for teaching in teachings:
        name_id = journal.db.value("SELECT name FROM teachings WHERE id = ?", teaching)
        append_entry(journal, operation, teaching, name_id, -1)


def move(journal: Journal, operation: int, teachings: Iterable[int], into: str) -> None:
    """Count these teachings under another name."""
    name_id = _id_for_name(journal, into)
    for teaching in teachings:
        before = journal.db.value("SELECT name FROM teachings WHERE id = ?", teaching)
        append_entry(journal, operation, teaching, before, -1)
        append_entry(journal, operation, teaching, name_id, +1)


def append_entry(journal: Journal, operation: int, teaching: int, name_id: int, sign: int) -> None:
    """Append a log entry about an existing teaching."""
    row = journal.db.row(
        "SELECT time, source, digest, content, pictures FROM teachings WHERE id = ?", teaching
    )
    if row is None:
        raise damaged_journal(journal.db, f"teaching {teaching} is missing")
    position = _append_to_log(journal, operation, teaching, name_id, sign, row[3])
    _write_teaching(journal, teaching, (position if sign > 0 else None, name_id, *row))


def set_source(journal: Journal, teaching: int, source: str) -> None:
    """Give a teaching another source."""
    row = journal.db.row(
        "SELECT position, name, time, digest, content, pictures FROM teachings WHERE id = ?",
        teaching,
    )
    _write_teaching(journal, teaching, (*row[:3], as_stored(source), *row[3:]))


def set_name(journal: Journal, name_id: int, name: str) -> None:
    """Give an id another name; if that name has an id, the two ids swap their names."""
    other, before = journal.id_of_name(name), journal.name_by_id(name_id)
    if other is not None:
        journal.db.run("UPDATE names SET name = '' WHERE id = ?", other)
    _write_name(journal, name_id, name)
    if other is not None:
        _write_name(journal, other, before)


def _id_for_name(journal: Journal, name: str) -> int:
    return _ids_for_names(journal, [name])[name]


def _ids_for_names(journal: Journal, names: Iterable[str]) -> dict[str, int]:
    """The ids of names; new names get the next ids, in their order."""
    wanted = dict.fromkeys(names)
    known = dict(rows_among(journal.db, "SELECT name, id FROM names WHERE name", wanted))
    if len(known) < len(wanted):
        last = int(journal.db.value("SELECT MAX(id) FROM names") or 0)
        new = [name for name in wanted if name not in known]
        for name_id, name in enumerate(new, start=last + 1):
            _write_name(journal, name_id, name)
            known[name] = name_id
    return known


def _write_name(journal: Journal, name_id: int, name: str) -> None:
    require_row("names", (name_id, name))
    row = name_id, name, row_checksum("names", name_id, name)
    journal.db.replace("names", *row)


def _next_teaching_id(journal: Journal) -> int:
    # Ids are never reused, even after the last teachings were erased.
    used = int(journal.fact("teachings_used") or 0)
    return max(used, int(journal.db.value("SELECT MAX(id) FROM teachings") or 0)) + 1


def _write_teaching(journal: Journal, teaching: int, row: tuple[object, ...]) -> None:
    require_row("teachings", (teaching, *row))
    checksum = row_checksum("teachings", teaching, *row)  # type: ignore[arg-type]
    journal.db.replace("teachings", teaching, *row, checksum)


def _append_to_log(
    journal: Journal, operation: int, teaching: int, name_id: int, sign: int, content: bytes
) -> int:
    before, chain = _last_entry(journal)
    entry = before + 1, operation, teaching, name_id, sign
    journal.db.run(
        "INSERT INTO log VALUES (?, ?, ?, ?, ?, ?)", *entry, next_chain(chain, *entry, content)
    )
    return int(entry[0])


def _last_entry(journal: Journal) -> tuple[int, bytes]:
    """Position and chain of the last entry."""
    last = journal.db.row("SELECT position, chain FROM log ORDER BY position DESC LIMIT 1")
    return last or (0, BEGINNING)
