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

Where these bounds leave a sum over all rows too uncertain, a second byte per number is kept,
e_k ≈ (s_k / 254) f_k, whose bounds are two hundred times as close.

The copy is a cache of rows kept elsewhere: an eighth of their memory, built in slices of ``SLICE``
rows per call so that no call stalls, and updated row by row, O(d) each.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from everlearn.arrays import AnyArray, Array, Slots, padded

# Fewer rows than this are not worth a second copy.
MANY_ROWS = 4096
# Most rows encoded in one call.
SLICE = 2048
# Room for more rows when there is room for all; what is not used costs no memory.
ROOM = 1.25
# If more than this share of the rows may be among the best, all are scored.
LARGE_SHARE = 0.125
# So many rows more are scored, one number after the other, for a share that is open too far.
FURTHER = (64, 512, 4096)
# Fine codes have a step smaller by this factor: what a code leaves is at most half of its step, and
# the largest code is 127.
FINER = 254.0
# Rows far below the best are not summed: together they add less than this share of the tolerance.
NEGLIGIBLE = 1e-3
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


class Shares(NamedTuple):
    """Rows, in ascending order, with their shares of a sum over all rows and their scores."""

    rows: Slots
    shares: Array
    scores: Array


@dataclass(frozen=True)
class _Question:
    """A question in integers: z ≈ step · query, up to a vector of length ``gap``."""

    asked: Products
    query: AnyArray
    step: float
    length: float
    gap: float
    offset: float


