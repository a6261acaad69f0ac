"""The model: a cache of the journal, at a position of its log.

Two learners follow the log together, both taught vectors at length one under the numbers of their
names: the classifier, and the class means from which familiarity is read. A snapshot is the pair as
two files, named after the history it belongs to and the position it has reached:

    snapshot-EPOCH-POSITION.classifier      snapshot-EPOCH-POSITION.means

The one at position 0 is the classifier before it was taught anything: it says which classifier is
in use. Snapshots are made by folding the log from the snapshot before, never from the live model,
and only at the end of a window: so a snapshot is a function of the journal, as is everything that
starts from it. A snapshot that cannot be read is passed over; the log makes up for it.
"""

import contextlib
import logging
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from everlearn.base import Promise
from everlearn.errors import CannotRead, DamagedModel, NewerFormat, NotAModel
from everlearn.learners.ncm import NearestClassMean
from everlearn.memory.journal import WINDOW, Journal
from everlearn.persistence import load, save

Array = NDArray[np.float64]

NAME = re.compile(r"snapshot-(\d+)-(\d+)\.classifier")
UNREADABLE = (CannotRead, DamagedModel, NewerFormat, NotAModel)

logger = logging.getLogger("everlearn")


@dataclass
class Model:
    """A classifier and class means that have followed the log up to ``position``."""

    classifier: Any
    means: NearestClassMean = field(default_factory=NearestClassMean)
    position: int = 0

    def follow(self, journal: Journal, through: int) -> None:
        """Learn, and forget, what the log holds up to a position."""
        if Promise.FORGET in self.classifier.promises:
            runs = journal.runs(self.position, through)
        else:
            if self.position and journal.taken_back_after(self.position):
                self.classifier, self.means = clone(self.classifier), NearestClassMean()
                self.position = 0
            runs = journal.counting_runs(self.position, through)
        for run in runs:
            X = unit(run.vectors)
            for learner in (self.classifier, self.means):
                if run.sign > 0:
                    learner.partial_fit(X, run.names)
                else:
                    learner.forget(X, run.names)
        self.position = through

    @property
    def taught(self) -> bool:
        return self.means.__sklearn_is_fitted__()

    def save(self, folder: Path, epoch: int) -> None:
        save(self.means, _means_file(folder, epoch, self.position))
        # The classifier's file comes last: where it is, the snapshot is whole.
        save(self.classifier, _classifier_file(folder, epoch, self.position))

    @classmethod
    def load(cls, folder: Path, epoch: int, position: int) -> Self:
        classifier = load(_classifier_file(folder, epoch, position))
        return cls(classifier, load(_means_file(folder, epoch, position)), position)


def latest_snapshot(folder: Path, epoch: int, through: int) -> Model:
    """The newest snapshot that can be read; raises ``DamagedModel`` if there is none at all."""
    for position in _positions(folder, epoch):
        if position > through:
            continue
        try:
            return Model.load(folder, epoch, position)
        except UNREADABLE as error:
            logger.warning("a snapshot is passed over: %s", error)
    raise DamagedModel(
        f"no snapshot in {folder} can be read, so it is not known which classifier was in use; "
        "nothing taught is lost: open it with learner=... to choose one"
    )


def write_snapshot(journal: Journal, folder: Path, epoch: int) -> None:
    """Fold the log up to the end of the last whole window and keep the result."""
    position = last_window(journal.last_position)
    model = latest_snapshot(folder, epoch, position)
    if model.position < position:
        model.follow(journal, position)
        model.save(folder, epoch)
        remove_snapshots(folder, keep=(epoch, position))


def last_window(position: int) -> int:
    """Where the last whole window at or before a position ends."""
    return position // WINDOW * WINDOW


def last_snapshot(folder: Path, epoch: int) -> int:
    """The position of the newest snapshot, readable or not."""
    return next(iter(_positions(folder, epoch)), 0)


def remove_snapshots(folder: Path, *, keep: tuple[int, int]) -> None:
    """Remove all but one snapshot of one history, and the classifier it began with."""
    epoch, position = keep
    kept = {
        file(folder, epoch, at) for at in (0, position) for file in (_classifier_file, _means_file)
    }
    for path in folder.glob("snapshot-*"):
        if path not in kept:
            with contextlib.suppress(OSError):
                path.unlink()


def unit(vectors: NDArray[Any]) -> Array:
    """Rows at length one, in double precision; a row of zeros stays zero."""
    rows = np.asarray(vectors, dtype=np.float64)
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    scaled: Array = np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0)
    return scaled


def _positions(folder: Path, epoch: int) -> list[int]:
    """The positions of the snapshots of one history, newest first."""
    found = (NAME.fullmatch(path.name) for path in folder.glob("snapshot-*.classifier"))
    return sorted((int(m[2]) for m in found if m and int(m[1]) == epoch), reverse=True)


def _classifier_file(folder: Path, epoch: int, position: int) -> Path:
    return folder / f"snapshot-{epoch}-{position}.classifier"


def _means_file(folder: Path, epoch: int, position: int) -> Path:
    return folder / f"snapshot-{epoch}-{position}.means"
