"""Translates PostgreSQL's errors into everlearn's, without the password."""

import contextlib
from collections.abc import Iterator

import psycopg
from psycopg import errors

from everlearn.errors import (
    CannotReach,
    CannotWrite,
    DamagedJournal,
    EverlearnError,
    MemoryBusy,
    NotAllowed,
    NotAMemory,
)
from everlearn.memory.storage.interface import CannotReadNow
from everlearn.memory.storage.postgres.address import PostgresAddress

# The server is starting, stopping or gone; so are errors of class 08.
UNREACHABLE = (
    errors.AdminShutdown,
    errors.CrashShutdown,
    errors.CannotConnectNow,
    errors.IdleInTransactionSessionTimeout,
)
# Another transaction interfered; a retry is likely to work.
CONFLICTS = (errors.SerializationFailure, errors.DeadlockDetected)
TIMEOUTS = (errors.LockNotAvailable, errors.QueryCanceled)
MISSING = (errors.UndefinedTable, errors.InvalidSchemaName, errors.UndefinedColumn)
# The class of "insufficient resources".
RESOURCES = "53"


class DatabaseUnreachable(CannotReach, CannotReadNow):
    """The connection to the database is lost; acknowledged changes are safe."""


def translate_error(address: PostgresAddress, error: Exception, *, writes: bool) -> EverlearnError:
    """The error to raise instead of one of psycopg's."""
    what = address.hidden(" ".join(str(error).split()))
    state = getattr(error, "sqlstate", None) or ""
    if isinstance(error, errors.InsufficientPrivilege):
        return NotAllowed(
            f"{address}: {what}; have the owner run 'everlearn -m ADDRESS postgres grant' for this "
            "user, or open the Memory read-only"
        )
    if isinstance(error, MISSING):
        return NotAMemory(f"there is no Memory in {address} ({what}); teach one first")
    if isinstance(error, TIMEOUTS):
        return MemoryBusy(f"{address} is being changed by another process ({what}); try again")
    if isinstance(error, errors.ReadOnlySqlTransaction):
        return CannotWrite(
            f"{address} is a standby, which cannot be written; nothing of this change was kept. "
            "Connect to the primary (target_session_attrs=read-write in the address)"
        )
    if isinstance(error, (errors.DataCorrupted, errors.IndexCorrupted)):
        return DamagedJournal(f"{address} is damaged: {what}; restore it from a backup")
    if isinstance(error, CONFLICTS):
        return CannotReadNow(f"{address} changed during the read ({what}); try again")
    if state.startswith(RESOURCES):
        return CannotWrite(
            f"{address} cannot be written: {what}; nothing of this change was kept and nothing "
            "before it was lost. Check the server's disk and memory"
        )
    if isinstance(error, UNREACHABLE) or state.startswith("08") or _lost(error):
        return DatabaseUnreachable(
            f"{address} cannot be reached: {what or 'the connection was lost'}; acknowledged "
            "changes are safe. Try again when the server is back"
        )
    if writes:
        return CannotWrite(f"{address} cannot be written: {what}; nothing of this change was kept")
    return CannotReadNow(f"{address} cannot be read: {what}")


def _lost(error: Exception) -> bool:
    """Whether the connection itself failed: such errors carry no SQLSTATE."""
    return isinstance(error, psycopg.OperationalError) and not getattr(error, "sqlstate", None)


@contextlib.contextmanager
def translate_errors(address: PostgresAddress, *, writes: bool = False) -> Iterator[None]:
    """Context in which psycopg's errors become everlearn's."""
    try:
        yield
    except psycopg.Error as error:
        raise translate_error(address, error, writes=writes) from None
