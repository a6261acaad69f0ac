"""A buffer of rows that enter a scatter matrix together.

Adding one outer product at a time would read and write the whole matrix for every example. So rows
are collected, ``TOGETHER`` of them enter in one pass over the matrix, and a full buffer is added a
few rows of the matrix at a time while the next one fills: the cost is spread over many examples.

The bits of the sum are always the same: rows enter in groups of eight, counted from when the buffer
was last emptied, however they arrived and whenever the matrix was read in between. A Memory relies
on it.
"""

import numpy as np
from scipy.linalg import blas

from everlearn.arrays import Array

CAPACITY = 128
# Rows summed before they are added.
TOGETHER = 8
# A full buffer has entered the matrix after this many further rows.
LEAVES_IN = 96
# Slices of fewer elements of the matrix take longer to call than to compute.
LEAST_AREA = 4096
# Beyond this many features, a few rows are worth all threads of BLAS.
MANY_FEATURES = 4096


class WaitingRows:
    """A buffer of rows for one matrix, of which only the upper triangle is maintained.

    Attributes
    ----------
    trace : float
        Contribution of waiting rows to the trace of the matrix, since :meth:`trace_taken`.
    """

    def __init__(self, n_features: int) -> None:
        self._rows = np.empty((CAPACITY, n_features))
        self._n = 0
        # A full buffer, and the first row of the matrix that it has not entered yet.
        self._leaving = np.empty((0, n_features))
        self._entered = n_features
        self._trace = 0.0
        self._leaving_trace = 0.0
        # Trace of buffers added since the trace of the matrix was last taken.
        self._left_trace = 0.0

    def __len__(self) -> int:
        return self._n + (len(self._leaving) if self.is_leaving else 0)

    @property
    def is_leaving(self) -> bool:
        return self._entered < self._rows.shape[1]

    @property
    def has_left(self) -> bool:
        """Whether rows were added, or are being added, since the trace was last taken."""
        return self.is_leaving or self._left_trace > 0.0

    @property
    def trace(self) -> float:
        return self._trace + self._leaving_trace + self._left_trace

    def trace_taken(self) -> None:
        """Record that the trace of the matrix is known; nothing is being added."""
        self._left_trace = 0.0

    def add(self, square: float) -> None:
        """Record that the row from :meth:`next_row` was written, with its squared length."""
        if square == 0.0:  # the first of its class contributes nothing
            self._n -= 1
        self._trace += square

    def next_row(self, upper: Array) -> Array:
        """Buffer for the next row; also continues to add a full buffer."""
        if self._n == CAPACITY:
            self._turn_over(upper)
        self.advance(upper)
        self._n += 1
        return self._rows[self._n - 1]

    def extend(self, rows: Array, upper: Array) -> None:
        """Append several rows, at most a few hundred."""
        squares = np.einsum("ij,ij->i", rows, rows)
        if not squares.all():
            rows = rows[squares > 0.0]
        start = 0
        while start < len(rows):
            if self._n == CAPACITY:
                self._turn_over(upper)
            part = rows[start : start + CAPACITY - self._n]
            self._rows[self._n : self._n + len(part)] = part
            self._n += len(part)
            self._trace += float(np.einsum("ij,ij->", part, part))
            start += len(part)

    def advance(self, upper: Array) -> None:
        """Add the leaving rows to some more rows of the matrix."""
        d, entered = len(upper), self._entered
        if entered < d:
            area = max(LEAST_AREA, d * (d + 1) // (2 * LEAVES_IN))
            self._enter(upper, min(d, entered + area // (d - entered) + 1))

    def add_complete_groups(self, upper: Array) -> None:
        """Add every complete group; fewer than ``TOGETHER`` rows stay."""
        self.finish(upper)
        whole = self._n - self._n % TOGETHER
        if whole:
            add_outer_products(upper, self._rows[:whole])
            self._rows[: self._n - whole] = self._rows[whole : self._n]
            self._n -= whole
            rest = self._rows[: self._n]
            self._trace = float(np.einsum("ij,ij->", rest, rest))

    def empty(self, upper: Array) -> None:
        """Add all waiting rows."""
        self.finish(upper)
        add_outer_products(upper, self._rows[: self._n])
        self.clear()

    def added_to(self, upper: Array, into: Array | None = None) -> Array:
        """The matrix including all waiting rows: in ``into`` if given, else itself or a copy."""
        if not len(self) and into is None:
            return upper
        full = np.empty_like(upper) if into is None else into
        np.copyto(full, upper)
        if self.is_leaving:
            add_outer_products_between(full, self._leaving, self._entered, len(full))
        add_outer_products(full, self._rows[: self._n])
        return full

    def clear(self) -> None:
        """Discard all waiting rows."""
        self._n, self._trace = 0, 0.0
        self._entered, self._leaving_trace = self._rows.shape[1], 0.0
        self._left_trace = 0.0

    def rows(self) -> Array:
        """The waiting rows that are not being added; not a copy."""
        return self._rows[: self._n]

    def leaving(self) -> tuple[Array, int]:
        """The rows being added, and the first row of the matrix that they have not entered."""
        return self._leaving, self._entered

    def restore(self, rows: Array) -> None:
        """Replace the waiting rows by these."""
        self.clear()
        self._rows[: len(rows)] = rows
        self._n = len(rows)
        self._trace = float(np.einsum("ij,ij->", rows, rows))

    def times(self, v: Array) -> Array:
        """Σ row (row·v) over waiting rows, as far as they have not entered yet."""
        rows = self.rows()
        result: Array = rows.T @ (rows @ v)
        if self.is_leaving:
            rest = self._leaving[:, self._entered :]
            result[self._entered :] += rest.T @ (rest @ v[self._entered :])
        return result

    def _turn_over(self, upper: Array) -> None:
        self.finish(upper)
        if len(upper) > MANY_FEATURES:
            left = self.trace
            self.empty(upper)
            self._left_trace = left
            return
        if not len(self._leaving):
            self._leaving = np.empty_like(self._rows)
        self._rows, self._leaving = self._leaving, self._rows
        self._leaving_trace, self._trace = self._trace, 0.0
        self._n, self._entered = 0, 0

    def finish(self, upper: Array) -> None:
        """Add the full buffer completely."""
        if self.is_leaving:
            self._enter(upper, len(upper))

    def _enter(self, upper: Array, stop: int) -> None:
        add_outer_products_between(upper, self._leaving, self._entered, stop)
        self._entered = stop
        if not self.is_leaving:
            self._left_trace += self._leaving_trace
            self._leaving_trace = 0.0


def add_outer_products(upper: Array, rows: Array) -> None:
    """Upper triangle of ``upper`` += rowsᵀ rows, in place; few rows on one thread."""
    if len(rows) <= CAPACITY and len(upper) <= MANY_FEATURES:
        add_outer_products_between(upper, np.ascontiguousarray(rows), 0, len(upper))
    else:
        _multiply(upper, rows, 1.0)


def add_outer_products_between(upper: Array, rows: Array, start: int, stop: int) -> None:
    """The same for rows ``start`` to ``stop`` of the matrix only, on one thread."""
    from everlearn.statistics.kernels import add_outer_products as kernel

    kernel(upper, rows, start, stop)


def subtract_outer_products(upper: Array, rows: Array) -> None:
    """Upper triangle of ``upper`` −= rowsᵀ rows, in place; few rows on one thread."""
    from everlearn.statistics.kernels import subtract_outer_products as kernel

    if len(rows) <= TOGETHER:
        kernel(upper, np.ascontiguousarray(rows))
    else:
        _multiply(upper, rows, -1.0)


def _multiply(upper: Array, rows: Array, sign: float) -> None:
    if len(rows):
        # The C-ordered upper triangle is the Fortran-ordered lower triangle of the same memory.
        blas.dsyrk(sign, rows.T, beta=1.0, c=upper.T, lower=1, overwrite_c=1)
