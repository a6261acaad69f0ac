"""Integrity checks of a journal before any of its content is used.

A folder may be damaged or crafted by an attacker. Before a journal is used, its schema is compared
word by word. The database engine checks the structure of the tables with small rows, and each of
these rows is checked here: types, sizes, ranges (rows.py) and checksums. Vectors and pictures are
large, so they are checked when they are read (log.py).

This takes about 10 µs per teaching. Of a journal with ``MANY_ENTRIES`` log entries or more, only
the schema and the facts are checked here; the journal checks names, vectors and the entries after a
snapshot as it reads them, and a thread checks all rows (:class:`IntegrityCheck`).
"""

import contextlib
import logging
import re
import threading
from collections.abc import Callable, Iterable

from everlearn.errors import DamagedJournal, EverlearnError
from everlearn.memory.storage.interface import Database, damaged_journal
from everlearn.memory.storage.journal import Journal
from everlearn.memory.storage.rows import BEGINNING, MOST_FEATURES, VALID, next_chain, row_checksum
from everlearn.memory.storage.schema import PICTURES, SMALL_TABLES

# Longer logs are checked in the background.
MANY_ENTRIES = 20_000
# Seconds before the background check starts, so that it does not slow the first answer down.
DELAY_SECONDS = 3.0
# Rows between two tests of the stop flag.
ROWS_PER_TEST = 1000

# A number as a fact; Python refuses to convert text of thousands of digits.
NUMBER = re.compile(r"[0-9]{1,19}")

logger = logging.getLogger("everlearn")


class CheckStopped(Exception):
    """The check was stopped."""


class IntegrityCheck:
    """A full check of a journal in a background thread with its own connection.

    Parameters
    ----------
    open_journal : callable
        Opens the journal read-only.
    """

    def __init__(self, open_journal: Callable[[], Journal]) -> None:
        self._open_journal = open_journal
        self._stopped = threading.Event()
        self._found: DamagedJournal | None = None
        self._thread = threading.Thread(target=self._check, name="everlearn-check", daemon=True)
        self._thread.start()

    def require_nothing_found(self) -> None:
        """Raise the ``DamagedJournal`` that the check found, if any."""
        if self._found is not None:
            raise DamagedJournal(*self._found.args)

    def wait(self) -> None:
        """Wait until the check has finished."""
        self._thread.join()

    def stop(self) -> None:
        """Stop the check and close its connection."""
        self._stopped.set()
        self._thread.join()

    def _check(self) -> None:
        if self._stopped.wait(DELAY_SECONDS):
            return
        try:
            with contextlib.closing(self._open_journal()) as journal, journal.db.read_transaction():
                require_intact(journal, self._stopped.is_set)
                if journal.db.changed_since_opening():
                    return  # the journal changed during the check: the next opening repeats it
        except DamagedJournal as error:
            self._found = error
        except CheckStopped:
            pass
        except EverlearnError as error:
            logger.warning("the integrity of the journal could not be checked: %s", error)


def require_intact_beginning(journal: Journal) -> None:
    """Require a journal of this version with valid facts: the part that is read first."""
    journal.db.require_known_format()
    _require_rows(journal.db, "facts", "key, value", _never)
    _require_readable_facts(journal)


def _never() -> bool:
    return False


def require_intact(journal: Journal, stopped: Callable[[], bool] = _never) -> None:
    """Require every small row to be complete, intact and valid; raises ``DamagedJournal``.

    ``stopped`` is polled during the check; :class:`CheckStopped` is raised once it returns true.
    """
    db = journal.db
    db.require_known_format()
    boxed = db.has_table("boxes")
    for table in (*SMALL_TABLES, *(("boxes",) if boxed else ())):
        db.require_structure(table)
        _raise_if_stopped(stopped)
    _require_rows(db, "facts", "key, value", stopped)
    _require_rows(db, "names", "id, name", stopped)
    _require_rows(db, "operations", "id, kind, time, turns, dropped, name, called", stopped)
    columns = "id, position, name, time, source, digest, content, pictures"
    _require_rows(db, "teachings", columns, stopped)
    if boxed:
        _require_rows(db, "boxes", "teaching, x0, y0, x1, y1, found", stopped)
        _require_boxes_of_teachings(db)
    _require_consistent_log(db)
    _require_chain(db, stopped)
    _require_readable_facts(journal)


