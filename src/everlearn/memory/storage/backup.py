"""A copy that is right by construction, made while others teach, and the way back.

A backup is a folder with a journal and nothing else: the journal as it is at one moment, wherever
it is kept, checked before it gets its name. It is a Memory like any other and can be opened and
asked. Restoring puts a backup in the place of what a folder or database holds, in one transaction;
snapshots belong to what was taught and not to a position, so those of the other timeline are never
used.
"""

import contextlib
import os
import shutil
from pathlib import Path
from typing import Any

from everlearn.errors import AlreadyThere, CannotWrite
from everlearn.memory.insight.verify import require_vectors
from everlearn.memory.model.serving import remove_prepared
from everlearn.memory.storage.integrity import require_sound
from everlearn.memory.storage.interface import Database
from everlearn.memory.storage.journal import Journal
from everlearn.memory.storage.locations import storage_at
from everlearn.memory.storage.snapshot import remove_snapshots
from everlearn.memory.storage.sqlite.database import FILE
from everlearn.memory.storage.sqlite.folder import FolderStorage
from everlearn.persistence import flush_folder


def write_backup(db: Database, destination: Path) -> None:
    """Copy a journal into a new folder."""
    if destination.exists():
        raise AlreadyThere(f"{destination} is there already; give a backup a folder of its own")
    unfinished = destination.with_name(f".{destination.name}.unfinished")
    try:
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        db.copy_to(unfinished / FILE)
        with contextlib.closing(FolderStorage(unfinished).open(write=False)) as copy:
            _require_whole(Journal(copy))
        _flush(unfinished / FILE)
        os.replace(unfinished, destination)
        flush_folder(destination.parent)
    except OSError as error:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise CannotWrite(f"{destination} cannot be written: {error.strerror or error}") from None
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise


def restore(source: str | os.PathLike[str], path: Any, *, name: str | None = None) -> int:
    """Make the Memory in ``path`` what a backup is; returns how many teachings it has.

    What was there before is gone, all at once, after the backup was checked. Readers may go on
    reading.

    Parameters
    ----------
    source : path-like
        A folder that :meth:`Memory.backup` wrote, or any other Memory.
    path : path-like or address
        As for :class:`Memory`; made if it is not there.
    name : str, optional
        Of a Memory in a database.
    """
    storage = storage_at(path, name)
    with contextlib.closing(storage_at(source).open(write=False)) as backup:
        with backup.one_view():
            journal = Journal(backup)
            _require_whole(journal)
            count = sum(record.count for record in journal.names().values())
        storage.acquire()
        try:
            with contextlib.closing(storage.open(write=True)) as target:
                target.take_over(backup)
                target.tidy()
            remove_snapshots(storage.caches)
            remove_prepared(storage.caches)
        finally:
            storage.release()
    return count


def _require_whole(journal: Journal) -> None:
    journal.db.require_structure()
    require_sound(journal)
    require_vectors(journal)


def _flush(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())
    flush_folder(path.parent)
