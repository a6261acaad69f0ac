"""One writer at a time, even if it is killed.

The lock is an exclusive transaction on a file of its own. The operating system releases it with the
process, however that ends, so there is nothing stale to clean up; and SQLite sees to it that it
works the same on every system, and between two threads of one process.
"""

import sqlite3
from pathlib import Path

from everlearn.errors import CannotWrite, MemoryBusy

FILE = "writer.lock"


class WriterLock:
    """Held from creation to :meth:`release`."""

    def __init__(self, folder: Path) -> None:
        path = folder / FILE
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
                    f"{folder} is being taught by another process; close it there first. It can be "
                    "opened read-only and asked meanwhile"
                ) from None
            raise CannotWrite(
                f"{path} cannot be written: {error}; check the permissions. A Memory that cannot "
                "be written can still be opened read-only and asked"
            ) from None

    def release(self) -> None:
        self._db.close()
