"""Discriminant scores updated with every example, at bounded cost per call.

With A = S + ρ I and the origin o fixed while the factor is in use,

    score_k = (μ_k − o)·z − ½ q_k,    z = A⁻¹ (x − o),    q_k = (μ_k − o)ᵀ A⁻¹ (μ_k − o).

When A grows by r rᵀ, with u = A⁻¹ r,

    q_k ← q_k − ((μ_k − o)·u)² / (1 + r·u)

and q of the class that moved is recomputed: O(d² + K d) for an example and a question.

Where S does not grow, ρ grows by one part in N per example, which a rank-one update cannot follow.
It is therefore rounded to a grid of 10 % steps, and the solution for the next step is prepared
beside the one in use, a slice of it with every example and every question
(:class:`NextSolution`): its factor row by row, q class by class, then the examples that arrived in
the meantime, together (:class:`LateExamples`). A slice costs about as much as four questions, so no
call costs more than a few times what the others do.

The result is a function of the moments alone, with a shrinkage within 5 % of the one requested, if
the next solution is ready in time. It takes (d³/6 + 0.3 K d²) / (8 d² + 4 K d) calls: 25 to 80 for
1,280 features. If ρ grows by 10 % faster than that, in the first few hundred examples, the
shrinkage in use is that of so many calls ago.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from everlearn.arrays import Array
from everlearn.errors import LostDefiniteness
from everlearn.learners.closed_form.discriminant import RIDGE_GRID, Shrinkage, with_ridge
from everlearn.statistics.factor import Factor
from everlearn.statistics.moments import Moments
from everlearn.statistics.products import FEW_ROWS, products, products_one
from everlearn.statistics.waiting_rows import add_outer_products_between

# A slice of the next solution costs as much as this many questions.
QUESTIONS = 4
# Lower bound of a slice in multiplications: up to about 150 features it is the whole work.
LEAST_SLICE = 1e6
# Rows of a factor processed together.
TOGETHER = 8
# Rows of a factor transposed together, and classes that are solved for.
TRANSPOSED = CLASSES = 64
# Examples that are applied together: few enough for one thread.
EXAMPLES = FEW_ROWS
# A multiplication for many classes takes this share of the time of one in a question.
SHARE = 0.6
# Updating a factor by a row takes as long as this many multiplications for each of its numbers.
UPDATE = 3.0
# Copying a number of the matrix takes as long as this many multiplications.
COPY = 10.0
# With at most this many examples, the factor is updated from A = ρ I in one call.
FEW = 8


class RunningDiscriminant:
    """Scores that follow the moments example by example."""

    def __init__(self, n_features: int) -> None:
        self._n_features = n_features
        self._now: Solution | None = None
        self._next: NextSolution | None = None
        # The matrix of a replaced factor, reused: allocating memory would cost more than a slice.
        self._spare: Array | None = None
        self._made_for: Shrinkage | None = None

    @property
    def ridge(self) -> float:
        """ρ in use; 0 before the first question."""
        return 0.0 if self._now is None else self._now.ridge

    def follow(self, rows: Array, slots: NDArray[np.intp]) -> None:
        """Call after S grew by rowsᵀ rows, with examples of these classes."""
        if self._now is not None:
            self._now.follow(rows, slots.tolist())
        if self._next is not None:
            self._next.follow(rows, slots.tolist())

    def follow_one(self, row: Array, slot: int) -> None:
        if self._now is not None:
            self._now.follow(row, (slot,))
        if self._next is not None:
            self._next.follow(row[None], (slot,))
            self._next.step()

    def invalidate(self) -> None:
        self._now = self._next = None

    def start(self, solution: "Solution", shrinkage: Shrinkage) -> None:
        """Begin with a precomputed solution."""
        self._now, self._next, self._made_for = solution, None, shrinkage

    def scores_one(self, x: Array, moments: Moments, shrinkage: Shrinkage) -> Array:
        """Scores of one vector, up to a positive factor and a term common to all classes."""
        return self._solution(moments, shrinkage).scores_one(x, moments)

    def question(
        self, x: Array, moments: Moments, shrinkage: Shrinkage
    ) -> tuple[Array, Array] | None:
        """Return z and −½ q of one vector, whose scores are μ_k·z − ½ q_k.

        ``None`` if q has to be updated first, which involves all classes.
        """
        solution = self._solution(moments, shrinkage)
        return None if solution.moved else (solution.solved(x), -0.5 * solution.q)

    def _solution(self, moments: Moments, shrinkage: Shrinkage) -> "Solution":
        ridge = ridge_of_shrinkage(shrinkage, moments)
        cell = cell_of(ridge)
        if self._now is None or self._now.is_stale or self._made_for != shrinkage:
            self._now, self._next = solution_for(moments, cell), None
            self._made_for = shrinkage
        else:
            self._prepare(moments, ridge, cell)
        return self._now

    def _prepare(self, moments: Moments, ridge: float, cell: int) -> None:
        """Work on the solution for the next ρ; switch to it when it is needed and ready."""
        assert self._now is not None
        if self._next is None:
            wanted = cell
            if cell == self._now.cell:
                if not self._is_near(moments, ridge, cell):
                    return
                wanted = cell + 1
            self._next = NextSolution(moments, wanted, self._spare)
            self._spare = None
        ready = self._next.step()
        if not ready or not self._next.is_of(moments):
            return
        if abs(cell - self._next.cell) < abs(cell - self._now.cell):
            self._spare = self._now.factor.R
            self._now, self._next = self._next.solution, None
        elif self._next.cell != self._now.cell + 1:
            self._spare, self._next = self._next.solution.factor.R, None

    def _is_near(self, moments: Moments, ridge: float, cell: int) -> bool:
        """Whether ρ will reach the next step before the next solution can be ready.

        With a question for each example there are two slices, a quarter of which is spent on the
        examples that arrive in the meantime.
        """
        left = (RIDGE_GRID ** (cell + 0.5) / ridge - 1.0) * moments.scatter_weight / moments.unit
        d = self._n_features
        work = d**3 / 6 + SHARE * moments.n_slots * d**2 / 2
        return left <= work / (1.5 * slice_of(moments))


class Solution:
    """A factor of S + ρ I, and q of every class.

    Parameters
    ----------
    cell : int
        ρ is ``RIDGE_GRID`` to this power.
    origin : ndarray
    factor : Factor
    q : ndarray
        By slot.
    """

    def __init__(self, cell: int, origin: Array, factor: Factor, q: Array) -> None:
        self.cell = cell
        self.ridge = RIDGE_GRID**cell
        self.origin = origin
        self.factor = factor
        self.q = q
        self.moved: set[int] = set()

    @property
    def is_stale(self) -> bool:
        return self.factor.stale

    def follow(self, rows: Array, slots: Iterator[int] | tuple[int, ...] | list[int]) -> None:
        if not self.factor.stale:
            self.factor.add(rows)
            self.moved.update(slots)

    def scores_one(self, x: Array, moments: Moments) -> Array:
        pending = self.factor.pending
        if len(pending) == 1 and len(self.moved) == 1:
            return self._scores_after_one(x, self.moved.pop(), moments)
        if self.moved:
            self.catch_up(pending, moments)
            self.recompute_q(moments, sorted(self.moved))
        return products_one(moments.means, self.solved(x)) + -0.5 * self.q

    def solved(self, x: Array) -> Array:
        """A⁻¹ (x − o), with all updates applied."""
        return self.factor.solve_one(x - self.origin)

    def catch_up(self, rows: Array, moments: Moments) -> None:
        """Apply several examples at once."""
        self.make_room(moments)
        if not len(rows):
            return
        correction = LateExamples(self, rows)
        while not correction.is_done:
            correction.advance(moments, np.inf)
        self.bring_up_to_date(moments)

    def bring_up_to_date(self, moments: Moments) -> None:
        """Apply pending updates to the factor."""
        self.factor.bring_up_to_date(lambda: self._matrix(moments))
        self._check(moments)

    def recompute_q(self, moments: Moments, slots: list[int]) -> None:
        """Recompute q of these classes, which have moved."""
        self.make_room(moments)
        halves = self.factor.half_solve(moments.means[slots] - self.origin)
        self.q[slots] = squared_lengths(halves)
        self.moved.difference_update(slots)

    def _scores_after_one(self, x: Array, slot: int, moments: Moments) -> Array:
        """Apply one example and answer, in one sweep over the factor and one over the means.

        With u' = A'⁻¹ r for the matrix A' that has already grown, u = u' / (1 − r·u').
        """
        from everlearn.statistics.kernels import two_products

        self.make_room(moments)
        sides = np.stack([x - self.origin, moments.means[slot] - self.origin])
        half, halves = self.factor.forward_with_row(sides, lambda: self._matrix(moments))
        moved = halves[1] @ halves[1]
        u, z = self.factor.backward(np.stack([half, halves[0]]))
        along_u, along_z = two_products(moments.means, u, z)
        # r·u' = ‖R'⁻ᵀ r‖².
        self.q -= (along_u - self.origin @ u) ** 2 / (1.0 - half @ half)
        self.q[slot] = moved
        self._check(moments)
        scores: Array = along_z - 0.5 * self.q
        return scores

    def _check(self, moments: Moments) -> None:
        """Compare the factor with its matrix from time to time, without forming the matrix."""
        self.factor.check_with(lambda v: moments.scatter_times(v) + self.ridge * v)

    def make_room(self, moments: Moments) -> None:
        if moments.n_slots > len(self.q):
            self.q = np.append(self.q, np.zeros(moments.n_slots - len(self.q)))

    def _matrix(self, moments: Moments) -> Array:
        return with_ridge(moments.upper_scatter(), self.ridge)


class LateExamples:
    """What examples that arrived in the meantime change in q, computed piece by piece.

    With ``rows`` H of these examples, of which the factor knows nothing yet,

        q_k ← q_k − ‖L⁻¹ H A⁻¹ (μ_k − o)‖²,    L Lᵀ = I + H A⁻¹ Hᵀ

    The factor must not change until it is done.
    """

    def __init__(self, solution: Solution, rows: Array) -> None:
        self._solution = solution
        # H R⁻¹, then H A⁻¹, then L⁻¹ H A⁻¹, a row each.
        self._rows = rows.copy()
        self._lower: Array | None = None
        self._n_halved = self._n_solved = self._n_classes = 0
        self._is_whole = False

    @property
    def is_done(self) -> bool:
        return self._is_whole and self._n_classes >= len(self._solution.q)

    def advance(self, moments: Moments, most: float) -> float:
        """Do a piece of at most so many multiplications; returns its cost."""
        n, d = self._rows.shape
        if self._n_halved < n:
            part = part_of(self._n_halved, n, d * d / 2.0, most)
            self._rows[part] = self._solution.factor.half_solve(self._rows[part])
            self._n_halved = part.stop
            return (part.stop - part.start) * d * d / 2.0
        if self._lower is None:
            gram = np.eye(n) + self._rows @ self._rows.T
            self._lower = np.asarray(np.linalg.cholesky(gram), dtype=np.float64)
            return float(n * n * d)
        if self._n_solved < n:
            part = part_of(self._n_solved, n, d * d / 2.0, most)
            self._rows[part] = self._solution.factor.backward(self._rows[part])
            self._n_solved = part.stop
            return (part.stop - part.start) * d * d / 2.0
        if not self._is_whole:
            self._rows[:] = np.linalg.solve(self._lower, self._rows)
            self._is_whole = True
            return float(n * n * d)
        self._solution.make_room(moments)
        part = part_of(self._n_classes, moments.n_slots, float(n * d), most)
        along = products(self._rows, moments.means[part]).T - self._rows @ self._solution.origin
        self._solution.q[part] -= squared_lengths(along)
        self._n_classes = part.stop
        return float((part.stop - part.start) * n * d)


class NextSolution:
    """A solution under construction, one slice at a time.

    Starts from the rows that have entered the scatter and those that wait to; rows that arrive in
    the meantime are applied at the end. ``into`` receives the factor.
    """

    def __init__(self, moments: Moments, cell: int, into: Array | None = None) -> None:
        self.cell = cell
        self._R = np.zeros((moments.n_features,) * 2) if into is None else into
        self._moments = moments
        entered, waiting = moments.scatter_parts()
        # Rows that have not entered the matrix, from which of its rows on.
        self._entering: list[tuple[Array, int]] = []
        # Rows to apply later, what some of them change in q, and those that the factor still lacks.
        self._rows: list[Array] = []
        self._correction: LateExamples | None = None
        self._missing: list[Array] = []
        self._n_factored = self._n_transposed = self._n_solved = 0
        self._n_classes = moments.n_slots
        self._moved: set[int] = set()
        # What was spent here is taken off the first slice.
        self._spent = COPY * moments.n_features**2 if moments.has_entered else 0.0
        origin = moments.mean.copy()
        if moments.has_entered:
            self._entering.append((waiting.rows().copy(), 0))
            if waiting.is_leaving:
                leaving, start = waiting.leaving()
                self._entering.append((leaving.copy(), start))
            np.copyto(self._R, entered)  # the part below the diagonal is never read
            self._R.flat[:: len(self._R) + 1] += RIDGE_GRID**cell
            q = np.zeros(moments.n_slots)
        else:  # A = ρ I, and all rows are still to be applied
            self._rows.extend(waiting.rows().copy())
            self._R.fill(0.0)
            np.fill_diagonal(self._R, np.sqrt(RIDGE_GRID**cell))
            self._n_factored = self._n_transposed = moments.n_features
            self._n_solved = self._n_classes
            q = squared_lengths(moments.means - origin) / RIDGE_GRID**cell
        self.solution = Solution(cell, origin, Factor.of(self._R), q)

    def is_of(self, moments: Moments) -> bool:
        return self._moments is moments

    def follow(self, rows: Array, slots: Iterator[int] | tuple[int, ...] | list[int]) -> None:
        self._rows.extend(rows.copy())
        self._moved.update(slots)

    def step(self) -> bool:
        """Do one slice of the work; returns whether the solution is ready."""
        budget = slice_of(self._moments) - self._spent
        self._spent = 0.0
        while budget > 0 and not self._is_ready:
            budget -= self._advance(budget)
        return self._is_ready

    def finish(self) -> Solution:
        """Do the remaining work."""
        while not self._is_ready:
            self._advance(np.inf)
        return self.solution

    @property
    def _is_ready(self) -> bool:
        solved = self._n_factored == len(self._R) and self._n_solved == self._n_classes
        return solved and not (self._rows or self._correction or self._missing or self._moved)

    def _advance(self, most: float) -> float:
        """Do the next piece, of about ``most`` multiplications at most; returns its cost."""
        d, solution = len(self._R), self.solution
        if self._entering:
            return self._enter_some(d)
        if self._n_factored < d:
            return self._factor_some(d)
        if self._missing and self._correction is None:
            return self._update(d)
        if self._rows and self._n_transposed == 0:
            # No class is solved yet: the factor alone changes.
            self._missing, self._rows = self._rows, []
            return 0.0
        if self._n_transposed < d:
            return self._transpose_some(d)
        if self._n_solved < self._n_classes:
            return self._solve_some(d, most)
        if self._correction is not None:
            spent = self._correction.advance(self._moments, most)
            if self._correction.is_done:
                self._correction = None
            return spent
        if self._rows:
            self._missing, self._rows = self._rows[:EXAMPLES], self._rows[EXAMPLES:]
            self._correction = LateExamples(solution, np.stack(self._missing))
            return 0.0
        part = part_of(0, len(self._moved), d * d / 2.0, most, CLASSES)
        some = sorted(self._moved)[part]
        self._moved.difference_update(some)
        solution.recompute_q(self._moments, some)
        return len(some) * d * d / 2.0

    def _transpose_some(self, d: int) -> float:
        """Copy rows of the factor below its diagonal, where nothing else is read."""
        R, start, stop = self._R, self._n_transposed, min(d, self._n_transposed + TRANSPOSED)
        corner = R[start:stop, start:stop]
        corner[:] = np.triu(corner) + np.triu(corner, 1).T
        R[stop:, start:stop] = R[start:stop, stop:].T
        self._n_transposed = stop
        return float((stop - start) * (d - start))

    def _solve_some(self, d: int, most: float) -> float:
        from everlearn.statistics.kernels import solve_pairs

        each = SHARE * d * d / 2.0
        part = part_of(self._n_solved, self._n_classes, each, most, CLASSES)
        n = part.stop - part.start
        halves = np.zeros((n + n % 2, d))
        halves[:n] = self._moments.means[part] - self.solution.origin
        solve_pairs(self._R, halves)
        self.solution.q[part] = squared_lengths(halves[:n])
        self._n_solved = part.stop
        return n * each

    def _update(self, d: int) -> float:
        """Update the factor by one row."""
        self.solution.factor.add(self._missing.pop(0))
        self.solution.bring_up_to_date(self._moments)
        return UPDATE * d * d / 2.0

    def _enter_some(self, d: int) -> float:
        rows, start = self._entering.pop()
        stop = min(d, start + TOGETHER)
        add_outer_products_between(self._R, rows, start, stop)
        if stop < d:
            self._entering.append((rows, stop))
        return float((stop - start) * (d - start) * len(rows))

    def _factor_some(self, d: int) -> float:
        from everlearn.statistics.kernels import factor_rows

        start, stop = self._n_factored, min(d, self._n_factored + TOGETHER)
        if not factor_rows(self._R, start, stop):
            raise LostDefiniteness(
                "the regularised scatter is not positive definite: the features are too large, or "
                "the regularisation too small, for double precision; scale the features or "
                "regularise more"
            )
        self._n_factored = stop
        return (stop - start) * float(max(start, TOGETHER) * (d - start))


def part_of(start: int, stop: int, each: float, most: float, at_once: int | None = None) -> slice:
    """As many of the rows from ``start`` on as cost ``most`` in all, at least one."""
    n = stop - start if at_once is None else min(stop - start, at_once)
    return slice(start, start + max(1, n if n * each <= most else int(most / each)))


def solution_for(moments: Moments, cell: int) -> Solution:
    """The solution for these moments, computed at once."""
    if not moments.has_entered and len(moments.scatter_parts()[1].rows()) <= FEW:
        return NextSolution(moments, cell).finish()
    origin = moments.mean.copy()
    factor = Factor(moments.n_features)
    factor.bring_up_to_date(lambda: with_ridge(moments.upper_scatter(), RIDGE_GRID**cell))
    q = squared_lengths(factor.half_solve(moments.means - origin))
    return Solution(cell, origin, factor, q)


def slice_of(moments: Moments) -> float:
    """Number of multiplications in a slice."""
    d = moments.n_features
    return max(LEAST_SLICE, QUESTIONS * float(2 * d * d + moments.n_slots * d))


def ridge_of_shrinkage(shrinkage: Shrinkage, moments: Moments) -> float:
    """ρ as asked for."""
    share, floor = shrinkage(moments)
    return floor * moments.scatter_weight / (1.0 - share)


def cell_of(ridge: float) -> int:
    """The step of the grid that is nearest to ρ."""
    return round(float(np.log(ridge) / np.log(RIDGE_GRID)))


def squared_lengths(rows: Array) -> Array:
    """‖row‖² of every row."""
    lengths: Array = np.einsum("ij,ij->i", rows, rows)
    return lengths
