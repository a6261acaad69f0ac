"""Counts, means and scatter: the additive truth that every closed-form learner reads.

    n_k, μ_k          weight and mean of class k
    N, m              weight and mean of everything
    S = Σ_k Σ_i w_i (x_i − μ_k)(x_i − μ_k)ᵀ     pooled within-class scatter

All are float64 and centred, so features around 1e6 with unit variance keep their variance. Adding
examples, adding another set of moments and removing examples are exact up to rounding and do not
depend on order or grouping (Chan, Golub and LeVeque 1979): with n old and n' new examples of one
class, and δ the difference of their means, the scatter grows by n n' / (n + n') δ δᵀ beside what
the new examples have among themselves. Every change of S is therefore a sum of outer products of
*rows*, and those rows are returned, so that a factor of S can follow.

Single examples are collected in a small buffer and enter S together through BLAS-3, which is what
makes one example cost about as much as one row of a matrix product.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import blas

from everlearn.errors import NeverLearned, NotForgettable

Array = NDArray[np.float64]
Slots = NDArray[np.intp]

PENDING_ROWS = 128
BLOCK_ROWS = 4096
# A class whose remaining weight is below this share of what was removed holds nothing but rounding.
EMPTY = 1e-9
# How far a statistic may go below zero before the removed rows cannot have been among the learned.
ROUNDING = 1e-7


class ClassMeans:
    """Weight and mean of every class, and of everything."""

    def __init__(self, n_features: int) -> None:
        self.n_features = n_features
        self.total = 0.0
        self.mean = np.zeros(n_features)
        self.version = 0
        self._n_slots = 0
        self._counts = np.zeros(0)
        self._means = np.zeros((0, n_features))

    @property
    def n_slots(self) -> int:
        return self._n_slots

    @property
    def counts(self) -> Array:
        """n_k by slot, zero where nothing is known."""
        return self._counts[: self._n_slots]

    @property
    def means(self) -> Array:
        """μ_k by slot, one row each."""
        return self._means[: self._n_slots]

    def reserve(self, n_slots: int) -> None:
        """Make room for slots below ``n_slots``; amortised constant time per slot."""
        if n_slots <= self._n_slots:
            return
        if n_slots > len(self._counts):
            self._grow(max(8, n_slots, 2 * len(self._counts)))
        self._n_slots = n_slots

    def add_one(self, x: Array, slot: int) -> None:
        """Add one example of weight 1; ``x`` is finite, contiguous float64."""
        from everlearn.kernels.moments import absorb_row

        self.reserve(slot + 1)
        row = self._next_row()
        absorb_row(x, slot, self._counts, self._means, self.mean, self.total, row)
        self.total += 1.0
        self.version += 1

    def add(self, X: Array, slots: Slots, weights: Array | None = None) -> Array:
        """Add a block of examples and return the rows by whose outer products S grew."""
        self.reserve(int(slots.max()) + 1)
        block = _Block(X, slots, weights)
        old = self._counts[block.slots]
        delta = block.means - self._means[block.slots]
        between = np.sqrt(old * block.counts / (old + block.counts))[:, None] * delta
        rows = np.concatenate([block.within, between[old > 0]])
        self._add_scatter(rows, block, between)
        self._counts[block.slots] = old + block.counts
        self._means[block.slots] += (block.counts / (old + block.counts))[:, None] * delta
        self._shift_grand_mean(block)
        return rows

    def remove(self, X: Array, slots: Slots, weights: Array | None = None) -> Array:
        """Take a block of learned examples out again; returns the rows S shrank by.

        Raises ``NeverLearned``, and changes nothing, if the statistics show that some of the block
        cannot have been learned.
        """
        block = _Block(X, slots, weights)
        old = self._counts[block.slots]
        left = old - block.counts
        empty = np.abs(left) <= EMPTY * block.counts
        self._require_learned(block, left, empty)
        left[empty] = 0.0
        with np.errstate(invalid="ignore", divide="ignore"):
            shift = np.where(left > 0, block.counts / left, 0.0)
        means = self._means[block.slots] + shift[:, None] * (self._means[block.slots] - block.means)
        between = np.sqrt(left * block.counts / old)[:, None] * (block.means - means)
        rows = np.concatenate([block.within, between[~empty]])
        self._remove_scatter(rows, block, between)
        means[empty] = 0.0
        self._counts[block.slots] = left
        self._means[block.slots] = means
        self._recompute_total()
        return rows

    def merge(self, other: "ClassMeans", slots: Slots) -> None:
        """Add the moments of another set of examples; its slot i is our slot ``slots[i]``."""
        known = other.counts > 0
        slots = slots[known]
        if not len(slots):
            return
        self.reserve(int(slots.max()) + 1)
        theirs, ours = other.counts[known], self._counts[slots]
        delta = other.means[known] - self._means[slots]
        between = np.sqrt(ours * theirs / (ours + theirs))[:, None] * delta
        self._merge_scatter(other, between, slots, known)
        self._counts[slots] = ours + theirs
        self._means[slots] += (theirs / (ours + theirs))[:, None] * delta
        self._recompute_total()

    def remove_class(self, slot: int) -> None:
        """Forget everything about one class."""
        self._remove_class_scatter(slot)
        self._counts[slot] = 0.0
        self._means[slot] = 0.0
        self._recompute_total()

    def state(self) -> dict[str, NDArray[Any]]:
        """The moments as named arrays."""
        return {"counts": self.counts, "means": self.means}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take over the moments that :meth:`state` gave."""
        n_slots = len(arrays["counts"])
        self._counts = _restored(arrays["counts"], (n_slots,))
        self._means = _restored(arrays["means"], (n_slots, self.n_features))
        if np.any(self._counts < 0):
            raise ValueError("negative counts")
        self._n_slots = n_slots
        self._recompute_total()

    # Hooks: what a set of moments with scatter does beside the means.

    def _next_row(self) -> Array:
        return np.empty(self.n_features)

    def _add_scatter(self, rows: Array, block: "_Block", between: Array) -> None:
        pass

    def _remove_scatter(self, rows: Array, block: "_Block", between: Array) -> None:
        pass

    def _merge_scatter(
        self, other: "ClassMeans", between: Array, slots: Slots, known: NDArray[np.bool_]
    ) -> None:
        pass

    def _remove_class_scatter(self, slot: int) -> None:
        pass

    def _grow(self, capacity: int) -> None:
        self._counts = _padded(self._counts, capacity)
        self._means = _padded(self._means, capacity)

    def _shift_grand_mean(self, block: "_Block") -> None:
        added = float(block.counts.sum())
        mean = block.counts @ block.means / added
        self.total += added
        self.mean += (added / self.total) * (mean - self.mean)
        self.version += 1

    def _recompute_total(self) -> None:
        self.total = float(self.counts.sum())
        # From the class means, not by subtraction: removing leaves no rounding behind.
        self.mean = self.counts @ self.means / self.total if self.total else 0.0 * self.mean
        self.version += 1

    def _require_learned(self, block: "_Block", left: Array, empty: NDArray[np.bool_]) -> None:
        if np.any((left < 0) & ~empty):
            raise NeverLearned(
                "more examples of a class are to be forgotten than were learned; "
                "forget only what was taught"
            )
        gap = np.abs(block.means - self._means[block.slots])[empty]
        size = 1.0 + np.abs(block.means)[empty]
        if np.any(gap > ROUNDING * size):
            raise NeverLearned(
                "the last examples of a class are to be forgotten, but they are not the ones that "
                "were learned (their mean differs); forget only what was taught"
            )


