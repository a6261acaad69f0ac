"""The coefficients of every image in the current basis, transformed only when necessary.

Steps 5 and 8 of Skočaj and Leonardis (2002), Sec. 3, transform all n coefficient vectors into the
new basis whenever an image is added, which costs O(n k²) per step. Here a change of basis is only
recorded:

    c ← E (c − s)        E: the new basis in terms of the old one,  s: the shift of the mean

A block of rows stays in the basis in which it was written. Between two blocks is the change of
basis that still has to be applied to all rows before it. When a block is as long as the one before
it, the two are joined (like the carry of a binary counter) and their changes composed. So each row
is transformed O(log n) times, a step costs O(k³ + k² log n) on average, and at most log₂ n changes
are kept.
"""

import numpy as np

from everlearn.arrays import Array

Change = tuple[Array, Array]


class Coefficients:
    """Coordinates of images in a changing basis.

    Parameters
    ----------
    rows : ndarray of shape (n_images, width), optional
        Coordinates in the present basis.
    """

    def __init__(self, rows: Array | None = None) -> None:
        self._blocks: list[Array] = []
        # Change i is (E, E s); it applies to block i and all blocks before it.
        self._changes: list[Change] = []
        self._open: list[Array] = [] if rows is None or not len(rows) else [rows]

    def append(self, rows: Array) -> None:
        """Append coordinates of further images; the basis may have grown since the last change."""
        self._open.append(rows)

    def change_basis(self, E: Array, shift: Array) -> None:
        """Record a change of basis: c ← E (c − shift)."""
        self._blocks.append(_stacked(self._open, E.shape[1]))
        self._changes.append((E, E @ shift))
        self._open = []
        while len(self._blocks) > 1 and len(self._blocks[-2]) <= len(self._blocks[-1]):
            self._join()

    def read(self, width: int) -> Array:
        """All rows in the current basis, oldest first."""
        while len(self._blocks) > 1:
            self._join()
        rows = (
            [_transformed(self._blocks[0], self._changes[0]), *self._open]
            if self._blocks
            else self._open
        )
        self._blocks, self._changes = [], []
        self._open = [_stacked(rows, width)]
        return self._open[0]

    def _join(self) -> None:
        """Transform the last block but one into the basis of the last, and join them."""
        last = self._blocks.pop()
        final = self._changes.pop()
        change = self._changes.pop()
        self._blocks[-1] = _stacked([_transformed(self._blocks[-1], change), last], last.shape[1])
        if self._changes:
            self._changes[-1] = _composed(self._changes[-1], change)
        self._changes.append(final)


def _transformed(rows: Array, change: Change) -> Array:
    """Rows after c ← E c − E s; directions that were added later are zero in them."""
    E, shift = change
    transformed: Array = rows @ E[:, : rows.shape[1]].T - shift
    return transformed


def _composed(first: Change, then: Change) -> Change:
    """The change that applies ``first`` and then another one."""
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
