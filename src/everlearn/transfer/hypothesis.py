"""What an online learner believes: a function that grows by one example at a time.

    f(x, e) = Σ_i c_i k(x_i, x) + u·e

e are a few extra features beside x: a constant (the intercept), and in TROL+ what the priors say.
They enter the inner product as plain numbers, so that K(x, e; x', e') = k(x, x') + e·e'. Of the
sum over examples the linear kernel keeps w = Σ c_i x_i, the precomputed one a coefficient per
column, the Gaussian one the support vectors themselves, at most ``budget`` of them.
"""

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everlearn.base import Array
from everlearn.errors import TooManyExamples
from everlearn.statistics.stored import stored
from everlearn.transfer.kernel import gaussian

RULES = {"pa": 0, "pa1": 1, "pa2": 2}
BLOCK_ROWS = 1024


class LinearSum:
    """w·x with w = Σ c_i x_i."""

    def __init__(self, n_features: int) -> None:
        self.w = np.zeros(n_features)

    def scores(self, X: Array) -> Array:
        scores: Array = X @ self.w
        return scores

    def step(
        self, x: Array, extra: Array, u: Array, sign: float, offset: float, C: float, rule: int
    ) -> float:
        score: float = _kernels().linear_step(self.w, u, x, extra, sign, offset, C, rule)
        return score

    def flip(self) -> None:
        self.w = -self.w

    def state(self) -> dict[str, NDArray[Any]]:
        return {"w": self.w}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        self.w = stored(arrays, "w", len(self.w))


class PoolSum:
    """Σ c_i k(x_i, x) where row x holds its kernel values with the i-th example in column i."""

    def __init__(self, n_columns: int) -> None:
        self.coefficients = np.zeros(n_columns)
        self.n_taught = 0

    def scores(self, X: Array) -> Array:
        scores: Array = X @ self.coefficients
        return scores

    def step(
        self, x: Array, extra: Array, u: Array, sign: float, offset: float, C: float, rule: int
    ) -> float:
        score = float(x @ self.coefficients) + float(extra @ u) + offset
        norm = float(x[self.n_taught]) + float(extra @ extra)
        change = sign * _kernels().step_size(1.0 - sign * score, norm, C, rule)
        self.coefficients[self.n_taught] = change
        u += change * extra
        self.n_taught += 1
        return score

    def flip(self) -> None:
        self.coefficients = -self.coefficients

    def state(self) -> dict[str, NDArray[Any]]:
        return {"coefficients": self.coefficients, "n_taught": np.array([self.n_taught])}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        self.coefficients = stored(arrays, "coefficients", len(self.coefficients))
        self.n_taught = int(stored(arrays, "n_taught", 1, dtype=np.int64)[0])