class Moments(ClassMeans):
    """Class means and the pooled within-class scatter S.

    Parameters
    ----------
    n_features : int
    class_scatter : bool
        Keep S_k of every class as well: K d² numbers instead of d². It is what forgetting a whole
        class without its examples, or weighting classes after the fact, needs.
    """

    def __init__(self, n_features: int, *, class_scatter: bool = False) -> None:
        super().__init__(n_features)
        # Only the upper triangle (in C order) is kept up to date.
        self._scatter = np.zeros((n_features, n_features))
        self._class_scatter = np.zeros((0, n_features, n_features)) if class_scatter else None
        self._pending = np.empty((PENDING_ROWS, n_features))
        self._pending_slots = np.zeros(PENDING_ROWS, dtype=np.intp)
        self._n_pending = 0
        # The largest trace S ever had: what rounding is left after removing is relative to it.
        self._peak = 0.0

    @property
    def keeps_class_scatter(self) -> bool:
        return self._class_scatter is not None

    @property
    def last_row(self) -> Array:
        """The row by whose outer product the last :meth:`add_one` made S grow."""
        return self._pending[self._n_pending - 1]

    def scatter(self) -> Array:
        """S as a full symmetric matrix, a copy."""
        return _symmetric(self.upper_scatter())

    def upper_scatter(self) -> Array:
        """S, its upper triangle alone, not a copy."""
        self._flush()
        return self._scatter

    def class_scatter(self, slot: int) -> Array:
        """S_k as a full symmetric matrix, a copy."""
        if self._class_scatter is None:
            raise NotForgettable("scatter was kept for all classes together, not for each")
        self._flush()
        return _symmetric(self._class_scatter[slot])

    def gram(self) -> Array:
        """G = S + Σ n_k μ_k μ_kᵀ = Σ w_i x_i x_iᵀ, its upper triangle."""
        return self._with_between(np.zeros(self.n_features))

    def weighted_scatter(self, class_weights: Array, origin: Array) -> Array:
        """Σ γ_k (S_k + n_k (μ_k − o)(μ_k − o)ᵀ), its upper triangle; needs ``class_scatter``."""
        if self._class_scatter is None:
            raise NotForgettable("scatter was kept for all classes together, not for each")
        self._flush()
        upper = np.tensordot(class_weights, self._class_scatter[: self.n_slots], axes=1)
        roots = np.sqrt(class_weights * self.counts)
        _add_outer_products(upper, roots[:, None] * (self.means - origin))
        return upper

    def total_scatter(self) -> Array:
        """T = S + Σ n_k (μ_k − m)(μ_k − m)ᵀ, scatter about the mean of all; its upper triangle."""
        return self._with_between(self.mean)

    def add_one(self, x: Array, slot: int) -> None:
        super().add_one(x, slot)
        self._pending_slots[self._n_pending - 1] = slot

    def state(self) -> dict[str, NDArray[Any]]:
        arrays = super().state() | {"scatter": self.upper_scatter()}
        arrays["scatter_peak"] = np.array([self._peak])
        if self._class_scatter is not None:
            arrays["class_scatter"] = self._class_scatter[: self.n_slots]
        return arrays

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        super().restore(arrays)
        self._n_pending = 0
        square = (self.n_features, self.n_features)
        self._scatter = _restored(arrays["scatter"], square)
        self._peak = float(arrays["scatter_peak"][0])
        if self._class_scatter is not None:
            self._class_scatter = _restored(arrays["class_scatter"], (self.n_slots, *square))

    def copy(self) -> "Moments":
        """An independent copy."""
        twin = type(self)(self.n_features, class_scatter=self.keeps_class_scatter)
        twin.restore({key: array.copy() for key, array in self.state().items()})
        return twin

    def replace_scatter(self, S: Array) -> None:
        """Put another estimate in the place of S (a regularised one, say)."""
        self._n_pending = 0
        self._scatter = np.array(S, dtype=np.float64, order="C")
        self._note_peak()
        self.version += 1

    def _next_row(self) -> Array:
        if self._n_pending == PENDING_ROWS:
            self._flush()
        self._n_pending += 1
        return self._pending[self._n_pending - 1]

    def _flush(self) -> None:
        if not self._n_pending:
            return
        rows = self._pending[: self._n_pending]
        slots = self._pending_slots[: self._n_pending]
        _add_outer_products(self._scatter, rows)
        if self._class_scatter is not None:
            for slot in np.unique(slots):
                _add_outer_products(self._class_scatter[slot], rows[slots == slot])
        self._n_pending = 0
        self._note_peak()

    def _note_peak(self) -> None:
        self._peak = max(self._peak, float(self._scatter.trace()))

    def _grow(self, capacity: int) -> None:
        super()._grow(capacity)
        if self._class_scatter is not None:
            self._class_scatter = _padded(self._class_scatter, capacity)

    def _add_scatter(self, rows: Array, block: "_Block", between: Array) -> None:
        _add_outer_products(self._scatter, rows)
        self._note_peak()
        if self._class_scatter is not None:
            self._flush()
            for slot, members in block.rows_by_class(between):
                _add_outer_products(self._class_scatter[slot], members)

    def _remove_scatter(self, rows: Array, block: "_Block", between: Array) -> None:
        diagonal = self.upper_scatter().diagonal()
        removed = np.einsum("ij,ij->j", rows, rows)
        if np.any(removed - diagonal > ROUNDING * (diagonal + self._peak / self.n_features)):
            raise NeverLearned(
                "the examples to be forgotten vary more than all that was learned, so they cannot "
                "have been among it; forget only what was taught"
            )
        _add_outer_products(self._scatter, rows, sign=-1.0)
        if self._class_scatter is not None:
            for slot, members in block.rows_by_class(between):
                _add_outer_products(self._class_scatter[slot], members, sign=-1.0)

    def _merge_scatter(
        self, other: ClassMeans, between: Array, slots: Slots, known: NDArray[np.bool_]
    ) -> None:
        assert isinstance(other, Moments)
        self.upper_scatter()[:] += other.upper_scatter()
        _add_outer_products(self._scatter, between)
        self._peak = max(self._peak, other._peak)
        self._note_peak()
        if self._class_scatter is not None:
            assert other._class_scatter is not None
            for slot, theirs, row in zip(slots, np.flatnonzero(known), between, strict=True):
                self._class_scatter[slot] += other._class_scatter[theirs]
                _add_outer_products(self._class_scatter[slot], row[None])

    def _remove_class_scatter(self, slot: int) -> None:
        if self._class_scatter is None:
            raise NotForgettable("scatter was kept for all classes together, not for each")
        self._flush()
        self._scatter -= self._class_scatter[slot]
        self._class_scatter[slot] = 0.0

    def _recompute_total(self) -> None:
        super()._recompute_total()
        if not self.total:
            self._scatter[:] = 0.0
            self._peak = 0.0

    def _with_between(self, origin: Array) -> Array:
        upper = self.upper_scatter().copy()
        _add_outer_products(upper, np.sqrt(self.counts)[:, None] * (self.means - origin))
        return upper


