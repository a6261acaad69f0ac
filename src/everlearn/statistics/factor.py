"""A triangular factor that is updated along with its matrix.

R is upper triangular with RᵀR = A. When A grows by rowsᵀ rows (or shrinks), R is updated by
orthogonal transformations instead of being recomputed: O(d²) for one row, against O(d³). The factor
is a cache, never the source of truth: it can be rebuilt from A at any time, and it is compared with
A from time to time and rebuilt when it has drifted. No inverse is ever formed.

Changes are deferred until the factor is needed, because a learner that is taught a thousand
examples between two questions needs one rebuild, not a thousand updates. Then, by the number
pending:

    up to 16 rows, or 10⁸ / d²      one compiled Givens sweep each, O(d²), on one thread
    up to an eighth of d, at least 64   LAPACK tpqrt on the stacked rows, BLAS-3
    more                            Cholesky of A

Where forming A takes much longer than its factor, the caller allows more rows.

A right-hand side can be carried along as V = R⁻ᵀ b by applying the same rotations to it. This costs
O(K d) at every update and saves one of two triangular solves per question, O(d²), so it pays only
for few classes (K < d / 4); ``benchmarks/carried_rhs.py`` measures it. The learners solve with the
statistics b themselves, which needs no second copy that could drift.
"""

from collections.abc import Callable

import numpy as np
from scipy.linalg import blas, lapack

from everlearn.arrays import Array
from everlearn.errors import LostDefiniteness
from everlearn.statistics.products import FEW_ROWS

# Single-row updates between two comparisons with the true matrix, and the relative difference
# (measured along one fixed direction) above which the factor is rebuilt.
CHECK_EVERY = 10_000
DRIFT_TOLERANCE = 1e-11
# A downdate that would leave less than this share of a direction is rejected.
SMALLEST_SHARE = 1e-8
# More rows are added one by one, too, if that takes at most so many multiplications: on a busy
# machine LAPACK's threads wait for one another, which takes seconds.
SINGLE_ROWS, SINGLE_PRODUCTS = FEW_ROWS, 1e8
# So many times fewer rows may wait to be removed: each is a downdate of its own, whereas many added
# rows are part of one matrix product.
ONE_REMOVED = 8
TPQRT_BLOCK = 32


