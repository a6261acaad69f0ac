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

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from everlearn.arrays import AnyArray, Array, Slots, padded

# Fewer rows than this are not worth a second copy.
MANY_ROWS = 4096
# Most rows encoded in one call.
SLICE = 2048
# If more than this share of the rows may be among the best, all are scored.
LARGE_SHARE = 0.125
# So many rows more are scored, one number after the other, for a share that is open too far.
FURTHER = (64, 512, 4096)
# Beyond so many features a sum of products of codes might not fit 32 bits.
MANY_FEATURES = 2**16

_NONE = np.zeros(0)


@dataclass(frozen=True)
class Products:
    """A question: the score of row k is a_k (row_k·z + c) + b_k.

    Attributes
    ----------
    z : ndarray of shape (n_features,)
    scale, bias : ndarray of shape (n_rows,), optional
        a_k, not negative, and b_k; one and zero by default.
    offset : float
        c.
    slack : float
        The size of other terms that are rounded in computing row_k·z.
    """

    z: Array
    scale: Array | None = None
    offset: float = 0.0
    bias: Array | None = None
    slack: float = 0.0


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

    def candidates(self, asked: Products, counts: Array, *, best: int = 1) -> Slots | None:
        """Rows that may have one of the ``best`` highest scores; ``None`` for too many of them.

        Rows without a count have no score.
        """
        lowest = self._bound(asked, counts, best)
        if lowest is None:
            return None
        # Not ">=": NaN stays.
        found = np.flatnonzero(~(self._upper[: self.n_rows] < lowest[-1]))
        # Where fewer rows have a score than are wanted, empty ones are not below the last of them.
        return None if len(found) > LARGE_SHARE * self.n_rows else found[counts[found] > 0.0]

    def shares(
        self,
        asked: Products,
        counts: Array,
        exact: Callable[[Slots], Array],
        *,
        best: int,
        temperature: float,
        tolerance: float,
    ) -> tuple[Slots, Array] | None:
        """:meth:`candidates`, and their shares of Σ exp(score / temperature) over all rows.

        The sum over the other rows lies between those of their bounds. Where that leaves more than
        ``tolerance`` of the whole sum open, the rows that leave most of it open are scored as well.
        So every share is right up to half of the tolerance, relative to the share. ``None`` where
        too many rows would have to be scored.

        Parameters
        ----------
        exact : callable
            The scores of some rows.
        """
        found = self.candidates(asked, counts, best=best)
        if found is None or not len(found):
            return None
        scores = exact(found)
        top = scores.max()
        others = counts[: self.n_rows] > 0.0
        others[found] = False
        rest = np.flatnonzero(others)
        with np.errstate(over="ignore", invalid="ignore"):
            near, upper = self._near(asked)[rest], self._upper[rest]
            most = np.exp((upper - top) / temperature)
            least = np.exp((near - (upper - near) - 1e-15 * np.abs(upper) - top) / temperature)
            weights = np.exp((scores - top) / temperature)
            whole = weights.sum()
            for more in (0, *FURTHER):
                if len(found) + more > LARGE_SHARE * self.n_rows:
                    return None
                if more and len(rest):
                    # Largest uncertainty first; NaN before everything.
                    open_ = np.where(most - least < np.inf, least - most, -np.inf)
                    order = np.argpartition(open_, min(more, len(rest)) - 1)
                    some, order = rest[order[:more]], order[more:]
                    rest, most, least = rest[order], most[order], least[order]
                    whole += np.exp((exact(some) - top) / temperature).sum()
                if most.sum() - least.sum() <= tolerance * (whole + least.sum()):
                    return found, weights / (whole + (least.sum() + most.sum()) / 2.0)
        return None

    def _bound(self, asked: Products, counts: Array, best: int) -> Array | None:
        """Bound every score, into ``_upper``; the ``best`` largest lower bounds, best first."""
        from everlearn.statistics.kernels import bound_scores, code_products

        z, n_features = asked.z, len(self.centre)
        if n_features > MANY_FEATURES:
            return None
        step = self._step(z)
        query = np.rint(z / step).astype(np.int16) if step else np.zeros(n_features, np.int16)
        length = float(np.sqrt(z @ z))
        apart = z - step * query
        steps, gaps, lengths, _ = self._facts
        lowest = np.empty(best)
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
                _NONE if asked.scale is None else asked.scale,
                float(asked.offset + self.centre @ z),
                _NONE if asked.bias is None else asked.bias,
                (n_features + 16) * 2.0**-52,
                2.0 * far + asked.slack,
                lowest,
                self._upper[: self.n_rows],
            )
        return lowest

    def _near(self, asked: Products) -> Array:
        """Approximate scores from the last computed sums."""
        n = self.n_rows
        near = self._facts[0, :n] * self._step(asked.z) * self._sums[:n]
        near += float(asked.offset + self.centre @ asked.z)
        if asked.scale is not None:
            near *= asked.scale[:n]
        if asked.bias is not None:
            near += asked.bias[:n]
        return near

    def _step(self, z: Array) -> float:
        """T of z ≈ t q; zero where z is too small or too large for it."""
        largest = float(np.abs(z).max(initial=0.0))
        step = largest / min(2**15 - 1, (2**31 - 1) // (128 * len(z)))
        return step if 1e-300 < step < 1e300 else 0.0

    def _encode(self, rows: Array, first: int) -> None:
        from everlearn.statistics.kernels import encode_rows

        encode_rows(rows, first, self.centre, self._codes, *self._facts)

    def _grow(self, capacity: int) -> None:
        self._codes = padded(self._codes[: self.n_rows], capacity)
        self._facts = np.stack([padded(fact[: self.n_rows], capacity) for fact in self._facts])
        self._sums = np.empty(capacity, dtype=np.int32)
        self._upper = np.empty(capacity)
