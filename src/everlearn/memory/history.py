"""A journal and the model that follows it.

A *history* is what the log was folded into, from an untaught classifier on. Another classifier, or
teachings erased from the log, begin a new one: its number, the epoch, is written into the journal
in the same transaction, after the untaught classifier is on disk. So at any moment the journal
names a history whose beginning can be read, and snapshots of any other are void.
"""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sklearn.base import clone

from everlearn.errors import CannotWrite, DamagedModel, InvalidParameter, NotALearner
from everlearn.memory.journal import Journal
from everlearn.memory.model import (
    Model,
    last_snapshot,
    last_window,
    latest_snapshot,
    remove_snapshots,
    write_snapshot,
)

logger = logging.getLogger("everlearn")


class History:
    """The model of a folder, brought up to date on demand.

    Parameters
    ----------
    folder : Path
    journal : Journal
    classifier : optional
        For a folder that has none yet, or none that can be read.
    default : callable
        Makes the classifier of a new folder if none is given.
    """

    def __init__(
        self, folder: Path, journal: Journal, classifier: Any, default: Callable[[], Any]
    ) -> None:
        self.folder = folder
        self.journal = journal
        self._halfway = False
        if journal.writes and not journal.epoch:
            self.begin(classifier if classifier is not None else default())
            return
        if not journal.epoch:
            raise NotALearner(f"there is no Learner in {folder} yet; teach one first")
        try:
            self._open()
        except DamagedModel:
            if classifier is None or not journal.writes:
                raise
            self.begin(classifier)
        self._require_same(classifier)

    def begin(self, classifier: Any, change: Callable[[], None] | None = None) -> None:
        """A new history with an untaught classifier; ``change`` may alter the log before it."""
        epoch = self.journal.epoch + 1
        model = Model(clone(classifier))
        model.save(self.folder, epoch)
        with self.journal.transaction():
            if change is not None:
                change()
            self.journal.set_fact("epoch", str(epoch))
        self.epoch, self.model, self._halfway = epoch, model, False
        remove_snapshots(self.folder, keep=(epoch, 0))

    def follow(self) -> Model:
        """The model at the end of the log."""
        if self._halfway or self.journal.epoch != self.epoch:
            self._open()
        last = self.journal.last_position
        if self.model.position != last:
            # Interrupted inside a window, a model is neither here nor there and is not used again.
            self._halfway = True
            self.model.follow(self.journal, last)
            self._halfway = False
        return self.model

    def snapshot(self, *, at_least: int) -> None:
        """Make a snapshot if it saves replaying this many entries of the log."""
        if last_window(self.journal.last_position) - self.snapshot_at < at_least:
            return
        try:
            write_snapshot(self.journal, self.folder, self.epoch)
        except CannotWrite as error:
            logger.warning("no snapshot was made, so opening will take longer: %s", error)

    @property
    def snapshot_at(self) -> int:
        """The position of the newest snapshot."""
        return last_snapshot(self.folder, self.epoch)

    def _open(self) -> None:
        self.epoch = self.journal.epoch
        self.model = latest_snapshot(self.folder, self.epoch, self.journal.last_position)
        self._halfway = False

    def _require_same(self, classifier: Any) -> None:
        if classifier is not None and repr(classifier) != repr(self.model.classifier):
            raise InvalidParameter(
                f"{self.folder} has the classifier {self.model.classifier!r}; "
                f"call use(learner=...) to switch it to {classifier!r}"
            )
