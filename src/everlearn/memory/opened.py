"""An open Memory: its storage, its journal, and the model that follows it.

All reads of a Memory go through :meth:`OpenMemory.read`, which ensures that an answer belongs to
one position of the journal even while another process writes. All changes go through
:meth:`OpenMemory.changing`, which ensures that there is one writer and that files left by an erase
are removed.
"""

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeVar

from everlearn.errors import (
    CannotReach,
    CannotRead,
    CannotWrite,
    DamagedJournal,
    EverlearnError,
    MemoryBusy,
    MemoryClosed,
    NotAllowed,
    NotSeenYet,
    ReadOnlyMemory,
)
from everlearn.memory.edits.writing import write_request
from everlearn.memory.model.calibrated import CalibratedModel, calibrate
from everlearn.memory.model.follower import ModelFollower
from everlearn.memory.model.model import Model
from everlearn.memory.model.serving import has_head, remove_prepared, write_head
from everlearn.memory.storage.erase import UNFINISHED, finish
from everlearn.memory.storage.integrity import (
    MANY_ENTRIES,
    IntegrityCheck,
    require_intact,
    require_intact_beginning,
)
from everlearn.memory.storage.interface import CannotReadNow, Storage
from everlearn.memory.storage.journal import Journal
from everlearn.memory.storage.snapshot import SnapshotVanished

# How often a read is tried again because the folder changed during it.
READ_ATTEMPTS = 20
# Increase of the delay after each failed attempt to read; all attempts together take two seconds.
PAUSE_SECONDS = 0.01

# A head with more numbers than this takes longer to write than to recompute.
LARGEST_HEAD = 1 << 22

HAS_MANY_ENTRIES = f"SELECT 1 FROM log WHERE position = {MANY_ENTRIES}"

Result = TypeVar("Result")
# How often the journal was opened, and its connection's stamp, which starts again each time.
Stamp = tuple[int, int, int]

logger = logging.getLogger("everlearn")


