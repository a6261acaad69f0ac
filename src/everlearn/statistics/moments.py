"""Counts, means and scatter: the additive statistics of all closed-form learners.

    n_k, μ_k          weight and mean of class k
    N, m              weight and mean of everything
    S = Σ_k Σ_i w_i (x_i − μ_k)(x_i − μ_k)ᵀ     pooled within-class scatter

All are float64 and centred, so features around 1e6 with unit variance keep their variance. Adding
examples, adding another set of moments and removing examples are exact up to rounding and do not
depend on order or grouping (Chan, Golub and LeVeque 1979): with n old and n' new examples of one
class, and δ the difference of their means, the scatter grows by n n' / (n + n') δ δᵀ in addition to
the scatter of the new examples. Every change of S is therefore a sum of outer products of *rows*,
and those rows are returned, so that a factor of S can be updated.

Single examples are collected in a small buffer and enter S together through BLAS-3, so that one
example costs about as much as one row of a matrix product.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas

from everlearn.acceleration import COMPILED
from everlearn.arrays import Array, Slots, padded
from everlearn.errors import DamagedModel, NeverLearned, NotForgettable
from everlearn.statistics.class_means import (
    ROUNDING,
    Block,
    ClassMeans,
)
from everlearn.statistics.validated import validated_array
from everlearn.statistics.waiting_rows import (
    CAPACITY,
    MANY_FEATURES,
    WaitingRows,
    add_outer_products,
    subtract_outer_products,
)

# From this many rows on, all threads of BLAS are used.
MANY_ROWS = 512
# Examples learned at a time: their rows stay in the cache until they are added to S.
BLOCK_ROWS = 1024
# Up to this many multiplications, a second or two, class means are added to a matrix on one thread:
# on a busy machine the threads of BLAS wait for one another.
ON_ONE_THREAD = 2e10
# A scatter that was this many times larger before a removal is rounding error, not variance.
LEAST_SHARE = 1e-10


@dataclass(frozen=True, eq=False)
class Start:
    """Prior scatter: n₀ Σ₀, its upper triangle, and n₀."""

    scatter: Array
    weight: float


class Moments(ClassMeans):
    """Class means and the pooled within-class scatter S.

    Parameters
    ----------
    n_features : int
    class_scatter : bool
        Keep S_k of every class as well: K d² numbers instead of d². Needed to forget a whole class
        without its examples, or to weight classes afterwards.
    half_life : float, optional
        The weight of an example halves after this many further examples.
    start : Start, optional
        Scatter before the first example. It is never forgotten, and counts once in a merge of two
        moments that both began with it.
    """

    def __init__(
        self,
        n_features: int,
        *,
        class_scatter: bool = False,
        half_life: float | None = None,
        start: "Start | None" = None,
    ) -> None:
        super().__init__(n_features, half_life=half_life)
        self.start = start
        # Only the upper triangle (in C order) is maintained.
        self._scatter = np.zeros((n_features, n_features))
        self._class_scatter = np.zeros((0, n_features, n_features)) if class_scatter else None
        self._waiting = WaitingRows(n_features)
        # The class of each waiting row, if scatter is kept by class.
        self._waiting_slots: list[int] = []
        # tr(S) of the rows that have entered it; waiting rows have their own trace.
        self._trace = 0.0
        # The largest trace S ever had: rounding error after a removal is relative to it.
        self._peak = 0.0
        if start is not None:
            self._restart()
            self._note_trace()

    @property
    def scatter_weight(self) -> float:
        """Divisor that turns S into a covariance: N plus the weight of the start."""
        return self.total + (self.start.weight if self.start is not None else 0.0)

    @property
    def keeps_class_scatter(self) -> bool:
        return self._class_scatter is not None

    @property
    def scatter_trace(self) -> float:
        """tr(S), available without adding waiting rows."""
        return self._trace + self._waiting.trace

    @property
    def peak(self) -> float:
        """The largest trace S ever had."""
        return self._peak

    def scatter(self) -> Array:
        """S as a full symmetric matrix, a copy."""
        return _symmetric(self.upper_scatter())

    def upper_scatter(self, into: Array | None = None) -> Array:
        """The upper triangle of S; read-only, unless it is written to an array of yours."""
        if self._class_scatter is not None:
            self.flush()
        elif len(self._waiting):
            self._waiting.add_complete_groups(self._scatter)
            self._note_trace()
        return self._waiting.added_to(self._scatter, into)

    def scatter_parts(self) -> tuple[Array, WaitingRows]:
        """The upper triangle of the part that has entered S, and the waiting rows; not copies."""
        if self._class_scatter is not None:
            self.flush()
        return self._scatter, self._waiting

    @property
    def has_entered(self) -> bool:
        """Whether S contains more than waiting rows."""
        return self._trace > 0.0 or self._waiting.has_left

    def scatter_times(self, v: Array) -> Array:
        """S v, without adding waiting rows."""
        known = blas.dsymv(1.0, self._scatter.T, v, lower=1)
        return known + self._waiting.times(v)

    def class_scatter(self, slot: int) -> Array:
        """S_k as a full symmetric matrix, a copy."""
        if self._class_scatter is None:
            raise NotForgettable("scatter is kept for all classes together; use class_scatter=True")
        self.flush()
        return _symmetric(self._class_scatter[slot])

    def gram(self) -> Array:
        """G = S + Σ n_k μ_k μ_kᵀ = Σ w_i x_i x_iᵀ, its upper triangle."""
        return self._with_between(None)

    def weighted_scatter(self, class_weights: Array, origin: Array) -> Array:
        """Σ γ_k (S_k + n_k (μ_k − o)(μ_k − o)ᵀ), its upper triangle; needs ``class_scatter``."""
        if self._class_scatter is None:
            raise NotForgettable("scatter is kept for all classes together; use class_scatter=True")
        self.flush()
        upper = np.tensordot(class_weights, self._class_scatter[: self.n_slots], axes=1)
        roots = np.sqrt(class_weights * self.counts)
        add_outer_products(upper, roots[:, None] * (self.means - origin))
        return upper

    def total_scatter(self) -> Array:
        """T = S + Σ n_k (μ_k − m)(μ_k − m)ᵀ, scatter about the overall mean; its upper triangle."""
        return self._with_between(self.mean)

    def state(self) -> dict[str, NDArray[Any]]:
        scatter = self.upper_scatter()
        peak = np.array([max(self._peak, float(scatter.trace()))])
        arrays = super().state() | {"scatter": self._in_examples(scatter)}
        arrays["scatter_peak"] = self._in_examples(peak)
        if self._class_scatter is not None:
            arrays["class_scatter"] = self._in_examples(self._class_scatter[: self.n_slots])
        return arrays

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        super().restore(arrays)
        self._waiting.clear()
        self._waiting_slots.clear()
        square = (self.n_features, self.n_features)
        self._scatter = validated_array(arrays, "scatter", *square)
        self._require_scatter("scatter", self._scatter)
        self._peak = float(validated_array(arrays, "scatter_peak", 1, least=0.0)[0])
        self._note_trace()
        if self._class_scatter is not None:
            self._class_scatter = validated_array(arrays, "class_scatter", self.n_slots, *square)
            for scatter in self._class_scatter:
                self._require_scatter("class_scatter", scatter)

    def _require_scatter(self, name: str, scatter: Array) -> None:
        """Require variances that are not negative and do not overflow."""
        variances = scatter.diagonal()
        slack = ROUNDING * float(np.abs(variances).max())
        if variances.min() < -slack or not np.isfinite(variances.sum()):
            raise DamagedModel(f"{name} is not a scatter: a variance is negative or overflows")

    def __getstate__(self) -> dict[str, Any]:
        # Copies may lie in read-only memory, so no write may be left pending.
        if self._class_scatter is not None:
            self.flush()
        state = dict(self.__dict__)
        if len(self._waiting):
            state["_scatter"] = self._waiting.added_to(self._scatter)
            state["_waiting"] = WaitingRows(self.n_features)
            state["_trace"] = float(state["_scatter"].trace())
        return state

    def copy(self) -> "Moments":
        """An independent copy."""
        half_life = None if self._fading is None else self._fading.half_life
        twin = type(self)(
            self.n_features,
            class_scatter=self.keeps_class_scatter,
            half_life=half_life,
            start=self.start,
        )
        twin.restore({key: array.copy() for key, array in self.state().items()})
        return twin

    def replace_scatter(self, S: Array) -> None:
        """Replace S by another estimate, such as a regularised one."""
        self._waiting.clear()
        self._waiting_slots.clear()
        self._scatter = np.array(S, dtype=np.float64, order="C")
        self._note_trace()
        self.version += 1

    def _absorb(self, x: Array, slot: int, row: Array) -> float:
        square = super()._absorb(x, slot, row)
        self._waiting.add(square)
        if square == 0.0 and self._class_scatter is not None:
            self._waiting_slots.pop()
        return square

    def _next_row(self, slot: int) -> Array:
        if self._class_scatter is not None:
            if len(self._waiting) == CAPACITY:
                self.flush()
            self._waiting_slots.append(slot)
        return self._waiting.next_row(self._scatter)

    def flush(self) -> None:
        if not len(self._waiting):
            return
        if self._class_scatter is not None:
            self._add_by_class(self._waiting.rows(), np.array(self._waiting_slots))
            self._waiting_slots.clear()
        self._waiting.empty(self._scatter)
        self._note_trace()

    def _add_by_class(self, rows: Array, slots: Slots) -> None:
        assert self._class_scatter is not None
        for slot in np.unique(slots):
            add_outer_products(self._class_scatter[slot], rows[slots == slot])

    def _grow_scatter(self, rows: Array, slots: Slots) -> None:
        add_outer_products(self._scatter, rows)
        if self._class_scatter is not None:
            self._add_by_class(rows, slots)

    def _note_trace(self) -> None:
        """Recompute the trace after S changed as a whole."""
        self._trace = float(self._scatter.trace())
        self._waiting.trace_taken()
        self._peak = max(self._peak, self._trace)

    def _grow(self, capacity: int) -> None:
        super()._grow(capacity)
        if self._class_scatter is not None:
            self._class_scatter = padded(self._class_scatter, capacity)

    def _add_scatter(self, rows: Array, slots: Slots) -> None:
        many = CAPACITY if self.n_features > MANY_FEATURES else MANY_ROWS
        if len(rows) > many:
            self._waiting.finish(self._scatter)
            self._grow_scatter(rows, slots)
            self._note_trace()
            return
        # A few rows wait for others, as single ones do.
        if self._class_scatter is None:
            self._waiting.extend(rows, self._scatter)
            return
        moved = np.einsum("ij,ij->i", rows, rows) > 0.0
        rows, slots = rows[moved], slots[moved]
        for start in range(0, len(rows), CAPACITY):
            part = rows[start : start + CAPACITY]
            if len(self._waiting) + len(part) > CAPACITY:
                self.flush()
            self._waiting.extend(part, self._scatter)
            self._waiting_slots += slots[start : start + CAPACITY].tolist()

    def _remove_scatter(self, rows: Array, block: "Block", between: Array) -> None:
        self.flush()
        self._require_varied(np.einsum("ij,ij->j", rows, rows))
        subtract_outer_products(self._scatter, rows)
        if self._class_scatter is not None:
            for slot, members in block.rows_by_class(between):
                subtract_outer_products(self._class_scatter[slot], members)
        self._drop_rounding()

    def _rescale(self, factor: float) -> None:
        super()._rescale(factor)
        self.flush()
        self._scatter *= factor
        if self._class_scatter is not None:
            self._class_scatter *= factor
        self._peak *= factor
        self._note_trace()

    def _merge_scatter(
        self,
        other: ClassMeans,
        share: float,
        between: Array,
        slots: Slots,
        known: NDArray[np.bool_],
    ) -> None:
        assert isinstance(other, Moments)
        theirs_all = other.upper_scatter()
        self.flush()
        self._scatter += theirs_all if share == 1.0 else share * theirs_all
        if other.start is not None:
            self._scatter -= share * other.start.scatter
        add_outer_products(self._scatter, between)
        self._peak = max(self._peak, share * other._peak)
        self._note_trace()
        if self._class_scatter is not None:
            assert other._class_scatter is not None
            for slot, theirs, row in zip(slots, np.flatnonzero(known), between, strict=True):
                self._class_scatter[slot] += share * other._class_scatter[theirs]
                add_outer_products(self._class_scatter[slot], row[None])

    def _unmerge_scatter(
        self, other: ClassMeans, between: Array, slots: Slots, known: NDArray[np.bool_]
    ) -> None:
        assert isinstance(other, Moments)
        theirs = other.upper_scatter()
        if other.start is not None:
            theirs = theirs - other.start.scatter
        self.flush()
        self._require_varied(theirs.diagonal() + np.einsum("ij,ij->j", between, between))
        self._scatter -= theirs
        subtract_outer_products(self._scatter, between)
        if self._class_scatter is not None:
            assert other._class_scatter is not None
            for slot, there, row in zip(slots, np.flatnonzero(known), between, strict=True):
                self._class_scatter[slot] -= other._class_scatter[there]
                subtract_outer_products(self._class_scatter[slot], row[None])
        self._drop_rounding()

    def _require_varied(self, removed: Array) -> None:
        """Raise ``NeverLearned`` if more variation would be removed than there is."""
        diagonal = self.upper_scatter().diagonal()
        if self.start is not None:
            diagonal = diagonal - self.start.scatter.diagonal()
        if np.any(removed - diagonal > ROUNDING * (diagonal + self._peak / self.n_features)):
            raise NeverLearned(
                "the examples to be forgotten vary more than everything that was learned, so "
                "they were not part of it; forget only what was taught"
            )

    def _remove_class_scatter(self, slot: int) -> None:
        if self._class_scatter is None:
            raise NotForgettable("scatter is kept for all classes together; use class_scatter=True")
        self.flush()
        self._scatter -= self._class_scatter[slot]
        self._class_scatter[slot] = 0.0
        self._drop_rounding()

    def _drop_rounding(self) -> None:
        """After a removal, set S to zero if only rounding error is left."""
        if float(self._scatter.trace()) > LEAST_SHARE * self._peak:
            return
        self._restart()
        if self._class_scatter is not None:
            self._class_scatter[:] = 0.0

    def _restart(self) -> None:
        """Reset S to its state before the first example: the start's, or zero."""
        self._scatter[:] = 0.0 if self.start is None else self.start.scatter

    def _recompute_total(self) -> None:
        super()._recompute_total()
        if not self.total:
            self._restart()
            self._peak = 0.0
        self._note_trace()

    def _with_between(self, origin: Array | None) -> Array:
        upper = self.upper_scatter().copy()
        roots = np.sqrt(self.counts)
        is_short = 0.5 * self.n_slots * self.n_features**2 <= ON_ONE_THREAD
        # In blocks that fit the cache: a second copy of all means would cost more.
        together = CAPACITY if COMPILED and is_short else BLOCK_ROWS
        for start in range(0, self.n_slots, together):
            part = slice(start, start + together)
            means = self.means[part] if origin is None else self.means[part] - origin
            add_outer_products(upper, roots[part, None] * means)
        return upper


def _symmetric(upper: Array) -> Array:
    full = np.triu(upper)
    return full + np.triu(upper, 1).T
