"""A copy that is right by construction, made while others teach, and the way back.

A backup is a folder with a journal and nothing else: the journal as it is at one moment, through
SQLite's own backup, checked before it gets its name. It is a Memory like any other and can be
opened and asked. Restoring puts a backup in the place of what a folder holds, in one transaction;
snapshots belong to what was taught and not to a position, so those of the other timeline are never
used.
"""

import contextlib
import os
import shutil
from pathlib import Path

from everlearn.errors import AlreadyThere, CannotWrite
from everlearn.memory.insight.verify import require_vectors
from everlearn.memory.model.serving import remove_prepared
from everlearn.memory.storage.database import Database
from everlearn.memory.storage.integrity import require_sound, require_structure
from everlearn.memory.storage.journal import FILE, Journal
from everlearn.memory.storage.lock import WriterLock
from everlearn.memory.storage.snapshot import remove_snapshots
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
        with contextlib.closing(Journal(unfinished, write=False)) as copy:
            _require_whole(copy)
        _flush(unfinished / FILE)
        os.replace(unfinished, destination)
        flush_folder(destination.parent)
    except OSError as error:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise CannotWrite(f"{destination} cannot be written: {error.strerror or error}") from None
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise


def restore(source: str | os.PathLike[str], path: str | os.PathLike[str]) -> int:
    """Make the Memory in ``path`` what a backup is; returns how many teachings it has.

    What the folder held before is gone, all at once, after the backup was checked. Readers may go
    on reading.

    Parameters
    ----------
    source : path-like
        A folder that :meth:`Memory.backup` wrote, or any other Memory.
    path : path-like
        The folder to restore; made if it is not there.
    """
    folder = Path(path)
    with contextlib.closing(Journal(Path(source), write=False)) as backup:
        with backup.db.one_view():
            _require_whole(backup)
            count = sum(record.count for record in backup.names().values())
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CannotWrite(f"{folder} cannot be made: {error.strerror}") from None
        lock = WriterLock(folder)
        try:
            with contextlib.closing(Database(folder / FILE, write=True)) as target:
                target.take_over(backup.db)
                target.checkpoint()
            remove_snapshots(folder)
            remove_prepared(folder)
        finally:
            lock.release()
    return count


def _require_whole(journal: Journal) -> None:
    require_structure(journal.db)
    require_sound(journal)
    require_vectors(journal)


def _flush(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())
    flush_folder(path.parent)
