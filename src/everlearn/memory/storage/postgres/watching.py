"""Tracks changes of a journal through notifications.

A separate connection listens to the announcements of writers. Announcements may be lost with a
connection, so the state is also read every half second. While the server is unreachable, the last
known state stays, its age is reported, and the connection is retried.
"""

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg
from psycopg import sql

from everlearn.memory.storage.postgres.address import PostgresAddress
from everlearn.memory.storage.postgres.connecting import connected

POLL_SECONDS = 0.5
MOST_PAUSE_SECONDS = 2.0
# Announced when teachings wait in the inbox; a change of the journal is announced by its stamp.
INBOX = "inbox"

logger = logging.getLogger("everlearn")

Stamp = tuple[int, int]


class Watch:
    """A thread that follows one Memory's changes.

    Parameters
    ----------
    address : PostgresAddress
    stamp : tuple of int
        The state that is already known.
    order : callable, optional
        Called when teachings in the inbox wait for positions.
    """

    def __init__(
        self, address: PostgresAddress, stamp: Stamp, order: Callable[[], None] | None = None
    ) -> None:
        self._address = address
        self._stamp = stamp
        self._order = order
        self._heard_at = time.monotonic()
        self._unreachable = False
        self._news = threading.Condition()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="everlearn watch", daemon=True)
        self._thread.start()

    def stamp(self) -> Stamp:
        return self._stamp

    def silent_seconds(self) -> float:
        """Seconds since the server last reported its state."""
        return time.monotonic() - self._heard_at

    @property
    def is_unreachable(self) -> bool:
        """Whether the server is currently unreachable."""
        return self._unreachable

    def heard(self, stamp: Stamp) -> None:
        """Record a newer state; also called by this process's own writer."""
        with self._news:
            self._heard_at = time.monotonic()
            self._unreachable = False
            if stamp != self._stamp:
                self._stamp = stamp
                self._news.notify_all()

    def wait(self, seconds: float) -> None:
        """Wait until something changes, or until the timeout."""
        with self._news:
            self._news.wait(seconds)

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
                    words = self._address.hidden(" ".join(str(error).split()))
                    logger.warning("%s cannot be reached: %s", self._address, words)
                self._unreachable = True
                self._stop.wait(pause)
                pause = min(2 * pause, MOST_PAUSE_SECONDS)

    def _listen(self, db: psycopg.Connection[Any]) -> None:
        db.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._address.channel)))
        while not self._stop.is_set():
            row = db.execute("SELECT version, tag FROM state").fetchone()
            if row is not None:
                self.heard((int(row[0]), int(row[1])))
            if self._order is not None and db.execute("SELECT 1 FROM inbox LIMIT 1").fetchone():
                self._order()
            for notice in db.notifies(timeout=POLL_SECONDS):
                if self._stop.is_set():
                    return
                if notice.payload == INBOX:
                    break
                version, tag, _ = notice.payload.split()
                self.heard((int(version), int(tag)))