class Factor:
    """The Cholesky factor of a matrix that grows and shrinks by outer products."""

    def __init__(self, n_features: int) -> None:
        self.n_features = n_features
        self.rebuilds = 0
        self._R: Array | None = None
        self._most_pending = max(64, n_features // 8)
        self._added: list[Array] = []
        self._removed: list[Array] = []
        self._n_pending = self._n_removed = 0
        self._updates_since_check = 0

    @classmethod
    def of(cls, R: Array) -> "Factor":
        """Wrap a factor computed elsewhere; not a copy."""
        factor = cls(len(R))
        factor._R = R
        return factor

    @property
    def R(self) -> Array:
        if self._R is None:
            raise LostDefiniteness("the factor is not built yet; call bring_up_to_date first")
        return self._R

    @property
    def stale(self) -> bool:
        """Whether the factor must be built from its matrix before it can be used."""
        return self._R is None

    @property
    def most_pending(self) -> int:
        """Largest number of deferred rows that are applied; more cause a rebuild."""
        return self._most_pending

    @property
    def pending(self) -> Array:
        """The rows added since the factor was last updated."""
        return np.concatenate(self._added) if self._added else np.zeros((0, self.n_features))

    def add(self, rows: Array, most_pending: int = 0) -> None:
        """Record that A grew by rowsᵀ rows (one row or several); the rows are copied.

        ``most_pending`` may be more than the usual.
        """
        self._defer(rows, self._added, max(most_pending, self._most_pending))

    def remove(self, rows: Array, most_pending: int = 0) -> None:
        """Record that A shrank by rowsᵀ rows, each of which costs as much as several added ones."""
        self._defer(rows, self._removed, max(most_pending // ONE_REMOVED, self._most_pending))

    def invalidate(self) -> None:
        """Record that A changed in a way that rows do not describe."""
        self._R = None
        self._clear_pending()

    def bring_up_to_date(self, matrix: Callable[[], Array]) -> None:
        """Apply pending changes; ``matrix`` returns the upper triangle of A if it is needed."""
        if self._R is None:
            self._rebuild(matrix())
            return
        if not self._n_pending:
            return
        self._apply_pending(matrix)
        if self._updates_since_check >= CHECK_EVERY:
            self._check(matrix())

    def check_with(self, times: Callable[[Array], Array], *, now: bool = False) -> None:
        """Compare with A from time to time, given v ↦ A v, which is cheaper than forming A.

        A factor that has drifted will be rebuilt.
        """
        is_due = now or self._updates_since_check >= CHECK_EVERY // 2
        if self._R is None or self._n_pending or not is_due:
            return
        self._updates_since_check = 0
        if not self._drift(times) <= DRIFT_TOLERANCE:  # it may be NaN
            self.invalidate()

    def drift(self, upper: Array) -> float:
        """‖RᵀR v − A v‖ / ‖A v‖ for one fixed direction v."""
        return self._drift(lambda v: blas.dsymv(1.0, upper.T, v, lower=1))

    def _drift(self, times: Callable[[Array], Array]) -> float:
        v = np.cos(np.arange(1.0, self.n_features + 1.0))
        ours = blas.dtrmv(self.R.T, blas.dtrmv(self.R.T, v, lower=1, trans=1), lower=1)
        true = times(v)
        with np.errstate(over="ignore", invalid="ignore"):
            return float(np.linalg.norm(ours - true) / np.linalg.norm(true))

    def forward(self, B: Array, matrix: Callable[[], Array]) -> Array:
        """R⁻ᵀ b for each row b of B, after applying pending changes.

        The usual case in a stream, one row since the last question, takes one sweep over R for
        both. ``B`` is overwritten.
        """
        one_row = self._n_pending == 1 and self._added
        if self._R is None or not one_row or self._updates_since_check + 1 >= CHECK_EVERY:
            self.bring_up_to_date(matrix)
            return self.half_solve(B)
        from everlearn.statistics.kernels import update_and_solve_forward

        update_and_solve_forward(self._R, self._added[0][0], B)
        self._updates_since_check += 1
        self._clear_pending()
        return B

    def forward_with_row(self, B: Array, matrix: Callable[[], Array]) -> tuple[Array, Array]:
        """R⁻ᵀ r for the single pending row r, which is applied, and R⁻ᵀ b for each row of B.

        As :meth:`forward`; the first is a by-product of the update.
        """
        row = self._added[0][0]
        if self._updates_since_check + 1 >= CHECK_EVERY:
            halves = self.forward(np.concatenate([row[None], B]), matrix)
            return halves[0], halves[1:]
        return row, self.forward(B, matrix)

    def backward(self, F: Array) -> Array:
        """R⁻¹ f for each row f of F; ``F`` is overwritten."""
        from everlearn.statistics.kernels import solve_backward

        solve_backward(self.R, F)
        return F

    def solve_one(self, x: Array) -> Array:
        """A⁻¹ x."""
        lower = self.R.T  # the C-ordered R is a Fortran-ordered lower triangle: no copy
        half = blas.dtrsv(lower, x, lower=1)
        return blas.dtrsv(lower, half, lower=1, trans=1, overwrite_x=1)

    def solve(self, rows: Array) -> Array:
        """A⁻¹ applied to each row of ``rows``; one row of the result each."""
        if len(rows) <= FEW_ROWS:
            return self.backward(self.half_solve(rows))
        lower = self.R.T
        half = blas.dtrsm(1.0, lower, rows.T, lower=1)
        return blas.dtrsm(1.0, lower, half, lower=1, trans_a=1, overwrite_b=1).T

    def half_solve(self, rows: Array) -> Array:
        """R⁻ᵀ applied to each row: its squared length is rowᵀ A⁻¹ row."""
        if len(rows) <= FEW_ROWS:  # one by one: the routine for several starts threads
            halves = np.empty(rows.shape)
            for half, row in zip(halves, rows, strict=True):
                half[:] = blas.dtrsv(self.R.T, row, lower=1)
            return halves
        return blas.dtrsm(1.0, self.R.T, rows.T, lower=1).T

    def _defer(self, rows: Array, pending: list[Array], most_pending: int) -> None:
        if self._R is None:
            return
        rows = np.atleast_2d(rows)
        pending.append(rows.copy())
        self._n_pending += len(rows)
        self._n_removed += len(rows) if pending is self._removed else 0
        n = self._n_removed if pending is self._removed else self._n_pending - self._n_removed
        if n > most_pending:
            self.invalidate()

    def _apply_pending(self, matrix: Callable[[], Array]) -> None:
        assert self._R is not None
        added, removed = self._added, self._removed
        self._clear_pending()
        if added:
            self._update(np.concatenate(added))
        for row in np.concatenate(removed) if removed else ():
            if not self._downdate(row):
                self._rebuild(matrix())
                return

    def _update(self, rows: Array) -> None:
        assert self._R is not None
        self._updates_since_check += len(rows)
        if len(rows) > max(SINGLE_ROWS, SINGLE_PRODUCTS / self.n_features**2):
            self._R = _stacked_qr(self._R, rows)
            return
        from everlearn.statistics.kernels import update_and_solve_forward

        nothing = np.empty((0, self.n_features))
        for row in rows:
            update_and_solve_forward(self._R, row, nothing)

    def _downdate(self, row: Array) -> bool:
        from everlearn.statistics.kernels import downdate_factor

        self._updates_since_check += 1
        return bool(downdate_factor(self.R, row, SMALLEST_SHARE))

    def _check(self, upper: Array) -> None:
        self._updates_since_check = 0
        if not self.drift(upper) <= DRIFT_TOLERANCE:
            self._rebuild(upper)

    def _rebuild(self, upper: Array) -> None:
        lower, info = lapack.dpotrf(upper.T, lower=1, clean=1)
        if info != 0:
            raise LostDefiniteness(
                "the regularised scatter is not positive definite: the features are too large, or "
                "the regularisation too small, for double precision; scale the features or "
                "regularise more"
            )
        self._R = lower.T
        self._clear_pending()
        self._updates_since_check = 0
        self.rebuilds += 1

    def _clear_pending(self) -> None:
        self._added, self._removed = [], []
        self._n_pending = self._n_removed = 0


def _stacked_qr(R: Array, rows: Array) -> Array:
    """The triangular factor of [R; rows], with a positive diagonal."""
    block = min(TPQRT_BLOCK, R.shape[0])
    updated, _, _, info = lapack.dtpqrt(0, block, np.asfortranarray(R), np.asfortranarray(rows))
    assert info == 0
    updated = np.triu(updated)
    updated *= np.where(updated.diagonal() < 0, -1.0, 1.0)[:, None]
    return np.ascontiguousarray(updated)