class Screen:
    """A one-byte copy of rows that bounds their scores.

    Parameters
    ----------
    centre : ndarray of shape (n_features,)
        The origin of the rows: a point near their mean.

    Attributes
    ----------
    n_rows, n_fine : int
        Number of encoded rows, and of those with a second byte.
    wants_fine : bool
        Whether a second byte would have helped; see :meth:`refine`.
    """

    def __init__(self, centre: Array) -> None:
        n_features = len(centre)
        self.centre = np.array(centre, dtype=np.float64)
        self.n_rows = self.n_fine = 0
        self.wants_fine = False
        self._codes: AnyArray = np.zeros((0, n_features), dtype=np.int8)
        self._fine_codes: AnyArray = np.zeros((0, n_features), dtype=np.int8)
        # By row: steps, gaps, lengths, squares and fine gaps, as used by the kernels.
        self._facts = np.zeros((5, 0))
        # By row: products of either code with the last question, what they are together in steps
        # of the first, and the upper bound of the score.
        self._sums = np.zeros(0, dtype=np.int32)
        self._fine_sums = np.zeros(0, dtype=np.int32)
        self._near_sums: AnyArray = self._sums
        self._upper = np.zeros(0)

    def squares(self) -> Array:
        """‖row − centre‖² of every row."""
        return self._facts[3, : self.n_rows]

    def extend(self, rows: Array) -> bool:
        """Encode the next slice of rows; returns whether all are encoded."""
        first, stop = self.n_rows, min(self.n_rows + SLICE, len(rows))
        if stop > len(self._codes):
            self._grow(int(ROOM * len(rows)))
        if self.is_fine:
            self.n_fine = stop
        self._encode(rows[first:stop], first)
        self.n_rows = stop
        return stop == len(rows)

    @property
    def is_fine(self) -> bool:
        """Whether all rows have a second byte."""
        return len(self._fine_codes) > 0 and self.n_fine == self.n_rows

    def refine(self, rows: Array) -> None:
        """Give the next slice of encoded rows a second byte."""
        if not len(self._fine_codes):
            self._fine_codes = np.zeros_like(self._codes)
            self._fine_sums = np.empty_like(self._sums)
        first = self.n_fine
        self.n_fine = min(first + SLICE, self.n_rows)
        self._encode(rows[first : self.n_fine], first)

    def mend(self, rows: Array, slots: Slots) -> None:
        """Encode these rows again."""
        for slot in slots[slots < self.n_rows].tolist():
            self._encode(rows[slot : slot + 1], slot)

    def candidates(self, asked: Products, counts: Array, *, best: int = 1) -> Slots | None:
        """Rows that may have one of the ``best`` highest scores; ``None`` for too many of them.

        Rows without a count have no score.
        """
        question = self._quantized(asked)
        return None if question is None else self._candidates(question, counts, best)

    def shares(
        self,
        asked: Products,
        counts: Array,
        exact: Callable[[Slots], Array],
        *,
        best: int,
        temperature: float,
        tolerance: float,
    ) -> Shares | None:
        """:meth:`candidates`, and their shares of Σ exp(score / temperature) over all rows.

        The sum over the other rows lies between those of their bounds. Where that leaves more than
        ``tolerance`` of the whole sum open, fine bounds are used, if there are any, and then the
        rows that leave most of it open are scored as well. So every share is right up to half of
        the tolerance, relative to the share. ``None`` where too many rows would have to be scored.

        Parameters
        ----------
        exact : callable
            The scores of some rows.
        """
        question = self._quantized(asked)
        if question is None:
            return None
        for fine in (False, True) if self.is_fine else (False,):
            found = self._candidates(question, counts, best, fine=fine)
            if found is not None and len(found):
                further = FURTHER if fine == self.is_fine else ()
                shares = self._shares(
                    question, counts, exact, found, temperature, tolerance, further
                )
                if shares is not None:
                    return shares
            self.wants_fine = True
        return None

    def _shares(
        self,
        question: _Question,
        counts: Array,
        exact: Callable[[Slots], Array],
        found: Slots,
        temperature: float,
        tolerance: float,
        further: tuple[int, ...],
    ) -> Shares | None:
        """Shares of the rows found, with more rows scored if necessary."""
        scores = exact(found)
        top = scores.max()
        n, neglected = self.n_rows, NEGLIGIBLE * tolerance
        far = temperature * np.log(n / neglected)
        others = (counts[:n] > 0.0) & ~(self._upper[:n] < top - far)
        others[found] = False
        rest = np.flatnonzero(others)
        with np.errstate(over="ignore", invalid="ignore"):
            near, upper = self._near(question, rest), self._upper[rest]
            most = np.exp((upper - top) / temperature)
            least = np.exp((near - (upper - near) - 1e-15 * np.abs(upper) - top) / temperature)
            weights = np.exp((scores - top) / temperature)
            whole = weights.sum()
            for more in (0, *further):
                self.wants_fine = self.wants_fine or more > 0
                if len(found) + more > LARGE_SHARE * n:
                    return None
                if more and len(rest):
                    # Largest uncertainty first; NaN before everything.
                    open_ = np.where(most - least < np.inf, least - most, -np.inf)
                    order = np.argpartition(open_, min(more, len(rest)) - 1)
                    some, order = rest[order[:more]], order[more:]
                    rest, most, least = rest[order], most[order], least[order]
                    whole += np.exp((exact(some) - top) / temperature).sum()
                still_open = most.sum() - least.sum() + neglected
                if still_open <= tolerance * (whole + least.sum()):
                    total = whole + (least.sum() + most.sum() + neglected) / 2.0
                    return Shares(found, weights / total, scores)
        return None

    def _candidates(
        self, question: _Question, counts: Array, best: int, *, fine: bool = False
    ) -> Slots | None:
        lowest = self._bound(question, counts, best, fine=fine)
        # Not ">=": NaN stays.
        found = np.flatnonzero(~(self._upper[: self.n_rows] < lowest[-1]))
        # Where fewer rows have a score than are wanted, empty ones are not below the last of them.
        return None if len(found) > LARGE_SHARE * self.n_rows else found[counts[found] > 0.0]

    def _bound(self, question: _Question, counts: Array, best: int, *, fine: bool) -> Array:
        """Bound every score, into ``_upper``; the ``best`` largest lower bounds, best first.

        Fine bounds follow coarse ones of the same question.
        """
        from everlearn.statistics.kernels import bound_scores, code_products

        asked, n, n_features = question.asked, self.n_rows, len(self.centre)
        steps, gaps, lengths, _, fine_gaps = self._facts[:, :n]
        if fine:
            code_products(self._fine_codes[:n], question.query, self._fine_sums[:n])
            self._near_sums = self._sums[:n] + self._fine_sums[:n] / FINER
            gaps, lengths = fine_gaps, lengths + gaps + fine_gaps
        else:
            code_products(self._codes[:n], question.query, self._sums[:n])
            self._near_sums = self._sums[:n]
        lowest = np.empty(best)
        far = float(np.sqrt(self.centre @ self.centre)) * question.length
        with np.errstate(over="ignore", invalid="ignore"):
            bound_scores(
                self._near_sums,
                steps,
                gaps,
                lengths,
                counts,
                question.step,
                question.length,
                question.gap,
                _NONE if asked.scale is None else asked.scale,
                question.offset,
                _NONE if asked.bias is None else asked.bias,
                (n_features + 16) * 2.0**-52,
                2.0 * far + asked.slack,
                lowest,
                self._upper[:n],
            )
        return lowest

    def _near(self, question: _Question, rows: Slots) -> Array:
        """Approximate scores of some rows, from the products of the last bounds."""
        asked = question.asked
        near: Array = self._facts[0, rows] * question.step * self._near_sums[rows]
        near += question.offset
        if asked.scale is not None:
            near *= asked.scale[rows]
        if asked.bias is not None:
            near += asked.bias[rows]
        return near

    def _quantized(self, asked: Products) -> _Question | None:
        """The question in integers; ``None`` if there are too many features for them."""
        z = asked.z
        if len(z) > MANY_FEATURES:
            return None
        largest = float(np.abs(z).max(initial=0.0))
        step = largest / min(2**15 - 1, (2**31 - 1) // (128 * len(z)))
        step = step if 1e-300 < step < 1e300 else 0.0
        query = np.rint(z / step).astype(np.int16) if step else np.zeros(len(z), np.int16)
        apart = z - step * query
        return _Question(
            asked,
            query,
            step,
            float(np.sqrt(z @ z)),
            float(np.sqrt(apart @ apart)),
            float(asked.offset + self.centre @ z),
        )

    def _encode(self, rows: Array, first: int) -> None:
        from everlearn.statistics.kernels import encode_rows

        steps, gaps, lengths, squares, fine_gaps = self._facts
        encode_rows(
            rows,
            first,
            self.centre,
            self._codes,
            steps,
            gaps,
            lengths,
            squares,
            self._fine_codes,
            FINER,
            fine_gaps,
        )

    def _grow(self, capacity: int) -> None:
        self._codes = padded(self._codes[: self.n_rows], capacity)
        self._facts = np.stack([padded(fact[: self.n_rows], capacity) for fact in self._facts])
        if len(self._fine_codes):
            self._fine_codes = padded(self._fine_codes[: self.n_rows], capacity)
            self._fine_sums = np.empty(capacity, dtype=np.int32)
        self._sums = np.empty(capacity, dtype=np.int32)
        self._upper = np.empty(capacity)
