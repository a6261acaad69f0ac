"""Tracks changes of a journal through notifications.

A separate connection listens to the announcements of writers. Announcements may be lost with a
connection, so the state is also read every half second. While the server is unreachable, the last
known stamp stays, its age is reported, and the connection is retried.
"""

import contextlib
import logging
import re
import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg
from psycopg import sql

from everlearn.memory.storage.postgres.address import PostgresAddress
from everlearn.memory.storage.postgres.connecting import connected

POLL_SECONDS = 0.5
# Longest pause between two attempts to reconnect.
MOST_PAUSE_SECONDS = 2.0
# Announced when teachings wait in the inbox; a change of the journal is announced by its stamp.
INBOX = "inbox"
CHANGE = re.compile(r"(\d{1,19}) (\d{1,19}) \d{1,19}", re.ASCII)

logger = logging.getLogger("everlearn")

Stamp = tuple[int, int]


class Watch:
    """A thread that follows one Memory's changes.

    Parameters
    ----------
    address : PostgresAddress
    stamp : tuple of int
        The stamp of the last known change.
    wake : callable, optional
        Called when teachings in the inbox wait for positions.
    """

    def __init__(
        self, address: PostgresAddress, stamp: Stamp, wake: Callable[[], None] | None = None
    ) -> None:
        self._address = address
        self._stamp = stamp
        self._wake = wake
        self._updated_at = time.monotonic()
        self._unreachable = False
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="everlearn watch", daemon=True)
        self._thread.start()

    def stamp(self) -> Stamp:
        return self._stamp

    def seconds_since_update(self) -> float:
        """Seconds since the server last reported its state."""
        return time.monotonic() - self._updated_at

    def update(self, stamp: Stamp) -> None:
        """Record the stamp of the latest change; also called by this process's own writer."""
        with self._lock:
            self._updated_at = time.monotonic()
            self._unreachable = False
            self._stamp = stamp

    def close(self) -> None:
        self._stop.set()
        if self._thread is not threading.current_thread():
            self._thread.join(timeout=5)

    def _follow(self) -> None:
        pause = 0.1
        while not self._stop.is_set():
            try:
                with contextlib.closing(connected(self._address)) as db:
                    if self._unreachable:
                        logger.warning("%s can be reached again", self._address)
                    self._listen(db)
                    pause = 0.1
            except psycopg.Error as error:
                if not self._unreachable:
                    reason = self._address.hidden(" ".join(str(error).split()))
                    logger.warning("%s cannot be reached: %s", self._address, reason)
                self._unreachable = True
                self._stop.wait(pause)
                pause = min(2 * pause, MOST_PAUSE_SECONDS)

    def _listen(self, db: psycopg.Connection[Any]) -> None:
        db.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._address.channel)))
        while not self._stop.is_set():
            row = db.execute("SELECT version, tag FROM state").fetchone()
            if row is not None:
                self.update((int(row[0]), int(row[1])))
            if self._wake is not None and db.execute("SELECT 1 FROM inbox LIMIT 1").fetchone():
                self._wake()
            for notice in db.notifies(timeout=POLL_SECONDS):
                if self._stop.is_set():
                    return
                stamp = _stamp_in(notice.payload)
                if stamp is None:
                    break  # read the state and the inbox
                self.update(stamp)


def _stamp_in(payload: str) -> Stamp | None:
    """The stamp that a notification announces; ``None`` for any other payload.

    Every user of the database can notify every channel.
    """
    match = CHANGE.fullmatch(payload)
    return None if match is None else (int(match[1]), int(match[2]))
