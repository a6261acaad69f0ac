"""Growing sums Σ_i c_i k(x_i, x), in the form each kernel allows.

The linear kernel stores w = Σ c_i x_i, the precomputed one a coefficient per column, the others the
support vectors, at most ``budget`` of them.
"""

import numpy as np

from everlearn.arrays import AnyArray, Array, padded
from everlearn.compiled import compiled
from everlearn.statistics.validated import validated_array
from everlearn.transfer.kernel import Kernel

BLOCK_ROWS = 1024


@compiled
def rbf_score(x: Array, supports: Array, coefficients: Array, count: int, gamma: float) -> float:
    """Σ_i c_i exp(−γ ‖x − s_i‖²) over the first ``count`` supports, by differences."""
    score = 0.0
    for i in range(count):
        support = supports[i]
        distance = 0.0
        for j in range(x.shape[0]):
            delta = x[j] - support[j]
            distance += delta * delta
        score += coefficients[i] * np.exp(-gamma * distance)
    return score


class LinearSum:
    """w·x with w = Σ c_i x_i, the coefficients of the features."""

    def __init__(self, n_features: int) -> None:
        self.coefficients = np.zeros(n_features)

    def values(self, X: Array) -> Array:
        values: Array = X @ self.coefficients
        return values

    def state(self) -> dict[str, AnyArray]:
        return {"coefficients": self.coefficients}

    def restore(self, arrays: dict[str, AnyArray]) -> None:
        self.coefficients = validated_array(arrays, "coefficients", len(self.coefficients))


class ColumnSum(LinearSum):
    """Σ c_i k(x_i, x) for a precomputed kernel: column i of row x is k(x_i, x)."""

    n_taught = 0

    def value_and_norm(self, x: Array) -> tuple[float, float]:
        return float(x @ self.coefficients), float(x[self.n_taught])

    def add(self, x: Array, coefficient: float) -> None:
        self.coefficients[self.n_taught] = coefficient
        self.n_taught += 1

    def state(self) -> dict[str, AnyArray]:
        return super().state() | {"n_taught": np.array([self.n_taught])}

    def restore(self, arrays: dict[str, AnyArray]) -> None:
        super().restore(arrays)
        n_taught = validated_array(
            arrays, "n_taught", 1, dtype=np.int64, least=0, most=len(self.coefficients)
        )
        self.n_taught = int(n_taught[0])


class SupportSum:
    """Σ c_i k(x_i, x) over at most ``budget`` support vectors.

    If the budget is full, ``drop="oldest"`` replaces the oldest support vector, "smallest" the one
    of least norm ‖c_i k(x_i, ·)‖ = |c_i| √k(x_i, x_i), of equal ones the oldest.
    """

    def __init__(self, n_features: int, kernel: Kernel, budget: int | None, drop: str) -> None:
        self.kernel = kernel
        self.budget = budget
        self.drop = drop
        self.supports = np.empty((min(budget or 16, 16), n_features))
        self.coefficients = np.zeros(len(self.supports))
        self.arrivals = np.zeros(len(self.supports), dtype=np.int64)
        self.count = 0
        self.n_added = 0

    def values(self, X: Array) -> Array:
        values = np.empty(len(X))
        for start in range(0, len(X), BLOCK_ROWS):
            part = slice(start, start + BLOCK_ROWS)
            K = self.kernel.between(X[part], self.supports[: self.count])
            values[part] = K @ self.coefficients[: self.count]
        return values

    def value_and_norm(self, x: Array) -> tuple[float, float]:
        if self.kernel.name != "rbf":
            return float(self.values(x[None])[0]), float(self.kernel.diagonal(x[None])[0])
        gamma = self.kernel.gamma
        assert gamma is not None
        return rbf_score(x, self.supports, self.coefficients, self.count, gamma), 1.0

    def add(self, x: Array, coefficient: float) -> None:
        if not coefficient:
            return
        row = self._free_row()
        self.supports[row] = x
        self.coefficients[row] = coefficient
        self.arrivals[row] = self.n_added
        self.n_added += 1

    def state(self) -> dict[str, AnyArray]:
        return {
            "supports": self.supports[: self.count],
            "coefficients": self.coefficients[: self.count],
            "arrivals": self.arrivals[: self.count],
            "n_added": np.array([self.n_added]),
        }

    def restore(self, arrays: dict[str, AnyArray]) -> None:
        self.supports = validated_array(arrays, "supports", None, self.supports.shape[1])
        self.count = len(self.supports)
        self.coefficients = validated_array(arrays, "coefficients", self.count)
        self.arrivals = validated_array(arrays, "arrivals", self.count, dtype=np.int64)
        self.n_added = int(validated_array(arrays, "n_added", 1, dtype=np.int64)[0])

    def _free_row(self) -> int:
        """The row for the next support vector, whose contents may be overwritten."""
        if self.budget is not None and self.count >= self.budget:
            if self.drop == "oldest":
                return int(self.arrivals.argmin())
            sizes = np.abs(self.coefficients) * np.sqrt(self.kernel.diagonal(self.supports))
            smallest = np.flatnonzero(sizes == sizes.min())
            return int(smallest[self.arrivals[smallest].argmin()])
        if self.count == len(self.supports):
            room = max(16, 2 * self.count)
            room = room if self.budget is None else min(room, self.budget)
            self.supports = padded(self.supports, room)
            self.coefficients = padded(self.coefficients, room)
            self.arrivals = padded(self.arrivals, room)
        self.count += 1
        return self.count - 1


def empty_sum(
    n_features: int, kernel: Kernel, budget: int | None, drop: str
) -> LinearSum | ColumnSum | SupportSum:
    """An empty sum under a kernel."""
    if kernel.name == "linear":
        return LinearSum(n_features)
    if kernel.name == "precomputed":
        return ColumnSum(n_features)
    return SupportSum(n_features, kernel, budget, drop)