def _raise_if_stopped(stopped: Callable[[], bool]) -> None:
    if stopped():
        raise CheckStopped


def _require_rows(db: Database, table: str, columns: str, stopped: Callable[[], bool]) -> None:
    for number, (*row, checksum) in enumerate(db.each(f"SELECT {columns}, seal FROM {table}")):
        if number % ROWS_PER_TEST == 0:
            _raise_if_stopped(stopped)
        if not (VALID[table](tuple(row)) and checksum == row_checksum(table, *row)):
            raise damaged_journal(db, f"row {row[0]!r:.40} of {table} was altered")


def _require_boxes_of_teachings(db: Database) -> None:
    """Require a box for each teaching that has one, and a teaching for each box."""
    query = (
        "SELECT 1 FROM teachings LEFT JOIN boxes ON teaching = id "
        "WHERE (pictures & ? != 0) != (teaching IS NOT NULL) "
        "UNION SELECT 1 FROM boxes WHERE teaching NOT IN (SELECT id FROM teachings) LIMIT 1"
    )
    if db.row(query, PICTURES["boxes"]) is not None:
        raise damaged_journal(db, "a teaching has lost its box, or a box its teaching")


def _require_chain(db: Database, stopped: Callable[[], bool]) -> None:
    """Require the hash chain of the log to hold, also before a snapshot."""
    chain = BEGINNING
    for stored, *entry in db.each(
        "SELECT chain, log.position, operation, teaching, log.name, sign, content FROM log "
        "JOIN teachings ON teachings.id = teaching ORDER BY log.position"
    ):
        if entry[0] % ROWS_PER_TEST == 0:
            _raise_if_stopped(stopped)
        chain = next_chain(chain, *entry)
        if chain != stored:
            raise damaged_journal(db, f"entry {entry[0]} of the log was altered")


def _require_consistent_log(db: Database) -> None:
    """Require positions without gaps and valid references."""
    count, first, last = db.row("SELECT COUNT(*), MIN(position), MAX(position) FROM log")
    if count and (first, last) != (1, count):
        raise damaged_journal(db, "the log has gaps")
    contradictions = {
        "an entry of the log has an invalid sign or chain": (
            "SELECT 1 FROM log WHERE length(chain) != 16 OR sign NOT IN (1, -1)"
        ),
        "a name, teaching or operation is missing": (
            "SELECT 1 FROM log WHERE operation NOT IN (SELECT id FROM operations) "
            "OR teaching NOT IN (SELECT id FROM teachings) OR name NOT IN (SELECT id FROM names)"
        ),
        "a teaching has a name that is missing": (
            "SELECT 1 FROM teachings WHERE name NOT IN (SELECT id FROM names)"
        ),
        "an operation is about a name that is missing": (
            "SELECT 1 FROM operations WHERE name IS NOT NULL AND name NOT IN (SELECT id FROM names)"
        ),
        "a teaching refers to a log entry that is not its own": (
            "SELECT 1 FROM teachings LEFT JOIN log ON log.position = teachings.position "
            "WHERE teachings.position IS NOT NULL AND (log.position IS NULL "
            "OR log.teaching != teachings.id OR log.name != teachings.name OR log.sign != 1)"
        ),
        "the number of teachings that count contradicts the log": (
            "SELECT 1 WHERE (SELECT COUNT(*) FROM teachings WHERE position IS NOT NULL) "
            "!= (SELECT COALESCE(SUM(sign), 0) FROM log)"
        ),
    }
    for what, query in contradictions.items():
        if db.row(f"{query} LIMIT 1") is not None:
            raise damaged_journal(db, what)


def _require_readable_facts(journal: Journal) -> None:
    numbers: Iterable[tuple[str, int]] = (
        ("n_features", MOST_FEATURES),
        ("teachings_used", 1 << 62),
        ("strangers_used", 1 << 62),
    )
    for key, most in numbers:
        value = journal.fact(key)
        if value is not None and not (NUMBER.fullmatch(value) and int(value) <= most):
            raise damaged_journal(journal.db, f"the fact {key} is not a valid number")
