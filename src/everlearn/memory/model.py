"""The model: a cache of the journal, at a position of its log.

Two learners follow the log together, both taught vectors at length one under the numbers of their
names: the classifier, and the class means from which familiarity is read. The model knows the chain
of the log where it stands, so that it notices when the log before it is another one now.
"""

import hashlib
from dataclasses import dataclass, field
from typing import Any

from sklearn.base import clone

from everlearn.base import Promise
from everlearn.learners.ncm import NearestClassMean
from everlearn.memory.head import unit
from everlearn.memory.journal import Journal
from everlearn.memory.seals import BEGINNING
from everlearn.persistence import digest_of


@dataclass
class Model:
    """A classifier and class means that have followed the log up to ``position``."""

    classifier: Any
    means: NearestClassMean = field(default_factory=NearestClassMean)
    position: int = 0
    chain: bytes = BEGINNING
    calibration: dict[str, Any] = field(default_factory=dict)

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
        self.chain = journal.chain_at(through) or b""

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
