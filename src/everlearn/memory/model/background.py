"""Background statistics: proposals in taught pictures that do not show the taught thing.

The proposals of a picture that overlap none of its taught boxes by 0.4 are background. They are not
a name; only additive sums are kept of them:

    n = Σ 1,    s = Σ x,    G = Σ x xᵀ        x after the classifier's feature map

The journal is the source of truth: which pictures and boxes count, and the proposals. This is a
cache of it, folded picture by picture in the order of teaching, one sum of outer products each. The
result is therefore the same to the last bit, whatever was taught, forgotten, undone or erased on
the way. New pictures are added; where an earlier one changed, the fold starts again, at about 3 ms
per picture.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import blas

from everlearn.arrays import Array
from everlearn.memory.model.head import mapped_features, unit
from everlearn.memory.storage.journal import Journal
from everlearn.memory.storage.regions import (
    counting_boxes,
    pictures_with_proposals,
    proposals_of,
)
from everlearn.regions.boxes import overlap

# A proposal that overlaps every taught box by less than this is background.
OTHER = 0.4

Key = tuple[bytes, bytes]


@dataclass
class Sums:
    """Count, sum and Gram matrix (its upper triangle) of background vectors."""

    count: int
    total: Array
    gram: Array

    def copy(self) -> "Sums":
        return Sums(self.count, self.total.copy(), self.gram.copy())


class Background:
    """Background statistics of the pictures that count, after the classifier's feature map.

    Parameters
    ----------
    n_features : int
    power : float
        Exponent of the feature map (feature_map.py).
    """

    def __init__(self, n_features: int, power: float) -> None:
        self.n_features = n_features
        self.power = power
        self._folded: list[Key] = []
        self._sums = self._none()
        # State before the last picture: another box in it does not restart the fold.
        self._before_last = self._none()

    def follow(self, journal: Journal) -> Sums:
        """The sums over all pictures that count; call inside one view of the journal."""
        wanted = [
            (digest, counting_boxes(journal, digest).tobytes())
            for digest in pictures_with_proposals(journal)
        ]
        if wanted[: len(self._folded)] != self._folded:
            if wanted[: len(self._folded) - 1] == self._folded[:-1]:
                self._folded, self._sums = self._folded[:-1], self._before_last.copy()
            else:
                self._folded, self._sums = [], self._none()
        for key in wanted[len(self._folded) :]:
            if key is wanted[-1]:
                self._before_last = self._sums.copy()
            self._add(journal, key)
        return self._sums

    def _add(self, journal: Journal, key: Key) -> None:
        digest, written = key
        proposals = proposals_of(journal, digest)
        taught = np.frombuffer(written, dtype=np.float64).reshape(-1, 4)
        if proposals is not None and len(proposals.boxes):
            other = overlap(proposals.boxes, taught).max(axis=1, initial=0.0) < OTHER
            X = np.asarray(mapped_features(self.power, unit(proposals.vectors[other])))
            self._sums.count += len(X)
            self._sums.total += X.sum(axis=0)
            if len(X):
                # The C-ordered upper triangle is the Fortran-ordered lower one.
                upper = self._sums.gram.T
                blas.dsyrk(1.0, X.T, beta=1.0, c=upper, lower=1, overwrite_c=1)
        self._folded.append(key)

    def _none(self) -> Sums:
        d = self.n_features
        return Sums(0, np.zeros(d), np.zeros((d, d)))
