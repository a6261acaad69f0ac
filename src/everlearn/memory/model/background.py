"""Background statistics: proposals in taught pictures that do not show the taught thing.

The proposals of a picture that overlap none of its taught boxes by 0.4 are background. They are not
a name; only additive sums are kept of them:

    n = Σ 1,    s = Σ x,    G = Σ x xᵀ        x after the classifier's feature map

In a Memory that has background, 32 constant vectors shipped with everlearn are added to it, so that
after one taught picture background is known from more than that picture. They are parts of two
photographs (scripts/background_set.py). There is a set for each of the networks "basic", "fast",
"balanced" and "best"; other networks have none.

The sums are a cache of the journal, which says which pictures and boxes count and stores the
proposals. Pictures are added one by one in the order of teaching, so the result is the same to the
last bit whatever was taught, forgotten, undone or erased in between. New pictures are added to the
sums; if an earlier one changed, they are computed anew, at about 3 ms per picture.
"""

import hashlib
import json
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load
from scipy.linalg import blas

from everlearn.arrays import Array
from everlearn.errors import DamagedModel
from everlearn.images.embedders import WEIGHTS
from everlearn.memory.model.head import mapped_features, unit
from everlearn.memory.storage.journal import Journal
from everlearn.memory.storage.regions import (
    counting_boxes,
    pictures_with_proposals,
    proposals_of,
)
from everlearn.regions.boxes import overlap

# A proposal that overlaps every taught box by less than this is background.
MOST_OVERLAP = 0.4

# The digest of a picture, and its taught boxes as bytes.
Key = tuple[bytes, bytes]


@dataclass
class Sums:
    """Count, sum, and the upper triangle of the Gram matrix, of background vectors."""

    count: int
    total: Array
    gram: Array

    def add(self, X: Array) -> None:
        """Add vectors, one per row."""
        self.count += len(X)
        self.total += X.sum(axis=0)
        if len(X):
            # The C-ordered upper triangle is the Fortran-ordered lower one.
            blas.dsyrk(1.0, X.T, beta=1.0, c=self.gram.T, lower=1, overwrite_c=1)

    def copy(self) -> "Sums":
        return Sums(self.count, self.total.copy(), self.gram.copy())


class Background:
    """Background statistics of the pictures that count, after the classifier's feature map.

    Parameters
    ----------
    n_features : int
    power : float
        Exponent of the feature map (feature_map.py).
    embedder : str
        Name of the embedder of the vectors.
    """

    def __init__(self, n_features: int, power: float, embedder: str) -> None:
        self.n_features = n_features
        self.power = power
        self.embedder = embedder
        self._added: list[Key] = []
        self._sums = self._initial_sums()
        # Without the last picture, so that another box in it needs no new computation.
        self._before_last = self._initial_sums()

    def follow(self, journal: Journal) -> Sums:
        """The sums over all pictures that count; call inside one view of the journal."""
        wanted = [
            (digest, counting_boxes(journal, digest).tobytes())
            for digest in pictures_with_proposals(journal)
        ]
        if wanted[: len(self._added)] != self._added:
            if wanted[: len(self._added) - 1] == self._added[:-1]:
                self._added, self._sums = self._added[:-1], self._before_last.copy()
            else:
                self._added, self._sums = [], self._initial_sums()
        for key in wanted[len(self._added) :]:
            if key is wanted[-1]:
                self._before_last = self._sums.copy()
            self._add(journal, key)
        return self._sums if wanted else self._no_sums()

    def _add(self, journal: Journal, key: Key) -> None:
        """Add the proposals of a picture that overlap none of its taught boxes."""
        digest, boxes = key
        proposals = proposals_of(journal, digest)
        taught = np.frombuffer(boxes, dtype=np.float64).reshape(-1, 4)
        if proposals is not None and len(proposals.boxes):
            other = overlap(proposals.boxes, taught).max(axis=1, initial=0.0) < MOST_OVERLAP
            self._sums.add(np.asarray(mapped_features(self.power, unit(proposals.vectors[other]))))
        self._added.append(key)

    def _initial_sums(self) -> Sums:
        sums, vectors = self._no_sums(), included_background(self.embedder)
        if vectors is not None:
            sums.add(np.asarray(mapped_features(self.power, unit(vectors))))
        return sums

    def _no_sums(self) -> Sums:
        d = self.n_features
        return Sums(0, np.zeros(d), np.zeros((d, d)))


@cache
def included_background(embedder: str) -> NDArray[np.float32] | None:
    """The background vectors shipped with everlearn for this embedder, if there are any."""
    about = json.loads((WEIGHTS / "background.json").read_text(encoding="utf-8"))
    array = about["arrays"].get(embedder)
    if array is None:
        return None
    path = WEIGHTS / about["file"]
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != about["sha256"]:
        raise DamagedModel(f"{path} is not the file it should be; install everlearn again")
    return load(data)[array].astype(np.float32)
