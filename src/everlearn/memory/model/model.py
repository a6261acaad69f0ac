"""The model: a cache of the journal, at a position of its log.

Two learners follow the log together, both trained on vectors of length one with name ids as labels:
the classifier, and the class means used for familiarity. The model stores the hash chain of the log
at its position, so that it detects when the log before it was rewritten.

At any time a model equals a replay of the log from its beginning in every bit. Learners whose bits
do not depend on how examples are split into batches (``exact_in_order``) are simply taught the new
entries. Entries that forget are applied one by one. At the end of every window all buffered rows
are applied, so that the model equals one that was loaded from a snapshot.

With other learners, the split into batches affects the last bits of a sum. It is therefore
determined by the position alone: complete windows first, then complete parts of the open window,
then single entries.

    position 600 = 2 windows of 256 + 5 parts of 16 + 8 entries

The model keeps the states at the ends of the last complete window and of the last complete part,
and continues from the nearest one. A learner for which a batch is more than its rows, such as one
that whitens by the first batch, is given the whole open window again each time.
"""

import contextlib
import copy
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from everlearn.acceleration import COMPILED
from everlearn.arrays import Array
from everlearn.base import Promise
from everlearn.learners.ncm import NearestClassMean
from everlearn.memory.model.head import unit
from everlearn.memory.storage.journal import Journal
from everlearn.memory.storage.log import WINDOW, counting_runs, has_negative_entry_after, runs
from everlearn.memory.storage.rows import BEGINNING
from everlearn.persistence import digest_of
from everlearn.statistics.waiting_rows import MANY_FEATURES

# Number of entries folded at a time: a window, a part of it, or one.
STEPS = (WINDOW, 16, 1)


@dataclass
class Learned:
    """The state of both learners at a position of the log."""

    classifier: Any
    means: NearestClassMean = field(default_factory=NearestClassMean)
    position: int = 0

    def fold(self, journal: Journal, through: int, step: int) -> None:
        """Apply the log up to a position, ``step`` entries at a time."""
        forgets = Promise.FORGET in self.classifier.promises
        read = runs if forgets else counting_runs
        for run in read(journal, self.position, through, step):
            X = unit(run.vectors)
            for learner in (self.classifier, self.means):
                if run.sign > 0:
                    learner.partial_fit(X, run.names)
                else:
                    learner.forget(X, run.names)
        self.position = through

    def fold_in_order(self, journal: Journal, through: int) -> None:
        """As :meth:`fold`, for learners whose bits do not depend on how examples are batched."""
        learners = self.classifier, self.means
        while self.position < through:
            stop = min(through, self.position // WINDOW * WINDOW + WINDOW)
            for run in runs(journal, self.position, stop):
                X = unit(run.vectors)
                for learner in learners:
                    if run.sign > 0:
                        _teach(learner, X, run.names)
                        continue
                    for row in range(len(X)):
                        learner.forget(X[row : row + 1], run.names[row : row + 1])
            self.position = stop
            if stop % WINDOW == 0:
                for learner in learners:
                    learner._flush_waiting()


def is_exact_in_order(classifier: Any, journal: Journal) -> bool:
    """Whether a classifier's bits do not depend on how examples are split into batches.

    This holds for compiled loops, which add in a fixed order, and not for BLAS.
    """
    return COMPILED and bool(classifier.exact_in_order) and journal.n_features <= MANY_FEATURES


def _teach(learner: Any, X: Array, names: NDArray[np.int64]) -> None:
    if len(X) == 1:
        learner.learn_one(X[0], int(names[0]))
    else:
        learner.partial_fit(X, names)


class Model:
    """A classifier and class means at a position of the log.

    Parameters
    ----------
    classifier : an everlearn learner
    means : NearestClassMean, optional
    position : int, default=0
        The position of both, which is the end of a window.
    chain : bytes
        The hash chain of the log at that position.
    calibration : dict, optional
        Of calibrated.py; empty before the first question.
    """

    def __init__(
        self,
        classifier: Any,
        means: NearestClassMean | None = None,
        position: int = 0,
        chain: bytes = BEGINNING,
        calibration: dict[str, Any] | None = None,
    ) -> None:
        learned = Learned(classifier, means or NearestClassMean(), position)
        # One for each of STEPS; the same object if a finer step has nothing to add.
        self._states = [learned] * len(STEPS)
        self.chain = chain
        self.calibration: dict[str, Any] = calibration or {}
        # Between the calibration and this position of the log nothing was forgotten.
        self.nothing_forgotten_until = 0
        self._kept_calibration = self.calibration

    @property
    def classifier(self) -> Any:
        return self._states[-1].classifier

    @property
    def means(self) -> NearestClassMean:
        return self._states[-1].means

    @property
    def position(self) -> int:
        return self._states[-1].position

    def follow(self, journal: Journal, through: int) -> None:
        """Apply the log up to a position."""
        if is_exact_in_order(self.classifier, journal):
            self._states[0].fold_in_order(journal, through)
            self.chain = journal.chain_at(through) or b""
            return
        forgets = Promise.FORGET in self.classifier.promises
        if not forgets and self.position and has_negative_entry_after(journal, self.position):
            self._states = [Learned(clone(self.classifier))] * len(STEPS)
        self._advance(journal, 0, through // WINDOW * WINDOW)
        if Promise.BATCH_IS_LOOP in self.classifier.promises:
            for level in range(1, len(STEPS)):
                self._advance(journal, level, through // STEPS[level] * STEPS[level])
        elif through > self._states[0].position:
            state = copy.deepcopy(self._states[0])
            state.fold(journal, through, WINDOW)
            self._states[1:] = [state] * (len(STEPS) - 1)
        self.chain = journal.chain_at(through) or b""

    def _advance(self, journal: Journal, level: int, through: int) -> None:
        """Advance one state, and with it the finer ones, to the end of its last complete step."""
        state = self._states[level]
        if through <= state.position:
            return
        if level and state is self._states[level - 1]:
            state = copy.deepcopy(state)
        state.fold(journal, through, STEPS[level])
        self._states[level:] = [state] * (len(STEPS) - level)

    @property
    def has_new_calibration(self) -> bool:
        """Whether it was calibrated since it was loaded or written."""
        return bool(self.calibration) and self.calibration is not self._kept_calibration

    def take_calibration(self, calibration: dict[str, Any]) -> None:
        """Use a stored calibration."""
        self.calibration = self._kept_calibration = calibration

    @contextlib.contextmanager
    def as_in_snapshot(self) -> Iterator[None]:
        """Context in which the calibration is the one stored in snapshots.

        Questions may lead to later calibrations, which must not enter a snapshot: it is a function
        of the journal.
        """
        live, self.calibration = self.calibration, self._kept_calibration
        nothing_forgotten_until, self.nothing_forgotten_until = self.nothing_forgotten_until, 0
        try:
            yield
        finally:
            self._kept_calibration = self.calibration
            self.calibration = live or self.calibration
            self.nothing_forgotten_until = nothing_forgotten_until

    def is_of(self, journal: Journal) -> bool:
        """Whether the log is still the one that was followed."""
        return journal.chain_at(self.position) == self.chain

    @property
    def taught(self) -> bool:
        """Whether it has learned anything."""
        return self.means.__sklearn_is_fitted__()

    def digest(self) -> str:
        """A digest of the state of both learners: equal if they are equal in every bit."""
        both = f"{digest_of(self.classifier)} {digest_of(self.means)}"
        return hashlib.sha256(both.encode()).hexdigest()
