"""Statistics of a model as they were at one position, while it goes on learning.

Class means are not copied, which with many names would take a gigabyte: what was learned since is
subtracted from the classes that it changed. Nothing may be forgotten meanwhile. With n and μ of a
class now, and s the sum of its n' new examples, its mean was

    (n μ − s) / (n − n')
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from everlearn.arrays import Array
from everlearn.memory.insight.influence import Ridge, require_ridge
from everlearn.statistics.slices import READ, Work, parts


class FrozenMeans:
    """Class means in the order of ``classes``; stands in for the moments of ridge regression.

    Parameters
    ----------
    learner : learner with class moments in which every example has weight one
    """

    unit = 1.0
    version = 0

    def __init__(self, learner: Any) -> None:
        self._learner = learner
        self._moments = learner.moments_
        self._order = learner.registry_.order.copy()
        self.classes: NDArray[np.int64] = learner.classes_.copy()
        self.counts: Array = self._moments.counts[self._order]
        self.total = float(self._moments.total)
        self.n_features = int(self._moments.n_features)
        # The sum of what each class learned since.
        self._since: dict[int, Array] = {}
        self._has_changed = np.zeros(len(self.classes), dtype=bool)

    def __len__(self) -> int:
        return len(self.classes)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.classes), self.n_features

    @property
    def n_slots(self) -> int:
        return len(self.classes)

    @property
    def means(self) -> "FrozenMeans":
        return self

    def __getitem__(self, part: slice) -> Array:
        """The means of some classes, a copy."""
        slots = self._order[part]
        means: Array = self._moments.means[slots]
        for index in np.flatnonzero(self._has_changed[part]):
            place = (part.start or 0) + int(index)
            means[index] *= self._moments.counts[slots[index]]
            means[index] -= self._since[place]
            means[index] /= self.counts[place]
        return means

    def is_of(self, learner: Any) -> bool:
        """Whether these are of the statistics that this learner continues."""
        return learner is self._learner and learner.moments_ is self._moments

    def learned(self, X: Array, labels: NDArray[np.int64]) -> None:
        """Call after the learner has learned these; new classes are left out."""
        places = np.minimum(np.searchsorted(self.classes, labels), len(self) - 1)
        for x, place, label in zip(X, places.tolist(), labels.tolist(), strict=True):
            if self.classes[place] == label:
                self._has_changed[place] = True
                self._since[place] = self._since.get(place, 0.0) + x

    def squares(self, piece: float) -> Work[Array]:
        """The squared lengths of the means."""
        squares, each = np.empty(len(self)), READ * self.n_features
        for part in parts(len(self), each, piece):
            means = self[part]
            squares[part] = np.einsum("ij,ij->i", means, means)
            yield (part.stop - part.start) * each
        return squares


class FrozenRidge(Ridge):
    """Ridge regression as it was at one position.

    Parameters
    ----------
    classifier : RecursiveRLSC
        As for :class:`Ridge`.
    means : FrozenMeans
        Of the classifier.
    """

    def __init__(self, classifier: Any, means: FrozenMeans) -> None:
        require_ridge(classifier)
        self._solution = classifier.frozen_solution(means)
        self.recoding = float(classifier.recoding)
        self.counts, self._means = means.counts, means
        self.solve = self._solution.solve

    def noise(self, piece: float) -> Work[float]:
        noise: float = yield from self._solution.residual_variance(piece)
        return noise
