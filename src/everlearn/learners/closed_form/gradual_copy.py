"""A copy of a table's rows that is made piece by piece while the table changes."""

import numpy as np

from everlearn.arrays import Array, Slots
from everlearn.statistics.slices import READ, Work, parts


class GradualCopy:
    """The rows of a table at certain places, as they are when the copy begins.

    Whoever overwrites rows of the table calls :meth:`save` first, which copies them now.

    Parameters
    ----------
    table : ndarray
    places : ndarray
        The rows of the table to be copied, each at most once.
    into : ndarray
        One row for each of them.
    """

    def __init__(self, table: Array, places: Slots, into: Array) -> None:
        self.table = table
        self._places, self._into = places, into
        # By row of the table, its row in the copy; −1 if it has none.
        self._copied_to = np.full(len(table), -1, dtype=np.intp)
        self._copied_to[places] = np.arange(len(places))

    def complete(self, piece: float) -> Work[None]:
        """Copy the rows that are left; must be finished before the copy is used."""
        each = self._into.shape[1] * READ
        for part in parts(len(self._places), each, piece):
            self._copy(self._places[part])
            yield (part.stop - part.start) * each

    def save(self, places: Slots) -> None:
        """Copy these rows of the table, those of them that are to be copied and are not yet."""
        self._copy(places)

    def _copy(self, places: Slots) -> None:
        to = self._copied_to[places]
        left = to >= 0
        self._into[to[left]] = self.table[places[left]]
        self._copied_to[places] = -1