class OpenMemory:
    """The storage of a Memory, open.

    Parameters
    ----------
    storage : Storage
        Closed; it is released with this object.
    classifier : optional
        For a folder that has none yet.
    read_only : bool
    """

    def __init__(self, storage: Storage, classifier: Any, *, read_only: bool) -> None:
        self.storage = storage
        self.path = storage.path
        self.read_only = read_only
        self.closed = False
        self._process = os.getpid()
        self.erase_pending = False
        self._mode = "whole"
        self._is_intact = False
        self._check: IntegrityCheck | None = None
        # Position of the newest known snapshot.
        self._snapshot_at = 0
        # Whether the journal has to be opened again before the next read. Read-only, that is so
        # before the first read and after the file was changed or replaced.
        self._is_stale = read_only
        self._times_opened = 0
        self.guard = threading.RLock()
        if not read_only:
            storage.acquire()
        try:
            if not read_only:
                storage.caches.tidy()
                self.journal = Journal(storage.open(write=True))
                if self.journal.db.inbox is not None:
                    self.journal.db.inbox.write = partial(write_request, self.journal)
                    self.journal.db.inbox.wake = self._order_inbox
            self.history = self.read(lambda: ModelFollower(storage, self.journal, classifier))
            if not read_only and self.journal.fact(UNFINISHED) is not None:
                self.finish_erase(wait=True)
            self.read(self.note_mode)
        except BaseException:
            self.release()
            raise

    def read(self, action: Callable[[], Result]) -> Result:
        """Result of an action whose reads all see the same position of the journal."""
        with self.guard:
            if self.closed:
                raise MemoryClosed(f"{self.path} was closed; open it again")
            for attempt in range(READ_ATTEMPTS):
                try:
                    if self._is_stale:
                        self._reopen()
                    with self.journal.db.read_transaction():
                        self._require_intact()
                        result = action()
                except CannotReadNow:
                    if not self.read_only or attempt == READ_ATTEMPTS - 1:
                        raise
                    self._is_stale = True
                    time.sleep(attempt * PAUSE_SECONDS)
                except (DamagedJournal, CannotRead):
                    if self._is_stale or not self.journal.db.changed_since_opening():
                        raise
                    self._is_stale = True
                except SnapshotVanished:
                    continue
                else:
                    self._is_stale = self.journal.db.changed_since_opening()
                    if not self._is_stale:
                        return result
            raise CannotRead(f"{self.path} changes too fast to be read; try again")

    def stamp(self) -> Stamp | None:
        """A value that differs after every change; ``None`` if changes cannot be detected."""
        try:
            return (
                None
                if self._is_stale or self.journal.db.changed_since_opening()
                else self.stamp_of_read()
            )
        except CannotReadNow:
            return None

    def stamp_of_read(self) -> Stamp:
        """The stamp of what is read; call inside :meth:`read`."""
        return self._times_opened, *self.journal.db.stamp()

    def lag_seconds(self) -> float:
        """Upper bound on the age of the state that reads see, in seconds."""
        with self.guard:
            return self.read(lambda: self.journal).db.lag_seconds()

    def wait_for(self, position: int, seconds: float) -> None:
        """Wait until the journal reaches a position; raises ``NotSeenYet`` on timeout."""
        until, pause = time.monotonic() + seconds, 0.001
        while (last := self.read(lambda: self.journal.last_position)) < position:
            if time.monotonic() > until:
                raise NotSeenYet(
                    f"{self.path} is at position {last} after {seconds:g} s, not at {position}; "
                    "check that the write was acknowledged, then ask again"
                )
            time.sleep(pause)
            pause = min(2 * pause, 0.05)

    @property
    def mode(self) -> str:
        """Which part of a picture is used where no box is given."""
        if not self.read_only and not self.closed:
            self.note_mode()  # an undo may have changed it
        return self._mode

    def note_mode(self) -> None:
        """Read the region mode from the journal.

        Read-only, this is done with the model, so that both belong to one position.
        """
        self._mode = self.journal.fact("regions") or "whole"

    def model(self) -> Model:
        """The model at the end of the log; call inside :meth:`read`."""
        return self.history.follow(patient=self.read_only)

    @contextlib.contextmanager
    def changing(self) -> Iterator[Journal]:
        """Context with exclusive write access to the folder."""
        if os.getpid() != self._process:
            raise MemoryBusy(
                f"{self.path} was opened by process {self._process}, from which this one was "
                "forked; two would write at once. Open it again here, after it is closed there"
            )
        if self.read_only:
            raise ReadOnlyMemory(
                f"{self.path} was opened read-only; open it without read_only=True to change it"
            )
        with self.guard:
            if self.closed:
                raise MemoryClosed(f"{self.path} was closed; open it again")
            if self._check is not None:
                self._check.require_nothing_found()
            if self.erase_pending:
                self.finish_erase(wait=False)
            yield self.journal

    def finish_erase(self, *, wait: bool) -> None:
        """Remove the files that an erase left, or record that this is still to be done."""
        self.erase_pending = True
        self._stop_check()  # its connection keeps the files open
        self.erase_pending = not finish(self.storage.caches, self.journal, wait=wait)

    @contextlib.contextmanager
    def one_change(self) -> Iterator[Journal]:
        """Transaction: all changes inside happen, or none; they are on disk when this returns."""
        with self.changing() as journal, journal.transaction():
            yield journal

    def close(self) -> None:
        """Write a snapshot if it saves enough replay, and release the writer lock."""
        with self.guard:
            if self.closed:
                return
            if os.getpid() != self._process:
                # Only the process that opened these resources may close them.
                self.closed = True
                return
            try:
                if not self.read_only:
                    self.finish_erase(wait=True)
                    if not self.history.broken():
                        self.snapshot(at_least=1, prepare=self._calibrate)
                        with self.journal.db.read_transaction():
                            self._update_head()
                    self._tidy()
            except CannotReach as error:
                logger.warning("no snapshot was made, so opening will take longer: %s", error)
            finally:
                self.closed = True
                self.release()

    def snapshot(self, *, at_least: int, prepare: Callable[[Model], bool] | None = None) -> None:
        """Write a snapshot if it saves replaying this many entries and nobody else writes one."""
        if prepare is None and 0 <= self.journal.last_position - self._snapshot_at < at_least:
            return
        try:
            with self.storage.caches.snapshot_lock(now=prepare is not None) as mine:
                if mine:
                    with self.journal.db.read_transaction():
                        self.history.snapshot(at_least=at_least, prepare=prepare)
                        self._snapshot_at = self.history.snapshot_at
        except (CannotReach, CannotReadNow, NotAllowed) as error:
            logger.warning("no snapshot was made, so opening will take longer: %s", error)

    def release(self) -> None:
        """Close the journal, and release the writer lock."""
        self._stop_check()
        if hasattr(self, "journal"):
            self.journal.close()
        self.storage.release()

    def _tidy(self) -> None:
        """Checkpoint the write-ahead log; if that fails, all committed data is still safe."""
        try:
            self.journal.db.tidy()
        except CannotWrite as error:
            logger.warning(
                "everything taught is kept, but could not be moved out of the write-ahead log; the "
                "next opening tries again (%s)",
                error.strerror or str(error).partition(";")[0],
            )

    def _update_head(self) -> None:
        """Write the serving head, or remove it if it would be too large."""
        journal = self.journal
        if journal.last_position == 0 or has_head(self.storage.caches, journal):
            return
        if 2 * journal.n_names * journal.n_features > LARGEST_HEAD:
            remove_prepared(self.storage.caches)
            return
        model = self.history.opened()
        head = CalibratedModel(model, self.journal).head if model.taught else None
        if head is None:
            return
        try:
            write_head(self.storage.caches, self.journal, head)
        except (CannotWrite, NotAllowed) as error:
            logger.warning("the next question will take longer to answer: %s", error)

    def _order_inbox(self) -> None:
        """Give positions to entries that other processes left in the inbox, unless busy."""
        if not self.guard.acquire(blocking=False):
            return
        try:
            if not self.closed:
                with self.journal.transaction():
                    pass
        except EverlearnError as error:
            logger.warning("teachings wait in the inbox: %s", error)
        finally:
            self.guard.release()

    def _calibrate(self, model: Model) -> bool:
        return calibrate(model, self.journal)

    def _require_intact(self) -> None:
        """Check the rows of a short journal; of a long one the first, and the rest in a thread."""
        if self._check is not None:
            self._check.require_nothing_found()
        if self._is_intact:
            return
        require_intact_beginning(self.journal)
        if self.journal.db.value(HAS_MANY_ENTRIES) is None:
            require_intact(self.journal)
        elif self._check is None:
            storage = self.storage
            self._check = IntegrityCheck(lambda: Journal(storage.open(write=False)))
        self._is_intact = True

    def wait_for_check(self) -> None:
        """Wait until the thread has checked all rows; raises what it found."""
        if self._check is not None:
            self._check.wait()
            self._check.require_nothing_found()

    def _stop_check(self) -> None:
        if self._check is not None:
            self._check.stop()
            self._check, self._is_intact = None, False  # restarted by the next read

    def _reopen(self) -> None:
        """Open the journal again; a writer may have changed or replaced its file."""
        if hasattr(self, "journal"):
            self.journal.close()
        self.journal = Journal(self.storage.open(write=False))
        self._times_opened += 1
        self._is_intact = self._is_stale = False
        if hasattr(self, "history"):
            self.history.journal = self.journal
