"""Removes what deleted rows leave behind in PostgreSQL, and reports when it is gone.

After an erase, the bytes of deleted rows are still in the tables' files and in the write-ahead log
(WAL), which is sent to standbys and archives. A pending erase is in one of two states:

    pages            every table has to be rewritten (VACUUM FULL): heap, indexes and TOAST
    log LSN TIME     the WAL before that position has to be replayed by every standby, released by
                     every slot, archived, and removed from the server

PostgreSQL may rename old WAL files for later use (``wal_recycle``), so a file that was last written
before TIME counts as old, whatever its name.
"""

import contextlib
from typing import Any

import psycopg
from psycopg import errors

from everlearn.errors import DamagedJournal
from everlearn.memory.storage.postgres.tables import WITH_CONTENT

PAGES = "pages"
WAIT_SECONDS = 2
# The user lacks a right. Optional steps are then skipped, and missing checks are reported.
DENIED = (errors.InsufficientPrivilege, errors.UndefinedFunction)

STANDBYS = (
    "SELECT COALESCE(application_name, client_addr::text, 'a standby') FROM pg_stat_replication "
    "WHERE replay_lsn IS NULL OR replay_lsn < %s::pg_lsn"
)
SLOTS = "SELECT slot_name FROM pg_replication_slots WHERE restart_lsn < %s::pg_lsn"
ARCHIVE = (
    "SELECT current_setting('archive_mode') <> 'off' AND COALESCE(last_archived_wal, '') < "
    "pg_walfile_name(%s::pg_lsn - 1) FROM pg_stat_archiver"
)
FILES = (
    "SELECT COUNT(*) FROM pg_ls_waldir() WHERE name ~ '^[0-9A-F]{24}$' AND "
    "(name <= pg_walfile_name(%s::pg_lsn - 1) OR modification < to_timestamp(%s))"
)


def remove(db: psycopg.Connection[Any], state: str, *, wait: bool) -> str | None:
    """Continue from a state; returns the state reached, ``None`` when everything is gone."""
    if state == PAGES:
        if not _rewrite_tables(db, wait=wait):
            return PAGES
        state = _log_state(db)
    elif wait:
        _checkpoint(db)
    return state if waiting_for(db, state) else None


def waiting_for(db: psycopg.Connection[Any], state: str) -> list[str]:
    """What still holds write-ahead log from before an erase, as sentences."""
    if state == PAGES:
        return ["the tables are not rewritten yet; the next change does it"]
    lsn, since = _parse_state(state)
    found = [f"the standby {row[0]} has not replayed it" for row in _rows(db, STANDBYS, lsn)]
    found += [f"the replication slot {row[0]} keeps it" for row in _rows(db, SLOTS, lsn)]
    if any(row[0] for row in _rows(db, ARCHIVE, lsn)):
        found.append("the archive has not received it")
    try:
        count = db.execute(FILES, (lsn, since)).fetchone()
        if count is not None and count[0]:
            found.append(
                f"{count[0]} files of the server's write-ahead log are older; checkpoints remove "
                "them (at once with wal_recycle=off)"
            )
    except DENIED:
        found.append(
            "this user may not list the server's write-ahead log; have a member of pg_monitor run "
            "'everlearn receipt check'"
        )
    return found


def _rewrite_tables(db: psycopg.Connection[Any], *, wait: bool) -> bool:
    """Rewrite every table; returns false if a reader holds one for longer than the timeout."""
    db.execute(f"SET lock_timeout = '{int(1000 * WAIT_SECONDS) if wait else 100}ms'".encode())
    try:
        for table in WITH_CONTENT:
            db.execute(f"VACUUM (FULL) {table}".encode())
    except (errors.LockNotAvailable, errors.InsufficientPrivilege):
        return False
    finally:
        db.execute("SET lock_timeout = 0")
    return True


def _log_state(db: psycopg.Connection[Any]) -> str:
    """The state after rewriting: position and time of the WAL; closes its file if permitted."""
    with contextlib.suppress(*DENIED):
        db.execute("SELECT pg_switch_wal()")
    # File times have whole seconds; wait for the next one, so that later writes have later times.
    row = db.execute(
        "SELECT pg_current_wal_lsn()::text, ceil(extract(epoch FROM clock_timestamp()))::float8, "
        "pg_sleep(1.0 - extract(epoch FROM clock_timestamp()) % 1.0)"
    ).fetchone()
    assert row is not None
    _checkpoint(db)
    return f"log {row[0]} {row[1]!r}"


def _checkpoint(db: psycopg.Connection[Any]) -> None:
    """Ask the server to drop write-ahead log files it no longer needs, if permitted."""
    with contextlib.suppress(*DENIED):
        db.execute("CHECKPOINT")


def _parse_state(state: str) -> tuple[str, float]:
    try:
        _, lsn, since = state.split()
        return lsn, float(since)
    except ValueError:
        raise DamagedJournal(
            f"the recorded state of an erase, {state!r:.40}, is not valid"
        ) from None


def _rows(db: psycopg.Connection[Any], query: str, lsn: str) -> list[Any]:
    return db.execute(query.encode(), (lsn,)).fetchall()
