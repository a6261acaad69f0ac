"""Backs up a Memory during use, and restores it.

A backup is a folder with the journal, as it was at one position, and the networks, without which a
Memory whose network was trained further could not embed images. It is verified before it gets its
name. It is an ordinary Memory and can be opened and asked.

Restoring replaces the contents of a folder or database in one transaction or, if a folder's journal
is damaged, by a new file. Snapshots are keyed by the content of the log, so those of the replaced
history are never used.
"""

import contextlib
import os
import shutil
from pathlib import Path
from typing import Any

from everlearn.errors import AlreadyThere, CannotWrite, DamagedJournal
from everlearn.memory.insight.verify import require_vectors
from everlearn.memory.model.serving import remove_prepared
from everlearn.memory.storage.integrity import require_intact
from everlearn.memory.storage.interface import NETWORK_PREFIX, Database, Storage
from everlearn.memory.storage.journal import Journal
from everlearn.memory.storage.locations import storage_at
from everlearn.memory.storage.snapshot import remove_snapshots
from everlearn.memory.storage.sqlite.database import FILE
from everlearn.memory.storage.sqlite.folder import FolderStorage
from everlearn.persistence import flush_folder


def write_backup(storage: Storage, db: Database, destination: Path) -> None:
    """Copy a journal, and the networks beside it, into a new folder."""
    if destination.exists():
        raise AlreadyThere(f"{destination} already exists; give the backup a new folder")
    if storage.identity() in destination.resolve().parents:
        raise AlreadyThere(
            f"{destination} is inside the Memory itself, where a backup would be lost with it; "
            "use a folder outside of it"
        )
    unfinished = destination.with_name(f".{destination.name}.unfinished")
    try:
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        # A consolidation writes a network before the journal names it and removes the old one
        # afterwards, so the one that the copy names is there before the copy or after it.
        target = FolderStorage(unfinished)
        _copy_networks(storage, target)
        db.copy_to(unfinished / FILE)
        _copy_networks(storage, target)
        with contextlib.closing(target.open(write=False)) as copy:
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
    """Replace the Memory at ``path`` by a backup; returns the number of its teachings.

    The backup is verified first; then the previous contents are replaced at once. Readers may
    continue to read.

    Parameters
    ----------
    source : path-like
        A folder that :meth:`Memory.backup` wrote, or any other Memory.
    path : path-like or address
        As for :class:`Memory`; created if it does not exist.
    name : str, optional
        Name of a Memory in a database.
    """
    storage, origin = storage_at(path, name), storage_at(source)
    with contextlib.closing(origin.open(write=False)) as backup:
        with backup.read_transaction():
            journal = Journal(backup)
            _require_whole(journal)
            count = sum(record.count for record in journal.names().values())
        storage.acquire()
        try:
            _copy_networks(origin, storage)
            try:
                with contextlib.closing(storage.open(write=True)) as target:
                    target.take_over(backup)
                    # Everything is on disk already; the next opening tidies up.
                    with contextlib.suppress(CannotWrite):
                        target.tidy()
            except DamagedJournal:
                storage.replace_damaged(backup)
            remove_snapshots(storage.caches)
            remove_prepared(storage.caches)
        finally:
            storage.release()
            origin.release()
    return count


def _copy_networks(source: Storage, destination: Storage) -> None:
    """Copy networks that are missing; equal names mean equal contents."""
    present = destination.caches.names(NETWORK_PREFIX)
    for name in source.caches.names(NETWORK_PREFIX):
        if name not in present:
            with contextlib.suppress(FileNotFoundError):
                destination.caches.write(name, source.caches.read(name))


def _require_whole(journal: Journal) -> None:
    """Require every row and every vector to be intact."""
    journal.db.require_structure()
    require_intact(journal)
    require_vectors(journal)


def _flush(path: Path) -> None:
    """Write a file and its folder entry to disk."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())
    flush_folder(path.parent)
