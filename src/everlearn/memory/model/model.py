"""The model: a cache of the journal, at a position of its log.

Two learners follow the log together, both taught vectors at length one under the numbers of their
names: the classifier, and the class means from which familiarity is read. The model knows the chain
of the log where it stands, so that it notices when the log before it is another one now.

How the entries are dealt into batches moves the last bits of a sum. So it is fixed by the position
alone: whole windows first, then whole parts of the window that is open, then single entries.

    position 600 = 2 windows of 256 + 5 parts of 16 + 8 entries

(A learner to which a batch is more than its rows, such as one that whitens by the first it sees, is
given the open window whole, each time anew.)

A model that is asked after every entry keeps the states at the ends of the last whole window and
the last whole part, and goes on from the one that lies on the way. Whenever it is asked, it equals
a replay from the beginning in every bit.
"""

import copy
import hashlib
from dataclasses import dataclass, field
from typing import Any

from sklearn.base import clone

from everlearn.base import Promise
from everlearn.learners.ncm import NearestClassMean
from everlearn.memory.model.head import unit
from everlearn.memory.storage.checksums import BEGINNING
from everlearn.memory.storage.journal import WINDOW, Journal
from everlearn.persistence import digest_of

# How many entries are folded at a time: all of a window, of a part of it, or one.
STEPS = (WINDOW, 16, 1)


@dataclass
class Learned:
    """What two learners have learned from the log up to a position."""

    classifier: Any
    means: NearestClassMean = field(default_factory=NearestClassMean)
    position: int = 0

    def fold(self, journal: Journal, through: int, step: int) -> None:
        """Learn, and forget, what the log holds up to a position, so many entries at a time."""
        forgets = Promise.FORGET in self.classifier.promises
        runs = journal.runs if forgets else journal.counting_runs
        for run in runs(self.position, through, step):
            X = unit(run.vectors)
            for learner in (self.classifier, self.means):
                if run.sign > 0:
                    learner.partial_fit(X, run.names)
                else:
                    learner.forget(X, run.names)
        self.position = through


class Model:
    """A classifier and class means that have followed the log up to ``position``.

    Parameters
    ----------
    classifier : an everlearn learner
    means : NearestClassMean, optional
    position : int, default=0
        Where the two stand: at the end of a window, if anywhere.
    chain : bytes
        What names the log up to there.
    calibration : dict, optional
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
        # One for each of STEPS; the same one where a finer step has nothing to add.
        self._states = [learned] * len(STEPS)
        self.chain = chain
        self.calibration: dict[str, Any] = calibration or {}

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
        """Learn, and forget, what the log holds up to a position."""
        forgets = Promise.FORGET in self.classifier.promises
        if not forgets and self.position and journal.taken_back_after(self.position):
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
        """Bring one state, and with it the finer ones, to the end of its last whole step."""
        state = self._states[level]
        if through <= state.position:
            return
        if level and state is self._states[level - 1]:
            state = copy.deepcopy(state)
        state.fold(journal, through, STEPS[level])
        self._states[level:] = [state] * (len(STEPS) - level)

    def is_of(self, journal: Journal) -> bool:
        """Whether the log is still the one that was followed."""
        return journal.chain_at(self.position) == self.chain

    @property
    def taught(self) -> bool:
        return self.means.__sklearn_is_fitted__()

    def digest(self) -> str:
        """A digest of everything learned: two models with the same one are equal in every bit."""
        both = f"{digest_of(self.classifier)} {digest_of(self.means)}"
        return hashlib.sha256(both.encode()).hexdigest()
