"""A Memory in a folder.

journal.sqlite     what was taught, in order: the source of truth  (database.py)
snapshot-*         the model at a position of the journal          (snapshot.py)
prepared-*         the part of the model that questions need  (serving.py)
reembed-*          vectors collected during a re-embedding
writer.lock        held by the one process that teaches
"""

import contextlib
import errno
import mmap
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from everlearn.errors import CannotWrite, MemoryBusy
from everlearn.memory.storage.interface import Database
from everlearn.memory.storage.rows import content_of, row_checksum
from everlearn.memory.storage.schema import careful
from everlearn.memory.storage.sqlite import beside
from everlearn.memory.storage.sqlite.database import FILE, SQLiteDatabase, require_regular
from everlearn.persistence import flush_folder, replace_file

COLLECTED = (
    "CREATE TABLE vectors (digest BLOB PRIMARY KEY, vector BLOB NOT NULL, seal BLOB NOT NULL)"
)

LOCK = "writer.lock"
# Files that a killed process did not finish; only a writer makes them.
UNFINISHED = (
    ".snapshot-",
    ".prepared-",
    ".before-reembed-",
    ".network-",
    ".night-",
    f".{FILE}.unfinished",
)


class FolderStorage:
    """The folder of a Memory.

    Parameters
    ----------
    path : Path
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.caches = FolderCaches(path)
        self._lock: WriterLock | None = None

    def acquire(self) -> None:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CannotWrite(f"{self.path} cannot be created: {error.strerror}") from None
        self._lock = WriterLock(self.path)

    def release(self) -> None:
        if self._lock is not None:
            self._lock.release()

    def open(self, *, write: bool) -> SQLiteDatabase:
        return SQLiteDatabase(self.path / FILE, write=write)

    def replace_damaged(self, backup: Database) -> None:
        """Copy the backup to a new file: SQLite cannot write to the damaged one."""
        unfinished = self.path / f".{FILE}.unfinished"
        try:
            unfinished.unlink(missing_ok=True)
            backup.copy_to(unfinished)
            with unfinished.open("rb+") as file:
                os.fsync(file.fileno())
            # The write-ahead log of the damaged file would be applied to the new one.
            for end in ("-wal", "-shm"):
                (self.path / f"{FILE}{end}").unlink(missing_ok=True)
            os.replace(unfinished, self.path / FILE)
            flush_folder(self.path)
        except OSError as error:
            raise CannotWrite(
                f"{self.path} cannot be restored: {error.strerror or error}"
            ) from None

    def exists(self) -> bool:
        return (self.path / FILE).exists()

    def events(self) -> None:
        """``None``: a folder has one writer, which reports its changes itself."""

    def identity(self) -> object:
        return self.path.resolve()

    def size(self) -> int:
        """Bytes of all files; one that disappears in the meantime counts as zero."""
        total = 0
        for file in self.path.iterdir():
            try:
                total += file.stat().st_size if file.is_file() else 0
            except FileNotFoundError:
                continue
        return total


class FolderCaches:
    """Files beside the journal.

    Parameters
    ----------
    folder : Path
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def names(self, prefix: str) -> list[str]:
        return sorted(path.name for path in self._folder.glob(f"{prefix}*"))

    def read(self, name: str) -> bytes:
        return self._regular(name).read_bytes()

    def view(self, name: str) -> memoryview:
        with self._regular(name).open("rb") as file:
            if not os.fstat(file.fileno()).st_size:
                return memoryview(b"")
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))

    def _regular(self, name: str) -> Path:
        """The path of a file; anything else, such as a pipe, could make reading wait forever."""
        path = self._folder / name
        if path.exists() and not path.is_file():
            raise OSError(errno.EINVAL, f"{path} is not a regular file")
        return path

    def write(self, name: str, data: bytes) -> None:
        replace_file(self._folder / name, data)

    def remove(self, name: str) -> None:
        with contextlib.suppress(OSError):
            (self._folder / name).unlink()

    def tidy(self) -> None:
        for prefix in UNFINISHED:
            for name in self.names(prefix):
                self.remove(name)

    @contextlib.contextmanager
    def making(self, *, now: bool) -> Iterator[bool]:
        """Always true: there is a single writer."""
        yield True

    def collected(self, key: str) -> "CollectedFile":
        return CollectedFile(self._folder / f"reembed-{key}")

    def remove_collected(self) -> None:
        for name in self.names("reembed-"):
            self.remove(name)

    def remove_derived(self) -> bool:
        try:
            return beside.remove_derived(self._folder)
        except OSError:
            return False

    def remaining(self) -> list[str]:
        return [*self.names("network-"), *beside.linked_parts(self._folder)]

    def older_than(self, when: float) -> list[str]:
        return beside.older_than(self._folder, when)


class CollectedFile:
    """Vectors of one embedder, collected in a separate file during a re-embedding.

    The file is not trusted: if it is a link, has another schema, or a row was altered, the vector
    counts as missing.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._named():
            if path.is_symlink() or not self._is_ours():
                path.unlink()
            self._db = careful(sqlite3.connect(path))
            if self._db.execute("SELECT COUNT(*) FROM sqlite_master").fetchone() == (0,):
                self._db.execute(COLLECTED)

    def known(self) -> dict[bytes, bytes]:
        try:
            rows = self._db.execute("SELECT digest, vector, seal FROM vectors").fetchall()
        except sqlite3.DatabaseError:
            return {}
        return {digest: vector for digest, vector, own in rows if self._intact(digest, vector, own)}

    def add(self, digest: bytes, vector: bytes) -> None:
        with self._named():
            row = digest, vector, self._checksum(digest, vector)
            self._db.execute("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", row)
            self._db.commit()

    def close(self) -> None:
        self._db.close()

    def _is_ours(self) -> bool:
        if not self._path.exists():
            return True
        try:
            with contextlib.closing(careful(sqlite3.connect(self._path), "query_only = ON")) as db:
                found = db.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
        except (sqlite3.Error, UnicodeDecodeError):
            return False
        return found in ([], [(COLLECTED,)])

    def _intact(self, digest: object, vector: object, own: object) -> bool:
        both = isinstance(digest, bytes) and isinstance(vector, bytes)
        return both and own == self._checksum(digest, vector)  # type: ignore[arg-type]

    def _checksum(self, digest: bytes, vector: bytes) -> bytes:
        return row_checksum(self._path.name, digest, content_of(vector))

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise CannotWrite(
                f"new vectors cannot be collected in {self._path.parent}: {error}; nothing was "
                "changed. Check the space left and the permissions, then run it again"
            ) from None


class WriterLock:
    """Allows one writer at a time; held from creation to :meth:`release`.

    The lock is an exclusive transaction on a separate file. The operating system releases it with
    the process, however that ends, so no stale lock is left; and SQLite makes it work the same on
    every system and between two threads of one process.
    """

    def __init__(self, folder: Path) -> None:
        path = folder / LOCK
        require_regular(path)
        try:
            self._db = sqlite3.connect(
                path, timeout=0, isolation_level=None, check_same_thread=False
            )
            self._db.execute("BEGIN EXCLUSIVE")
        except sqlite3.Error as error:
            if hasattr(self, "_db"):
                self._db.close()
            if "locked" in str(error):
                raise MemoryBusy(
                    f"{folder} is being taught by another process; close it there first. "
                    "In the meantime it can be opened read-only and asked"
                ) from None
            raise CannotWrite(
                f"{path} cannot be written: {error}; check permissions and free space. A Memory "
                "that cannot be written can still be opened read-only and asked"
            ) from None

    def release(self) -> None:
        self._db.close()
