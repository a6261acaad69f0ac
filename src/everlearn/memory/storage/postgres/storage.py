"""A Memory in a database; the server arbitrates between writers."""

from everlearn.errors import CannotWrite
from everlearn.memory.storage.interface import Database
from everlearn.memory.storage.postgres.address import PostgresAddress
from everlearn.memory.storage.postgres.caches import SharedCaches
from everlearn.memory.storage.postgres.connecting import connected
from everlearn.memory.storage.postgres.database import PostgresDatabase
from everlearn.memory.storage.postgres.events import PostgresEvents
from everlearn.memory.storage.postgres.failures import translate_errors
from everlearn.memory.storage.postgres.tables import ALL_TABLES


class PostgresStorage:
    """One Memory of a database.

    Parameters
    ----------
    address : PostgresAddress
    """

    def __init__(self, address: PostgresAddress) -> None:
        self.path = address
        self.caches = SharedCaches(address)

    def acquire(self) -> None:
        """Nothing to do: every change waits for the Memory's lock."""

    def release(self) -> None:
        self.caches.close()

    def open(self, *, write: bool) -> PostgresDatabase:
        return PostgresDatabase(self.path, write=write)

    def replace_damaged(self, backup: Database) -> None:
        raise CannotWrite(
            f"{self.path} holds tables that cannot be used; restore {backup.memory} under another "
            "name, then drop these"
        )

    def exists(self) -> bool:
        with translate_errors(self.path), connected(self.path) as db:
            row = db.execute("SELECT to_regclass('state') IS NOT NULL").fetchone()
            return bool(row and row[0])

    def events(self) -> PostgresEvents:
        return PostgresEvents(self.path)

    def identity(self) -> object:
        return str(self.path)

    def size(self) -> int:
        """Bytes of all tables with their indexes and large values."""
        total = (
            "SELECT COALESCE(SUM(pg_total_relation_size(to_regclass(one))), 0) "
            "FROM unnest(%s::text[]) AS one"
        )
        with translate_errors(self.path), connected(self.path) as db:
            row = db.execute(total, (list(ALL_TABLES),)).fetchone()
            return int(row[0]) if row else 0
