"""Undoes a change of network by restoring the journal from before it.

    before-reembed-OPERATION     the journal before the change, as an SQLite file

Only that of the last change is kept, until the next one or an erase. Since one log cannot have
vectors of two networks, the whole journal is restored.
"""

import contextlib
import tempfile
from dataclasses import replace
from pathlib import Path

from everlearn.errors import CannotWrite, NothingToUndo
from everlearn.memory.edits import operations
from everlearn.memory.storage.integrity import require_intact
from everlearn.memory.storage.interface import Caches
from everlearn.memory.storage.journal import Journal
from everlearn.memory.storage.sqlite.database import FILE
from everlearn.memory.storage.sqlite.folder import FolderStorage

PREFIX = "before-reembed-"


def keep_before(caches: Caches, journal: Journal) -> None:
    """Keep a copy of the journal, to undo the operation that is about to begin."""
    try:
        with tempfile.TemporaryDirectory(prefix="everlearn-") as folder:
            copy = Path(folder) / FILE
            journal.db.copy_to(copy)
            caches.write(_name(journal.last_operation + 1), copy.read_bytes())
    except OSError as error:
        raise CannotWrite(
            f"no space for a copy of the journal: {error.strerror or error}; nothing was "
            "changed; free some space and try again"
        ) from None


def remove_before(caches: Caches, *, keep: int = 0) -> None:
    """Remove journals kept for an undo, except that of one operation."""
    for name in caches.names(PREFIX):
        if name != _name(keep):
            caches.remove(name)


def undo_reembed(caches: Caches, journal: Journal) -> operations.Change:
    """Restore the journal from before a change of network; the caller holds the lock."""
    change = operations.would_undo(journal)
    try:
        data = caches.read(_name(change.id))
    except OSError:
        raise NothingToUndo(
            f"{_name(change.id)}, the earlier journal, is gone from {journal.db.memory}, so the "
            "change of network cannot be undone; change back with reembed"
        ) from None
    with tempfile.TemporaryDirectory(prefix="everlearn-") as folder:
        (Path(folder) / FILE).write_bytes(data)
        with contextlib.closing(FolderStorage(Path(folder)).open(write=False)) as before:
            with before.read_transaction():
                require_intact(Journal(before))
                if Journal(before).last_operation >= change.id:
                    raise NothingToUndo(f"{_name(change.id)} is not the journal before the change")
            journal.db.take_over(before)
    with journal.transaction():
        journal.db.record_event("undone", kind=change.kind, count=change.count, names=[])
    remove_before(caches)
    return replace(change, undone=True)


def _name(operation: int) -> str:
    return f"{PREFIX}{operation}"
