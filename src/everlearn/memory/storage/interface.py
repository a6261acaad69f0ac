"""The storage interface: what a Memory needs of the engine that keeps it.

    Storage     where a Memory is: opens its database, says who may write, holds its caches
    Database    one connection: statements in SQL that every engine speaks, transactions, views
    Caches      named bytes that may be lost without harm: snapshots, heads, vectors made anew

The journal, the edits and the model know these three and nothing of an engine. Values are integers,
floats, text, bytes and ``None``; placeholders are question marks.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from everlearn.errors import CannotRead


class CannotReadNow(CannotRead):
    """The database could not be read, perhaps because of what a writer does at this moment."""


class TeachingInbox(Protocol):
    """The way of teachings into a journal that many write.

    Attributes
    ----------
    write : callable
        Writes a request, options and pairs of a name and an example, into the journal and returns
        its answer, which JSON can hold; inside a transaction.
    wake : callable
        Called from another thread when somebody's teachings wait for their positions.
    """

    write: Callable[[dict[str, Any], list[tuple[str, Any]]], Any] | None
    wake: Callable[[], None] | None

    def teach(self, options: dict[str, Any], pairs: list[tuple[str, Any]]) -> Any:
        """The answer to a request, once it is in the journal; sent again until it is."""

    def persistently(self, look: Callable[[], Any]) -> Any:
        """Read something that a change needs; tried again while the database is away."""

    def once(self, key: str, content: bytes, work: Callable[[], Any]) -> Any:
        """What some work answers; done once for every key, with its changes in one transaction."""


@dataclass(frozen=True)
class StoredEvent:
    """One change that those who follow a Memory are told.

    Attributes
    ----------
    number : int
        Higher than that of every event before; never used twice.
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
    """The events of a Memory that many processes change; a connection of its own."""

    def close(self) -> None: ...

    def last(self) -> int:
        """The number of the last event; 0 before the first."""

    def after(self, number: int, limit: int) -> list[StoredEvent]:
        """The events after one, in order."""

    def wait(self, seconds: float) -> None:
        """Until something may have changed, or so long."""

    def lead(self, consumer: str) -> bool:
        """Whether this process, of all that follow, is the one that tells a consumer."""

    def cursor(self, consumer: str, start: int) -> int:
        """The last event that a consumer was told; a new one begins after ``start``."""

    def advance(self, consumer: str, number: int) -> None:
        """A consumer was told everything up to an event."""


