"""Conformal prediction: at least the share ``accept`` of new pictures of taught things is accepted.

Whatever the scores are, a new example of a taught thing is equally likely to take any rank among
the leave-one-out scores of the m taught examples (Vovk, Gammerman and Shafer, *Algorithmic Learning
in a Random World*, 2005; for leave-one-out scores, Barber et al., *Predictive inference with the
jackknife+*, 2021). So with

    p = (1 + #{s_i ≤ s}) / (m + 1)

a new example of a taught thing has p ≤ 1 − accept, and is called unknown, with probability at most
1 − accept. That is the same as s < t, where t is the k-th lowest score, k = ⌊(1 − accept)(m + 1)⌋:
a threshold on the score. Since k is an integer, the accepted share is 1 − k / (m + 1): above
``accept`` by less than 1 / (m + 1), which from 99 examples on is less than one point.

For the exact share there is the randomised p-value

    p = (#{s_i < s} + U (1 + #{s_i = s})) / (m + 1),    U uniform on (0, 1)

with U derived from the digest of the example, so that the same picture always gets the same answer;
two nearly identical pictures may then get different ones. The only assumption is that new pictures
are exchangeable with the taught ones.

With fewer than ``ENOUGH`` examples k would be zero at the usual share of 0.95, and nothing would be
unknown. From ``FEW`` on, an example that scores below all of them is called unknown nevertheless;
the accepted share is then m / (m + 1), 89 % to 95 %.

Ranks are computed among the examples that resemble the same name most. Names with fewer than
``FEWEST`` such examples are pooled.
"""

import hashlib
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everlearn.arrays import Array

FEWEST = 99
# From FEW to ENOUGH examples, what scores below all of them is unknown, although this guarantees
# less than 0.95.
FEW, ENOUGH = 8, 19
# In floating point 1 − 0.9 is slightly less than 0.1; this keeps the rank from being one too low.
ROUNDING = 1e-9


class Acceptance:
    """Ranks a familiarity score among those of taught examples.

    Parameters
    ----------
    scores : ndarray of shape (m,)
        Leave-one-out scores of taught examples.
    nearest : ndarray of shape (m,)
        The name that each resembles most, as a number.
    """

    def __init__(self, scores: Array, nearest: NDArray[Any]) -> None:
        order = np.lexsort((scores, nearest))
        names, starts = np.unique(nearest[order], return_index=True)
        members = np.split(scores[order], starts[1:]) if len(names) else []
        self._own: dict[int, Array] = {
            name: own
            for name, own in zip(names.tolist(), members, strict=True)
            if len(own) >= FEWEST
        }
        shared = [own for own in members if len(own) < FEWEST]
        self._shared: Array = np.sort(np.concatenate(shared)) if shared else np.zeros(0)

    def p_value(self, score: float, nearest: int, tie: float | None = None) -> float:
        """Share of taught examples that would score no higher; randomised if ``tie`` is U."""
        ranks = self._ranks_of(nearest)
        if tie is None:
            through = int(np.searchsorted(ranks, score, side="right"))
            return (1 + through) / (len(ranks) + 1)
        below, through = np.searchsorted(ranks, [score, np.nextafter(score, np.inf)])
        return float((below + tie * (1 + through - below)) / (len(ranks) + 1))

    def threshold(self, accept: float, nearest: int) -> float:
        """Scores below this are called unknown; −∞ if none are."""
        ranks = self._ranks_of(nearest)
        lowest = math.floor((1.0 - accept) * (len(ranks) + 1) + ROUNDING)
        if FEW <= len(ranks) < ENOUGH:
            lowest = max(lowest, 1)
        return float(ranks[lowest - 1]) if lowest >= 1 else -np.inf

    def refused(self, scores: Array, nearest: NDArray[Any], accept: float) -> float:
        """Share of the given examples that would be called unknown."""
        names, index = np.unique(nearest, return_inverse=True)
        thresholds = np.array([self.threshold(accept, name) for name in names.tolist()])
        return float(np.mean(scores < thresholds[index])) if len(scores) else float("nan")

    def table(self, names: NDArray[np.int64]) -> tuple[NDArray[np.intp], Array, Array]:
        """All ranks as arrays: row of each name, the rows (padded with ∞), their lengths."""
        rows = [self._shared, *self._own.values()]
        row_of = {name: row for row, name in enumerate(self._own, start=1)}
        ranks = np.full((len(rows), max(1, *(len(row) for row in rows))), np.inf)
        for padded, row in zip(ranks, rows, strict=True):
            padded[: len(row)] = row
        groups = np.array([row_of.get(name, 0) for name in names.tolist()], dtype=np.intp)
        return groups, ranks, np.array([len(row) for row in rows], dtype=np.float64)

    def thresholds(self, accept: float) -> Array:
        """The threshold of every row of :meth:`table`."""
        own = [self.threshold(accept, name) for name in self._own]
        return np.array([self.threshold(accept, -1), *own])

    def _ranks_of(self, nearest: int) -> Array:
        """The sorted scores among which an example is ranked."""
        return self._own.get(nearest, self._shared)


def tie_of(vector: NDArray[np.float32]) -> float:
    """A reproducible number between 0 and 1 for an example."""
    digest = hashlib.blake2b(vector.tobytes(), digest_size=8).digest()
    return (int.from_bytes(digest, "little") + 0.5) / 2.0**64
