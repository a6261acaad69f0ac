"""Keeps the coefficients of every image up to date, without touching them at every step.

Steps 5 and 8 of Skočaj and Leonardis (2002), Sec. 3, transform all n coefficient vectors into the
new basis whenever an image is added, which costs O(n k²) per step. Here a change of basis is only
recorded:

    c ← E (c − s)        E: the new basis in terms of the old one,  s: the shift of the mean

Blocks of rows keep the basis they were written in; between two blocks is the change that all rows
before it still have to undergo. When a block has grown as long as the one before it, the two are
joined (like the carry of a binary counter) and the changes around them composed, so each row is
transformed O(log n) times in all: O(k³ + k² log n) per step on average, and at most log₂ n changes
are kept.
"""

import numpy as np

from everlearn.arrays import Array

Rotation = tuple[Array, Array]


class Coefficients:
    """Coordinates of images in a changing basis.

    Parameters
    ----------
    rows : ndarray of shape (n_images, width), optional
        Coordinates in the present basis.
    """

    def __init__(self, rows: Array | None = None) -> None:
        self._blocks: list[Array] = []
        self._turns: list[
            Rotation
        ] = []  # turn i = (E, E s) carries block i and all before it onward
        self._open: list[Array] = [] if rows is None or not len(rows) else [rows]

    def append(self, rows: Array) -> None:
        """Append coordinates of further images; the basis may have grown since the last change."""
        self._open.append(rows)

    def turn(self, E: Array, shift: Array) -> None:
        """Record a change of basis: c ← E (c − shift)."""
        self._blocks.append(_stacked(self._open, E.shape[1]))
        self._turns.append((E, E @ shift))
        self._open = []
        while len(self._blocks) > 1 and len(self._blocks[-2]) <= len(self._blocks[-1]):
            self._join()

    def read(self, width: int) -> Array:
        """All rows in the current basis, oldest first."""
        while len(self._blocks) > 1:
            self._join()
        rows = (
            [_turned(self._blocks[0], self._turns[0]), *self._open] if self._blocks else self._open
        )
        self._blocks, self._turns = [], []
        self._open = [_stacked(rows, width)]
        return self._open[0]

    def _join(self) -> None:
        """Transform the last block but one into the basis of the last, and join them."""
        last = self._blocks.pop()
        final = self._turns.pop()
        turn = self._turns.pop()
        self._blocks[-1] = _stacked([_turned(self._blocks[-1], turn), last], last.shape[1])
        if self._turns:
            self._turns[-1] = _composed(self._turns[-1], turn)
        self._turns.append(final)


def _turned(rows: Array, turn: Rotation) -> Array:
    """Rows after c ← E c − t; later directions are zero in them."""
    E, moved = turn
    turned: Array = rows @ E[:, : rows.shape[1]].T - moved
    return turned


def _composed(first: Rotation, then: Rotation) -> Rotation:
    E = then[0][:, : len(first[0])]
    return E @ first[0], E @ first[1] + then[1]


def _stacked(blocks: list[Array], width: int) -> Array:
    """Stacked blocks; directions that a block did not have are zero in it."""
    stacked = np.zeros((sum(len(block) for block in blocks), width))
    start = 0
    for block in blocks:
        stacked[start : start + len(block), : block.shape[1]] = block
        start += len(block)
    return stacked
