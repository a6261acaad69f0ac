"""Erases teachings from the history itself, so that no byte of them remains.

The log is rewritten: what still counts, in the order it was taught, with names and positions
numbered from one. The model then equals, bit for bit, that of a new Memory taught the rest in the
same order. Everything that no longer counted (forgotten, undone, an old word for a name) is removed
as well: only an undo could bring it back, and undo does not go beyond an erase.

Kept unknown images are removed with it if they are the same picture, come from the same place, or
resemble an erased name more than any other.

All this is one transaction. Then the traces: caches and files kept by an ingest are removed, every
page of the file is rewritten, and the write-ahead log, which still holds the old pages, is emptied.
A fact in the journal records that this is pending until it is done; the next process that opens the
folder to teach continues, so neither a kill nor a reader that holds old pages leaves anything
behind for good. Networks that were trained on erased pictures cannot be cleaned: the receipt
(receipts.py) names them.
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
from everlearn.memory.storage.regions import drop_boxes
from everlearn.memory.storage.rows import BEGINNING, linked, row_checksum
from everlearn.memory.storage.snapshot import remove_snapshots
from everlearn.memory.storage.sqlite.folder import UNFINISHED as UNFINISHED_FILES
from everlearn.memory.storage.tombstones import bury, counting

# States of a pending erase; the ones after the first belong to the database engine.
UNFINISHED = "erase_unfinished"
PAGES = "pages"

# Prefixes of caches that may hold erased content, beside unfinished files.
CACHES = ("snapshot-", "prepared-", "reembed-", BEFORE)


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
    _remember_numbers(journal)
    for table in ("vectors", "thumbnails", "images"):
        journal.db.run_many(f"DELETE FROM {table} WHERE teaching = ?", dropped)
    _leave_tombstones(journal, [row[0] for row in dropped])
    dropped_unknowns = drop_erased(journal, gone, resembling)
    for table in ("teachings", "names", "log"):
        journal.db.run(f"DELETE FROM {table}")
    journal.db.run("DELETE FROM operations WHERE kind != 'erase'")
    journal.db.drop_records()
    operation = int(journal.db.value("SELECT MAX(id) FROM operations") or 0) + 1
    record_erase(journal, operation, len(gone))
    _rewrite(journal, operation, kept)
    drop_boxes(journal, dropped)
    journal.set_fact(UNFINISHED, PAGES)
    return len(dropped) - len(gone), dropped_unknowns


def finish(caches: Caches, journal: Journal, *, wait: bool = True) -> bool:
    """Remove the files and pages an erase left behind; returns whether it is complete.

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


def _leave_tombstones(journal: Journal, dropped: Collection[int]) -> None:
    """Leave tombstones, so that a merge does not bring back what was erased."""
    stays = counting(journal)
    gone = set(dropped)
    for teaching in journal.find():
        if teaching in gone:
            pair = journal.origin(teaching)[1], journal.name_of(teaching)
            stays.pop(pair, None)
    pairs = {(journal.origin(one)[1], journal.name_of(one)) for one in gone}
    bury(journal, sorted(pairs - stays.keys()), time.time())


def _caches_removed(caches: Caches) -> bool:
    """Remove every cache; returns whether none is left."""
    caches.tidy()
    remove_snapshots(caches)
    remove_prepared(caches)
    remove_before(caches)
    caches.remove_collected()
    prefixes = (*CACHES, *UNFINISHED_FILES)
    return caches.remove_derived() and not any(caches.names(prefix) for prefix in prefixes)


def _remember_numbers(journal: Journal) -> None:
    highest = int(journal.db.value("SELECT MAX(id) FROM teachings") or 0)
    used = max(highest, int(journal.fact("teachings_used") or 0))
    journal.set_fact("teachings_used", str(used))


def _rewrite(journal: Journal, operation: int, kept: list[Any]) -> None:
    names: dict[str, int] = {}
    for row in kept:
        names.setdefault(row[1], len(names) + 1)
    journal.db.run_many(
        "INSERT INTO names VALUES (?, ?, ?)",
        [(named, word, row_checksum("names", named, word)) for word, named in names.items()],
    )
    chain, teachings, log = BEGINNING, [], []
    for position, row in enumerate(kept, start=1):
        teaching, word, when, source, digest, content, pictures = row
        named = names[word]
        entry = position, operation, teaching, named, 1
        chain = linked(chain, *entry, content)
        log.append((*entry, chain))
        values = teaching, position, named, when, source, digest, content, pictures
        teachings.append((*values, row_checksum("teachings", *values)))
    journal.db.run_many("INSERT INTO log VALUES (?, ?, ?, ?, ?, ?)", log)
    journal.db.run_many("INSERT INTO teachings VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", teachings)
