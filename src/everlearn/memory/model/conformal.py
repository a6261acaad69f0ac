"""*Unknown* with a promise: of new pictures of taught things, the share ``accept`` is accepted.

Whatever the scores are, a new example of a taught thing is as likely to have the lowest, the second
lowest or any other rank among the scores of the m examples taught before, had each of them been
left out (Vovk, Gammerman and Shafer, *Algorithmic Learning in a Random World*, 2005; with left-out
scores, Barber et al., *Predictive inference with the jackknife+*, 2021). So its p-value

    p = (#{s_i < s} + U (1 + #{s_i = s})) / (m + 1),    U uniform on (0, 1)

is uniform, and calling unknown what has p ≤ 1 − accept is wrong with probability 1 − accept: no
more, and, since U breaks the steps between ranks, no less. U is drawn from the digest of the
example itself, so the same picture always gets the same answer. What is assumed is that new
pictures come the way the taught ones came (exchangeability), and nothing else.

Ranks are taken among the examples that resemble the same name most. Names with fewer than
``FEWEST`` such examples share theirs.
"""

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

FEWEST = 19


class Acceptance:
    """How likely a score as low as this is for something that was taught.

    Parameters
    ----------
    scores : ndarray of shape (m,)
        What taught examples score had they not been taught.
    nearest : ndarray of shape (m,)
        The name that each resembles most, as a number.
    """

    def __init__(self, scores: Array, nearest: NDArray[Any]) -> None:
        self._own: dict[int, Array] = {}
        shared: list[Array] = []
        for name in np.unique(nearest).tolist():
            members = np.sort(scores[nearest == name])
            if len(members) >= FEWEST:
                self._own[name] = members
            else:
                shared.append(members)
        self._shared: Array = np.sort(np.concatenate(shared)) if shared else np.zeros(0)

    def p_value(self, score: float, nearest: int, tie: float) -> float:
        """The share of taught things that would score lower; ``tie`` is U."""
        ranks = self._among(nearest)
        below, through = np.searchsorted(ranks, [score, np.nextafter(score, np.inf)])
        return float((below + tie * (1 + through - below)) / (len(ranks) + 1))

    def threshold(self, accept: float, nearest: int) -> float:
        """The score at which something begins to be called unknown; −∞ if nothing is."""
        ranks = self._among(nearest)
        lowest = int((1.0 - accept) * (len(ranks) + 1))
        return float(ranks[lowest - 1]) if lowest >= 1 else -np.inf

    def table(self, names: NDArray[np.int64]) -> tuple[NDArray[np.intp], Array, Array]:
        """All ranks as arrays: for each name its row, the rows (∞ at their ends), their lengths."""
        rows = [self._shared, *self._own.values()]
        row_of = {name: row for row, name in enumerate(self._own, start=1)}
        ranks = np.full((len(rows), max(1, *(len(row) for row in rows))), np.inf)
        for place, row in zip(ranks, rows, strict=True):
            place[: len(row)] = row
        groups = np.array([row_of.get(name, 0) for name in names.tolist()], dtype=np.intp)
        return groups, ranks, np.array([len(row) for row in rows], dtype=np.float64)

    def _among(self, nearest: int) -> Array:
        return self._own.get(nearest, self._shared)


def tie_of(vector: NDArray[np.float32]) -> float:
    """A number between 0 and 1 that belongs to an example."""
    digest = hashlib.blake2b(vector.tobytes(), digest_size=8).digest()
    return (int.from_bytes(digest, "little") + 0.5) / 2.0**64