class _Block:
    """Some examples, summed up class by class."""

    def __init__(self, X: Array, slots: Slots, weights: Array | None) -> None:
        self.slots, self.member_of = np.unique(slots, return_inverse=True)
        w = np.ones(len(X)) if weights is None else weights
        self.counts = np.bincount(self.member_of, w, len(self.slots))
        membership = sp.csr_array(
            (w / self.counts[self.member_of], (self.member_of, np.arange(len(X)))),
            shape=(len(self.slots), len(X)),
        )
        self.means = np.asarray(membership @ X)
        within = X - self.means[self.member_of]
        # One correction step: the mean of large numbers is only as good as their sum.
        correction = np.asarray(membership @ within)
        self.means += correction
        within -= correction[self.member_of]
        self.within: Array = within if weights is None else np.sqrt(w)[:, None] * within

    def rows_by_class(self, between: Array) -> Any:
        """Pairs of a slot and the rows of its class."""
        for index, slot in enumerate(self.slots):
            members = self.within[self.member_of == index]
            yield slot, np.concatenate([members, between[index : index + 1]])


def _add_outer_products(upper: Array, rows: Array, sign: float = 1.0) -> None:
    """Upper triangle of ``upper`` += sign rowsᵀ rows, in place."""
    if not len(rows):
        return
    # The C-ordered upper triangle is the Fortran-ordered lower triangle of the same memory.
    blas.dsyrk(sign, rows.T, beta=1.0, c=upper.T, lower=1, overwrite_c=1)


def _symmetric(upper: Array) -> Array:
    full = np.triu(upper)
    return full + np.triu(upper, 1).T


def _restored(array: NDArray[Any], shape: tuple[int, ...]) -> Array:
    """An array from outside, made sure of: compiled code trusts its shape."""
    if array.shape != shape or not np.all(np.isfinite(array)):
        raise ValueError(f"an array of shape {array.shape} stands where {shape} should")
    return np.array(array, dtype=np.float64, order="C")


def _padded(array: Array, capacity: int) -> Array:
    grown = np.zeros((capacity, *array.shape[1:]))
    grown[: len(array)] = array
    return grown
