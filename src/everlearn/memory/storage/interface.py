"""The storage interface: what a Memory requires of a storage engine.

    Storage     the place of a Memory: opens its database, arbitrates writers, holds its caches
    Database    one connection: portable SQL statements, transactions, consistent views
    Caches      named bytes that can be rebuilt: snapshots, heads, newly embedded vectors

The journal, the edits and the model use these three and know no engine. Values are integers,
floats, text, bytes and ``None``; placeholders are question marks.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from everlearn.errors import CannotRead, DamagedJournal

# Names of the networks in the caches, which a consolidation writes, begin with this.
NETWORK_PREFIX = "network-"


class CannotReadNow(CannotRead):
    """The database could not be read, possibly because of a concurrent write."""


class TeachingInbox(Protocol):
    """Writes teachings into a journal that has many writers.

    Attributes
    ----------
    write : callable
        Writes a request (options, and pairs of a name and an example) into the journal and
        returns a JSON-serialisable answer; called inside a transaction.
    wake : callable
        Called from another thread when teachings of other processes wait for positions.
    """

    write: Callable[[dict[str, Any], list[tuple[str, Any]]], Any] | None
    wake: Callable[[], None] | None

    def teach(self, options: dict[str, Any], pairs: list[tuple[str, Any]]) -> Any:
        """Write a request, repeated until it is in the journal; returns its answer."""

    def with_retries(self, read: Callable[[], Any]) -> Any:
        """Result of ``read``, which is repeated while the database is unreachable."""

    def once(self, key: str, content: bytes, work: Callable[[], Any]) -> Any:
        """Run ``work`` once per key, its changes in one transaction; returns its answer."""


@dataclass(frozen=True)
class StoredEvent:
    """One change of a Memory, as reported to its followers.

    Attributes
    ----------
    number : int
        Higher than that of every earlier event; never reused.
    time : float
        Seconds since 1970, by the database's clock.
    kind : str
        "taught", "corrected", "forgotten", "erased", "renamed", "undone", "redone", "named",
        "ignored" or "dropped".
    facts : dict
    """

    number: int
    time: float
    kind: str
    facts: dict[str, Any]


class EventLog(Protocol):
    """The events of a Memory that many processes change; uses its own connection."""

    def close(self) -> None: ...

    def last(self) -> int:
        """The number of the last event; 0 before the first."""

    def after(self, number: int, limit: int) -> list[StoredEvent]:
        """The events after the given number, in order."""

    def wait(self, seconds: float) -> None:
        """Wait until something may have changed, or until the timeout."""

    def lead(self, consumer: str) -> bool:
        """Whether this process is the one that notifies a consumer."""

    def cursor(self, consumer: str, start: int) -> int:
        """The last event sent to a consumer; a new consumer begins after ``start``."""

    def advance(self, consumer: str, number: int) -> None:
        """Record that a consumer was sent everything up to an event."""


class Database(Protocol):
    """One connection to a journal.

    Attributes
    ----------
    location : str
        How messages refer to it; never contains a password.
    memory : str
        How messages refer to the Memory it belongs to.
    writes : bool
    rows_at_once : int
        Recommended number of teachings per transaction.
    """

    location: str
    memory: str
    writes: bool
    rows_at_once: int

    def close(self) -> None: ...

    def run(self, statement: str, *values: Any) -> int:
        """Execute a statement; returns the number of rows changed."""

    def run_many(self, statement: str, values: Sequence[tuple[Any, ...]]) -> None:
        """Execute a statement once for each row of values."""

    def replace(self, table: str, *values: Any) -> None:
        """Insert a row, or replace the one with the same primary key."""

    def value(self, query: str, *values: Any) -> Any:
        """The first column of the first row, or ``None``."""

    def row(self, query: str, *values: Any) -> Any:
        """The first row, or ``None``."""

    def rows(self, query: str, *values: Any) -> list[Any]: ...

    def same_letters(self, column: str) -> str:
        """Condition of a query: whether an ASCII text equals a value of lower case letters."""

    def not_ascii(self, column: str) -> str:
        """Condition of a query: whether a text has a character outside of ASCII."""

    def each(self, query: str, *values: Any) -> Iterator[Any]:
        """Rows, one at a time."""

    @property
    def inbox(self) -> TeachingInbox | None:
        """Orders teachings of many writers; ``None`` where there is a single writer."""

    def transaction(self) -> AbstractContextManager[None]:
        """All changes inside happen, or none; they are durable when this returns.

        Holds the write lock. Ends a read transaction that is open.
        """

    def exclusive(self) -> AbstractContextManager[None]:
        """Hold the write lock over several transactions."""

    def read_transaction(self) -> AbstractContextManager[None]:
        """Context whose reads all see one state, even while another process writes."""

    def changed_since_opening(self) -> bool:
        """Whether the files changed since they were opened without a lock.

        Reads may then have seen more than one state.
        """

    def stamp(self) -> tuple[int, int]:
        """A value that changes with every commit; compare stamps of the same connection."""

    def record_event(self, kind: str, /, **facts: Any) -> None:
        """Notify followers of the Memory when this transaction is committed."""

    def drop_records(self) -> None:
        """Remove names and sources of teachings from stored requests and events."""

    def require_known_format(self) -> None:
        """Require a journal of this version; raises ``NotAMemory`` or ``NewerFormat``."""

    def has_table(self, table: str) -> bool:
        """Whether a table exists: an older journal that is opened read-only lacks some."""

    def require_structure(self, table: str | None = None) -> None:
        """Have the engine check the structure of a table, or of all tables."""

    def tidy(self) -> None:
        """Complete what may be postponed, such as a checkpoint; called before closing."""

    def remove_traces(self, state: str, *, wait: bool) -> str | None:
        """Continue, from the given state, to remove what deleted rows left behind.

        Returns the state reached, or ``None`` when nothing is left. With ``wait``, readers get a
        moment to release old pages.
        """

    def copy_to(self, path: Path) -> None:
        """Write the journal, as of one position, to an SQLite file."""

    def take_over(self, other: "Database") -> None:
        """Replace the content by that of another journal, in one transaction."""

    def waiting_for(self, state: str) -> list[str]:
        """What :meth:`remove_traces` waits for in a state, as sentences."""

    def lag_seconds(self) -> float:
        """Upper bound on the age, in seconds, of the state that reads see."""

    def leftovers(self) -> list[str]:
        """Places where the engine may still hold deleted rows, as sentences."""


def damaged_journal(db: Database, what: str) -> DamagedJournal:
    """The error to raise for a damaged journal; says what to do about it."""
    return DamagedJournal(
        f"{db.location} is damaged: {what}; restore it from a backup (everlearn restore)"
    )


class Collected(Protocol):
    """Vectors of one embedder by digest of their image, collected during a re-embedding."""

    def known(self) -> dict[bytes, bytes]:
        """All collected vectors that are intact."""

    def add(self, digest: bytes, vector: bytes) -> None:
        """Store the vector of an image; it is on disk when this returns."""

    def close(self) -> None: ...


class Caches(Protocol):
    """Named byte strings, each written completely or not at all."""

    def names(self, prefix: str) -> list[str]:
        """All names with this prefix."""

    def read(self, name: str) -> bytes:
        """The content; raises ``FileNotFoundError`` if there is none."""

    def view(self, name: str) -> memoryview:
        """As :meth:`read`, without a copy if possible; changes to it are not written."""

    def write(self, name: str, data: bytes) -> None:
        """Store content; raises ``CannotWrite`` if there is no space."""

    def remove(self, name: str) -> None:
        """Remove an entry, if it exists."""

    def tidy(self) -> None:
        """Remove partial writes of killed processes."""

    def snapshot_lock(self, *, now: bool) -> AbstractContextManager[bool]:
        """Whether this process may write a snapshot; never blocks.

        Without ``now`` the answer may be no because the last attempt was a moment ago.
        """

    def collected(self, key: str) -> Collected:
        """Vectors collected under a key; created if there are none."""

    def remove_collected(self) -> None:
        """Remove all collected vectors."""

    def remove_derived(self) -> bool:
        """Remove other files derived from teachings; returns whether none is left."""

    def remaining(self) -> list[str]:
        """Names of what is derived from teachings but not removed by an erase."""

    def older_than(self, when: float) -> list[str]:
        """Files derived from teachings before the given time, as sentences."""


class Storage(Protocol):
    """The place of a Memory.

    Attributes
    ----------
    path : Path or address
        Opens the same Memory again; ``str`` of it appears in messages.
    caches : Caches
    """

    path: Any

    @property
    def caches(self) -> Caches: ...

    def acquire(self) -> None:
        """Become a writer; raises ``MemoryBusy`` if there can be only one."""

    def release(self) -> None:
        """Release the writer lock, if it is held."""

    def open(self, *, write: bool) -> Database:
        """Open a connection; ``write`` creates missing tables."""

    def replace_damaged(self, backup: Database) -> None:
        """Replace a journal that cannot be opened any more by a copy of a backup."""

    def exists(self) -> bool:
        """Whether a Memory exists here."""

    def size(self) -> int:
        """Bytes of everything stored."""

    def events(self) -> EventLog | None:
        """Changes made by any process; ``None`` where only one process can write."""

    def identity(self) -> object:
        """Equal for two spellings of the same place."""