class Database(Protocol):
    """One connection to a journal.

    Attributes
    ----------
    location : str
        What messages call it; never holds a password.
    memory : str
        What messages call the Memory it belongs to.
    writes : bool
    rows_at_once : int
        How many teachings are worth one transaction.
    """

    location: str
    memory: str
    writes: bool
    rows_at_once: int

    def close(self) -> None: ...

    def run(self, statement: str, *values: Any) -> int:
        """Carry a statement out; the number of rows it changed."""

    def run_many(self, statement: str, values: Sequence[tuple[Any, ...]]) -> None:
        """Carry a statement out once for each row of values."""

    def replace(self, table: str, *values: Any) -> None:
        """Insert a row, or put it in the place of the one with the same primary key."""

    def value(self, query: str, *values: Any) -> Any:
        """The first column of the first row, or ``None``."""

    def row(self, query: str, *values: Any) -> Any:
        """The first row, or ``None``."""

    def rows(self, query: str, *values: Any) -> list[Any]: ...

    def each(self, query: str, *values: Any) -> Iterator[Any]:
        """Rows, one at a time."""

    @property
    def inbox(self) -> TeachingInbox | None:
        """Where teachings of many writers get their order; ``None`` where there is one writer."""

    def transaction(self) -> AbstractContextManager[None]:
        """All changes inside happen, or none; they are durable when this returns.

        Whoever is inside is the only writer.
        """

    def exclusive(self) -> AbstractContextManager[None]:
        """Nobody else writes inside, over several transactions."""

    def one_view(self) -> AbstractContextManager[None]:
        """Whatever is read inside belongs to one moment, though somebody else may be writing."""

    def moved_on(self) -> bool:
        """Whether what was read may be of two moments, because the reader could take no lock."""

    def stamp(self) -> tuple[int, int]:
        """Two equal stamps of one connection: nothing was committed between them."""

    def record_event(self, kind: str, /, **facts: Any) -> None:
        """Tell those who follow the Memory, when this transaction is committed."""

    def drop_records(self) -> None:
        """Remove words of teachings from what is kept of requests and events."""

    def require_ours(self) -> None:
        """It is a journal of this version; raises ``NotAMemory`` or ``NewerFormat``."""

    def has_table(self, table: str) -> bool:
        """Whether there is a table; an old file that is only read has not all of them."""

    def require_structure(self, table: str | None = None) -> None:
        """The engine finds nothing wrong with a table, or with all of them."""

    def tidy(self) -> None:
        """Leave the files small and whole; before closing."""

    def remove_traces(self, state: str, *, wait: bool) -> str | None:
        """Go on removing what deleted rows left behind, from the given state.

        Returns the state in which it stopped, ``None`` when nothing is left to do. ``wait`` gives
        readers a moment to let go of what they read.
        """

    def copy_to(self, path: Path) -> None:
        """Write the journal as it is at one moment to a file, as a folder has it."""

    def take_over(self, other: "Database") -> None:
        """Become what another journal is, in one transaction."""

    def waiting_for(self, state: str) -> list[str]:
        """What :meth:`remove_traces` waits for in a state, in words."""

    def lag_seconds(self) -> float:
        """How long ago what is known of the journal was certainly all there was."""

    def leftovers(self) -> list[str]:
        """What the engine still keeps of deleted rows, in words."""


class Collected(Protocol):
    """Vectors of one embedder, by the digest of their image, while a Memory is embedded anew."""

    def known(self) -> dict[bytes, bytes]: ...

    def add(self, digest: bytes, vector: bytes) -> None: ...

    def close(self) -> None: ...


class Caches(Protocol):
    """Named bytes. What is written is there whole or not at all."""

    def names(self, prefix: str) -> list[str]:
        """Every name that begins so."""

    def read(self, name: str) -> bytes:
        """Raises ``FileNotFoundError`` where there is none of that name."""

    def view(self, name: str) -> memoryview:
        """As :meth:`read`, without a copy where there is a way: changes go nowhere."""

    def write(self, name: str, data: bytes) -> None:
        """Raises ``CannotWrite`` where there is no room."""

    def remove(self, name: str) -> None:
        """Nothing happens where there is none of that name."""

    def tidy(self) -> None:
        """Remove what killed processes left of what they were writing."""

    def making(self, *, now: bool) -> AbstractContextManager[bool]:
        """Whether this process is the one to make a snapshot; without ``now`` it can wait."""

    def collected(self, key: str) -> Collected: ...

    def remove_collected(self) -> None: ...

    def remove_derived(self) -> bool:
        """Remove what else was made from what was taught; whether none of it is left."""

    def older_than(self, when: float) -> list[str]:
        """What was made from what was taught before a moment, in words."""


class Storage(Protocol):
    """Where a Memory is.

    Attributes
    ----------
    path : Path or address
        Opens the same Memory again; ``str`` of it is what messages say.
    caches : Caches
    """

    path: Any

    @property
    def caches(self) -> Caches: ...

    def acquire(self) -> None:
        """Become one who writes; raises ``MemoryBusy`` where there can be only one."""

    def release(self) -> None:
        """Let others write; nothing happens where nothing was acquired."""

    def open(self, *, write: bool) -> Database:
        """A connection; with ``write`` the tables are made where there are none."""

    def replace_damaged(self, backup: Database) -> None:
        """Put a copy of a backup in the place of a journal that cannot be opened any more."""

    def exists(self) -> bool:
        """Whether a Memory is there."""

    def size(self) -> int:
        """Bytes of everything that is kept."""

    def events(self) -> EventLog | None:
        """What changed, whichever process did it; ``None`` where only one process can."""

    def identity(self) -> object:
        """Equal for two ways of writing the same place."""
