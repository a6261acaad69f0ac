"""Finds which of many rows can have the highest scores, in a copy with one byte per number.

A question among K classes is a product with K rows of d numbers, and its cost is reading them. This
file keeps a second copy of the rows as one-byte integers, relative to a common centre o with one
step per row,

    row_k − o = s_k c_k + e_k,      c_k integers from −127 to 127,

and ‖e_k‖ is kept beside it. With z ≈ t q, q integers, Cauchy and Schwarz bound every score

    a_k (row_k·z + c) + b_k        from both sides, because
    |(row_k − o)·z − s_k t (c_k·q)| ≤ ‖e_k‖ ‖z‖ + ‖s_k c_k‖ ‖z − t q‖.

Rows whose upper bound is below the n-th largest lower bound cannot be among the best n; the others,
usually a handful, are scored in double precision by the caller. The bounds include the rounding of
that computation, so the answer equals that over all rows, ties included.

The copy is a cache of rows kept elsewhere: an eighth of their memory, built in slices of ``SLICE``
rows per call so that no call stalls, and updated row by row, O(d) each.
"""

import numpy as np

from everlearn.arrays import AnyArray, Array, Slots, padded

# Fewer rows than this are not worth a second copy.
MANY_ROWS = 4096
# Most rows encoded in one call.
SLICE = 2048
# If more than this share of the rows may be among the best, all are scored.
LARGE_SHARE = 0.125
# Beyond this many features a sum of products of codes might not fit 32 bits.
MANY_FEATURES = 2**16

_NONE = np.zeros(0)


class Screen:
    """A one-byte copy of rows that bounds their scores.

    Parameters
    ----------
    centre : ndarray of shape (n_features,)
        The origin of the rows: a point near their mean.
    """

    def __init__(self, centre: Array) -> None:
        n_features = len(centre)
        self.centre = np.array(centre, dtype=np.float64)
        self.n_rows = 0
        self._codes: AnyArray = np.zeros((0, n_features), dtype=np.int8)
        # By row: steps, gaps, lengths and squares, as used by the kernel.
        self._facts = np.zeros((4, 0))
        self._sums = np.zeros(0, dtype=np.int32)
        self._upper = np.zeros(0)

    def squares(self) -> Array:
        """‖row − centre‖² of every row."""
        return self._facts[3, : self.n_rows]

    def extend(self, rows: Array) -> bool:
        """Encode the next slice of rows; returns whether all are encoded."""
        first, stop = self.n_rows, min(self.n_rows + SLICE, len(rows))
        if stop > len(self._codes):
            self._grow(max(stop, 2 * len(self._codes)) if stop < len(rows) else len(rows))
        self._encode(rows[first:stop], first)
        self.n_rows = stop
        return stop == len(rows)

    def mend(self, rows: Array, slots: Slots) -> None:
        """Encode these rows again."""
        for slot in slots[slots < self.n_rows].tolist():
            self._encode(rows[slot : slot + 1], slot)

    def candidates(
        self,
        z: Array,
        counts: Array,
        *,
        scale: Array | None = None,
        offset: float = 0.0,
        bias: Array | None = None,
        slack: float = 0.0,
        best: int = 1,
    ) -> Slots | None:
        """Rows that may have one of the ``best`` highest scores; ``None`` if there are too many.

        Parameters
        ----------
        z : ndarray of shape (n_features,)
        counts : ndarray of shape (n_rows,)
            Rows without a count have no score.
        scale, bias : ndarray of shape (n_rows,), optional
            a_k, not negative, and b_k; default to one and zero.
        offset : float
            c. The score is a_k (row_k·z + c) + b_k.
        slack : float
            Size of other terms rounded in computing row_k·z.
        """
        from everlearn.statistics.kernels import bound_scores, code_products

        n_features = len(self.centre)
        if n_features > MANY_FEATURES:
            return None
        largest = float(np.abs(z).max(initial=0.0))
        most = min(2**15 - 1, (2**31 - 1) // (128 * n_features))
        step = largest / most
        usable = 1e-300 < step < 1e300
        query = np.rint(z / step).astype(np.int16) if usable else np.zeros(n_features, np.int16)
        step = step if usable else 0.0
        length = float(np.sqrt(z @ z))
        apart = z - step * query
        steps, gaps, lengths, _ = self._facts
        lowest = np.empty(best)
        upper = self._upper[: self.n_rows]
        far = float(np.sqrt(self.centre @ self.centre)) * length
        sums = self._sums[: self.n_rows]
        code_products(self._codes[: self.n_rows], query, sums)
        with np.errstate(over="ignore", invalid="ignore"):
            bound_scores(
                sums,
                steps,
                gaps,
                lengths,
                counts,
                step,
                length,
                float(np.sqrt(apart @ apart)),
                _NONE if scale is None else scale,
                float(offset + self.centre @ z),
                _NONE if bias is None else bias,
                (n_features + 16) * 2.0**-52,
                2.0 * far + slack,
                lowest,
                upper,
            )
        # Not ">=": NaN must stay.
        found = np.flatnonzero(~(upper < lowest[-1]))
        return None if len(found) > LARGE_SHARE * self.n_rows else found

    def _encode(self, rows: Array, first: int) -> None:
        from everlearn.statistics.kernels import encode_rows

        encode_rows(rows, first, self.centre, self._codes, *self._facts)

    def _grow(self, capacity: int) -> None:
        self._codes = padded(self._codes[: self.n_rows], capacity)
        self._facts = np.stack([padded(fact[: self.n_rows], capacity) for fact in self._facts])
        self._sums = np.empty(capacity, dtype=np.int32)
        self._upper = np.empty(capacity)
