"""Read-only connections, including those to folders without write permission.

SQLite's readers coordinate with the writer through a file next to the journal (``-shm``). Without
write permission on the folder, or with a full disk, there are three cases:

- a process is writing: its ``-shm`` file exists and can be read;
- no process is writing and everything is in the journal: it is read as an immutable file without
  a lock, and an answer is computed again if the file changed in the meantime;
- a writer ended without cleaning up, so that some data is only in the write-ahead log (``-wal``):
  both files are copied to a temporary folder and read there.
"""

import contextlib
import os
import shutil
import sqlite3
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from everlearn.errors import CannotRead, NotAMemory
from everlearn.memory.storage.schema import hardened

# Attempts to copy or observe files that do not change in the meantime.
ATTEMPTS = 5
# File times advance in steps of up to ten milliseconds.
CLOCK_TICK_SECONDS = 0.02

# Errors of a reader that cannot create or enlarge the ``-shm`` file.
NO_ROOM = (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN)

Signature = tuple[object, ...]


@dataclass
class Reader:
    """A read-only connection to a journal.

    Attributes
    ----------
    db : Connection
    path : Path
    opened_at : Signature, optional
        Of the files when they were opened without a lock.
    copy : TemporaryDirectory, optional
        A copy of the files that is read instead.
    """

    db: sqlite3.Connection
    path: Path
    opened_at: Signature | None = None
    copy: tempfile.TemporaryDirectory[str] | None = None

    def changed_since_opening(self) -> bool:
        """Whether the files changed since they were opened without a lock."""
        return self.opened_at is not None and _signature(self.path) != self.opened_at

    def close(self) -> None:
        self.db.close()
        if self.copy is not None:
            self.copy.cleanup()


def open_reader(path: Path) -> Reader:
    """Open a journal read-only."""
    if not path.exists():
        raise NotAMemory(f"there is no Memory in {path.parent}; teach one first")
    log, shared = (path.with_name(f"{path.name}{suffix}") for suffix in ("-wal", "-shm"))
    if os.access(path.parent, os.W_OK):
        try:
            return Reader(_connect(path, "mode=ro"), path)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF not in NO_ROOM:
                raise
    if log.exists() and shared.exists():
        with contextlib.suppress(sqlite3.OperationalError):
            return Reader(_connect(path, "mode=ro"), path)
    signature = _stable_signature(path)
    if not _size(log):
        return Reader(_connect(path, "mode=ro&immutable=1"), path, signature)
    copy = _copy_files(path, log)
    try:
        db = _connect(Path(copy.name, path.name), "mode=rw")
    except BaseException:
        copy.cleanup()
        raise
    return Reader(db, path, signature, copy)


def _connect(path: Path, options: str) -> sqlite3.Connection:
    db = sqlite3.connect(
        f"file:{quote(str(path))}?{options}",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
    )
    return hardened(db, "query_only = ON")


def _copy_files(path: Path, log: Path) -> tempfile.TemporaryDirectory[str]:
    """Copy journal and write-ahead log, as of the same time, to a temporary folder."""
    for _ in range(ATTEMPTS):
        before = _stable_signature(path)
        copy = tempfile.TemporaryDirectory(prefix="everlearn-")
        try:
            for file in (path, log):
                shutil.copyfile(file, Path(copy.name, file.name))
        except OSError as error:
            copy.cleanup()
            if not isinstance(error, FileNotFoundError):
                raise CannotRead(f"{path} cannot be copied to read it: {error}") from None
        else:
            if _stable_signature(path) == before:
                return copy
            copy.cleanup()
    raise CannotRead(f"{path} changes too often to be read from a folder without write permission")


def _stable_signature(path: Path) -> Signature:
    """A signature that any later change alters, although file times are coarse."""
    for _ in range(ATTEMPTS):
        signature = _signature(path)
        time.sleep(CLOCK_TICK_SECONDS)
        if _signature(path) == signature:
            break
    return signature


def _size(path: Path) -> int:
    """Bytes of a file; 0 if there is none."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _signature(path: Path) -> Signature:
    """Changes when the journal or its write-ahead log does."""
    signature: list[object] = []
    for file in (path, path.with_name(f"{path.name}-wal")):
        try:
            about = file.stat()
            signature.append((about.st_ino, about.st_size, about.st_mtime_ns))
        except FileNotFoundError:
            signature.append(None)
    return tuple(signature)
