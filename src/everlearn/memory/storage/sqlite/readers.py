"""Read-only connections, including those to folders without write permission.

SQLite's readers coordinate through a file beside the journal (``-shm``). Without write permission
on the folder there are three cases:

- a process is writing: its file is there and can be read;
- no process is writing and everything is in the journal: it is read as an immutable file without
  a lock, and an answer is discarded and computed again if the file changed during it;
- a writer ended without cleaning up, so that some data is only in the ``-wal`` file: journal and
  log are copied to a temporary folder and read there.
"""

import contextlib
import os
import shutil
import sqlite3
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from everlearn.errors import CannotRead, NotAMemory
from everlearn.memory.storage.schema import careful

COPIES = 5
# File times advance in steps of up to ten milliseconds.
CLOCK_TICK_SECONDS = 0.02

Signature = tuple[object, ...]


@dataclass
class Reader:
    """A connection, with what to check or clean up because of how it was opened."""

    db: sqlite3.Connection
    path: Path
    unlocked_since: Signature | None = None
    copy: tempfile.TemporaryDirectory[str] | None = field(default=None)

    def changed_since_opening(self) -> bool:
        """Whether the journal changed although no lock made its writer wait."""
        return self.unlocked_since is not None and _signature(self.path) != self.unlocked_since

    def close(self) -> None:
        self.db.close()
        if self.copy is not None:
            self.copy.cleanup()


def reader_of(path: Path) -> Reader:
    """Open a journal read-only."""
    if not path.exists():
        raise NotAMemory(f"there is no Memory in {path.parent}; teach one first")
    log, shared = (path.with_name(f"{path.name}{end}") for end in ("-wal", "-shm"))
    if os.access(path.parent, os.W_OK):
        return Reader(_connected(path, "mode=ro"), path)
    if log.exists() and shared.exists():
        with contextlib.suppress(sqlite3.OperationalError):
            return Reader(_connected(path, "mode=ro"), path)
    signature = _stable_signature(path)
    if not _size(log):
        return Reader(_connected(path, "mode=ro&immutable=1"), path, signature)
    copy = _copied(path, log)
    try:
        db = _connected(Path(copy.name, path.name), "mode=rw")
    except BaseException:
        copy.cleanup()
        raise
    return Reader(db, path, signature, copy)


def _connected(path: Path, options: str) -> sqlite3.Connection:
    db = sqlite3.connect(
        f"file:{quote(str(path))}?{options}",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
    )
    return careful(db, "query_only = ON")


def _copied(path: Path, log: Path) -> tempfile.TemporaryDirectory[str]:
    """Copy journal and write-ahead log of one state to a temporary folder."""
    for _ in range(COPIES):
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
    """A signature taken late enough that any later change alters it (file times are coarse)."""
    for _ in range(COPIES):
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
    marks: list[object] = []
    for file in (path, path.with_name(f"{path.name}-wal")):
        try:
            about = file.stat()
            marks.append((about.st_ino, about.st_size, about.st_mtime_ns))
        except FileNotFoundError:
            marks.append(None)
    return tuple(marks)
