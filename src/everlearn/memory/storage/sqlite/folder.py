"""A Memory in a folder.

journal.sqlite     what was taught, in order: the truth            (database.py)
snapshot-*         the model at a position of the journal          (snapshot.py)
prepared-*         what a question needs of the model              (serving.py)
reembed-*          vectors made anew for another embedder
writer.lock        held by the one process that teaches            (lock.py)
"""

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from everlearn.errors import CannotWrite
from everlearn.memory.storage.sqlite.database import FILE, SQLiteDatabase
from everlearn.memory.storage.sqlite.lock import WriterLock
from everlearn.persistence import replace_file


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
            raise CannotWrite(f"{self.path} cannot be made: {error.strerror}") from None
        self._lock = WriterLock(self.path)

    def release(self) -> None:
        if self._lock is not None:
            self._lock.release()

    def open(self, *, write: bool) -> SQLiteDatabase:
        return SQLiteDatabase(self.path / FILE, write=write)

    def exists(self) -> bool:
        return (self.path / FILE).exists()

    def identity(self) -> object:
        return self.path.resolve()

    def size(self) -> int:
        """Bytes of all files; one that vanishes meanwhile has none."""
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
        return (self._folder / name).read_bytes()

    def write(self, name: str, data: bytes) -> None:
        replace_file(self._folder / name, data)

    def remove(self, name: str) -> None:
        with contextlib.suppress(OSError):
            (self._folder / name).unlink()

    def tidy(self) -> None:
        for prefix in (".snapshot-", ".prepared-"):
            for name in self.names(prefix):
                self.remove(name)

    @contextlib.contextmanager
    def making(self) -> Iterator[bool]:
        """There is one writer, so it is this one."""
        yield True

    def collected(self, key: str) -> "CollectedFile":
        return CollectedFile(self._folder / f"reembed-{key}")

    def remove_collected(self) -> None:
        for name in self.names("reembed-"):
            self.remove(name)


class CollectedFile:
    """Vectors of one embedder while a Memory is embedded anew, in a file of their own."""

    def __init__(self, path: Path) -> None:
        self._path = path
        db: sqlite3.Connection | None = None
        try:
            db = sqlite3.connect(path)
            db.execute("CREATE TABLE IF NOT EXISTS vectors (digest BLOB PRIMARY KEY, vector BLOB)")
        except sqlite3.Error as error:
            if db is not None:
                db.close()
            raise CannotWrite(
                f"new vectors cannot be collected in {path.parent}: {error}"
            ) from None
        self._db = db

    def known(self) -> dict[bytes, bytes]:
        return dict(self._db.execute("SELECT digest, vector FROM vectors").fetchall())

    def add(self, digest: bytes, vector: bytes) -> None:
        self._db.execute("INSERT OR REPLACE INTO vectors VALUES (?, ?)", (digest, vector))
        self._db.commit()

    def close(self) -> None:
        self._db.close()