class GaussianSum:
    """Σ c_i exp(−‖x − x_i‖² / δ) over at most ``budget`` support vectors.

    A full budget makes room by dropping the support vector that came first, or the one whose
    coefficient is smallest and whose loss therefore changes f least (‖c_i k(x_i, ·)‖ = |c_i|); of
    equal ones the oldest.
    """

    def __init__(
        self, n_features: int, bandwidth: float, budget: int | None, drop_oldest: bool
    ) -> None:
        self.bandwidth = bandwidth
        self.budget = budget
        self.drop_oldest = drop_oldest
        self.supports = np.empty((min(budget or 16, 16), n_features))
        self.coefficients = np.empty(len(self.supports))
        self.arrivals = np.empty(len(self.supports), dtype=np.int64)
        self.count = 0
        self.n_added = 0

    def scores(self, X: Array) -> Array:
        values = np.empty(len(X))
        for start in range(0, len(X), BLOCK_ROWS):
            part = slice(start, start + BLOCK_ROWS)
            values[part] = (
                gaussian(X[part], self.supports[: self.count], self.bandwidth)
                @ self.coefficients[: self.count]
            )
        return values

    def step(
        self, x: Array, extra: Array, u: Array, sign: float, offset: float, C: float, rule: int
    ) -> float:
        score = float(extra @ u) + offset
        score += _kernels().gaussian_score(
            x, self.supports, self.coefficients, self.count, self.bandwidth
        )
        norm = 1.0 + float(extra @ extra)
        change = sign * _kernels().step_size(1.0 - sign * score, norm, C, rule)
        if change:
            self._add(x, change)
            u += change * extra
        return score

    def flip(self) -> None:
        self.coefficients[: self.count] *= -1.0

    def state(self) -> dict[str, NDArray[Any]]:
        return {
            "supports": self.supports[: self.count],
            "coefficients": self.coefficients[: self.count],
            "arrivals": self.arrivals[: self.count],
            "n_added": np.array([self.n_added]),
        }

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        self.supports = stored(arrays, "supports", None, self.supports.shape[1])
        self.count = len(self.supports)
        self.coefficients = stored(arrays, "coefficients", self.count)
        self.arrivals = stored(arrays, "arrivals", self.count, dtype=np.int64)
        self.n_added = int(stored(arrays, "n_added", 1, dtype=np.int64)[0])

    def _add(self, x: Array, coefficient: float) -> None:
        place = self._free_place()
        self.supports[place] = x
        self.coefficients[place] = coefficient
        self.arrivals[place] = self.n_added
        self.n_added += 1

    def _free_place(self) -> int:
        if self.budget is not None and self.count >= self.budget:
            if self.drop_oldest:
                return int(self.arrivals.argmin())
            sizes = np.abs(self.coefficients)
            smallest = np.flatnonzero(sizes == sizes.min())
            return int(smallest[self.arrivals[smallest].argmin()])
        if self.count == len(self.supports):
            room = max(16, 2 * self.count)
            if self.budget is not None:
                room = min(room, self.budget)
            self.supports = _padded(self.supports, room)
            self.coefficients = _padded(self.coefficients, room)
            self.arrivals = _padded(self.arrivals, room)
        self.count += 1
        return self.count - 1


class Hypothesis:
    """A sum over examples and a weight for each extra feature, learned by Passive-Aggressive."""

    def __init__(
        self,
        examples: LinearSum | PoolSum | GaussianSum,
        extra_weights: Array,
        *,
        C: float,
        rule: str,
    ) -> None:
        self.examples = examples
        self.extra_weights = np.array(extra_weights, dtype=np.float64)
        self.C = C
        self.rule = RULES[rule]

    def scores(self, X: Array, extras: Array) -> Array:
        """The value of f at every row."""
        scores: Array = self.examples.scores(X) + extras @ self.extra_weights
        return scores

    def step(
        self, x: Array, extra: Array, sign: float, offset: float = 0.0, weight: float = 1.0
    ) -> float:
        """Learn one example; returns f(x) + offset as it was before.

        ``weight`` multiplies the loss ξ in Eq. 2, so a whole number counts as that many copies of
        the example, one after the other.
        """
        return self.examples.step(
            x, extra, self.extra_weights, sign, offset, self.C * weight, self.rule
        )

    def flip(self) -> None:
        """Turn f into −f: as if the two labels had had each other's sign."""
        self.examples.flip()
        self.extra_weights = -self.extra_weights

    def state(self) -> dict[str, NDArray[Any]]:
        return self.examples.state() | {"extra_weights": self.extra_weights}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        self.examples.restore(arrays)
        self.extra_weights = stored(arrays, "extra_weights", len(self.extra_weights))


@functools.cache
def _kernels() -> Any:
    """The compiled steps, imported when the first example is learned."""
    from everlearn.kernels import transfer

    return transfer


def require_room(n_columns: int, n_taught: int, n_new: int) -> None:
    """A precomputed kernel has a column for each example that can be taught, and no more."""
    if n_taught + n_new > n_columns:
        raise TooManyExamples(
            f"a precomputed kernel with {n_columns} columns has room for {n_columns} examples; "
            f"{n_taught} were taught, {n_new} more do not fit"
        )


def _padded(array: NDArray[Any], length: int) -> NDArray[Any]:
    grown = np.empty((length, *array.shape[1:]), dtype=array.dtype)
    grown[: len(array)] = array
    return grown
