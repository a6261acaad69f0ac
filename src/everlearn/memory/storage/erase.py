"""Erases teachings from the history itself, so that no byte of them remains.

The log is rewritten to hold only what still counts, in the order it was taught, with names and
positions numbered from one. The model then equals, bit for bit, that of a new Memory taught the
rest in the same order. Everything that no longer counted (forgotten, undone, the old name after a
rename) is removed as well: only an undo could bring it back, and an erase ends what can be undone.

Stored unknown images are removed if they are the same picture, come from the same place, or
resemble an erased name more than any other.

All this is one transaction. Next, the traces are removed: caches and files stored by an ingest are
deleted, every page of the database is rewritten, and the write-ahead log, which still holds the old
pages, is emptied. Until that is done, a fact in the journal says that it is pending, and the next
process that opens the Memory to teach continues after a kill or after a reader has released old
pages. Networks that were trained on erased pictures cannot be cleaned: the receipt (receipts.py)
names them.
"""

import time
from collections.abc import Collection
from typing import Any

from everlearn.errors import CannotWrite
from everlearn.memory.edits.before_reembed import PREFIX as BEFORE
from everlearn.memory.edits.before_reembed import remove_before
from everlearn.memory.edits.operations import record_erase
from everlearn.memory.edits.unknowns import drop_erased
from everlearn.memory.model.serving import remove_prepared
from everlearn.memory.storage.interface import Caches
from everlearn.memory.storage.journal import Journal
from everlearn.memory.storage.regions import drop_boxes, given_boxes
from everlearn.memory.storage.rows import BEGINNING, next_chain, row_checksum
from everlearn.memory.storage.snapshot import remove_snapshots
from everlearn.memory.storage.sqlite.folder import UNFINISHED as UNFINISHED_FILES
from everlearn.memory.storage.tombstones import leave_tombstones

# The fact that holds the state of a pending erase.
UNFINISHED = "erase_unfinished"
# The first state; later ones depend on the database engine.
PAGES = "pages"

# Prefixes of caches that may hold erased content; unfinished files may as well.
CACHE_PREFIXES = ("snapshot-", "prepared-", "reembed-", BEFORE)


def erase(
    journal: Journal, teachings: Collection[int], resembling: Collection[int] = ()
) -> tuple[int, int]:
    """Rewrite the history without these teachings.

    Returns how many others were removed because they no longer counted, and how many unknown
    images. ``resembling`` lists unknown images to remove. Call inside a transaction, then call
    :func:`finish`.
    """
    gone = set(teachings)
    kept = journal.db.rows(
        "SELECT teachings.id, names.name, time, source, digest, content, pictures FROM teachings "
        "JOIN names ON names.id = teachings.name WHERE position IS NOT NULL ORDER BY position"
    )
    kept = [row for row in kept if row[0] not in gone]
    staying = {row[0] for row in kept}
    dropped = [row for row in journal.db.rows("SELECT id FROM teachings") if row[0] not in staying]
    _record_highest_id(journal)
    for table in ("vectors", "thumbnails", "images"):
        journal.db.run_many(f"DELETE FROM {table} WHERE teaching = ?", dropped)
    # So that a merge does not bring them back; a pair may count by another teaching as well.
    boxes = given_boxes(journal)
    pairs = {
        ((journal.origin(number)[1], boxes.get(number)), journal.name_of(number))
        for (number,) in dropped
    }
    counting = {((bytes(row[4]), boxes.get(row[0])), row[1]) for row in kept}
    leave_tombstones(journal, pairs - counting, time.time())
    dropped_unknowns = drop_erased(journal, gone, resembling)
    for table in ("teachings", "names", "log"):
        journal.db.run(f"DELETE FROM {table}")
    journal.db.run("DELETE FROM operations WHERE kind != 'erase'")
    journal.db.drop_records()
    operation = int(journal.db.value("SELECT MAX(id) FROM operations") or 0) + 1
    record_erase(journal, operation, len(gone))
    _write_history(journal, operation, kept)
    drop_boxes(journal, dropped)
    journal.set_fact(UNFINISHED, PAGES)
    return len(dropped) - len(gone), dropped_unknowns


def finish(caches: Caches, journal: Journal, *, wait: bool = True) -> bool:
    """Remove the files and pages that an erase left behind; returns whether none is left.

    Parameters
    ----------
    wait : bool
        Give readers a moment to release old pages.
    """
    state = journal.fact(UNFINISHED)
    try:
        while state is not None:
            if state == PAGES and not _caches_removed(caches):
                return False
            reached = journal.db.remove_traces(state, wait=wait)
            if reached == state:
                return False
            with journal.transaction():
                if reached is None:
                    journal.drop_fact(UNFINISHED)
                else:
                    journal.set_fact(UNFINISHED, reached)
            state = reached
    except CannotWrite:
        return False
    return True


def _caches_removed(caches: Caches) -> bool:
    """Remove every cache; returns whether none is left."""
    caches.tidy()
    remove_snapshots(caches)
    remove_prepared(caches)
    remove_before(caches)
    caches.remove_collected()
    prefixes = (*CACHE_PREFIXES, *UNFINISHED_FILES)
    return caches.remove_derived() and not any(caches.names(prefix) for prefix in prefixes)


def _record_highest_id(journal: Journal) -> None:
    """Record the highest id ever used, so that none is used again."""
    highest = int(journal.db.value("SELECT MAX(id) FROM teachings") or 0)
    used = max(highest, int(journal.fact("teachings_used") or 0))
    journal.set_fact("teachings_used", str(used))


def _write_history(journal: Journal, operation: int, kept: list[Any]) -> None:
    """Write names, teachings and log of what still counts, numbered from one."""
    names: dict[str, int] = {}
    for row in kept:
        names.setdefault(row[1], len(names) + 1)
    journal.db.run_many(
        "INSERT INTO names VALUES (?, ?, ?)",
        [(name_id, name, row_checksum("names", name_id, name)) for name, name_id in names.items()],
    )
    chain, teachings, log = BEGINNING, [], []
    for position, row in enumerate(kept, start=1):
        teaching, name, when, source, digest, content, pictures = row
        name_id = names[name]
        entry = position, operation, teaching, name_id, 1
        chain = next_chain(chain, *entry, content)
        log.append((*entry, chain))
        values = teaching, position, name_id, when, source, digest, content, pictures
        teachings.append((*values, row_checksum("teachings", *values)))
    journal.db.run_many("INSERT INTO log VALUES (?, ?, ?, ?, ?, ?)", log)
    journal.db.run_many("INSERT INTO teachings VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", teachings)
