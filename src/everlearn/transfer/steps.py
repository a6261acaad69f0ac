"""Passive-Aggressive steps: a function that grows by one example at a time.

    f(x, e) = Σ_i c_i k(x_i, x) + u·e

e are a few extra features beside x: a constant (the intercept), and in TROL+ the scores of prior
models. Their kernel is linear: K(x, e; x', e') = k(x, x') + e·e'. How the sum over examples is
stored depends on the kernel, see ``kernel_sums``.
"""

from collections.abc import Sequence

import numpy as np

from everlearn.arrays import AnyArray, Array
from everlearn.compiled import compiled
from everlearn.statistics.validated import validated_array
from everlearn.transfer.kernel import Kernel
from everlearn.transfer.kernel_sums import ColumnSum, LinearSum, SupportSum, empty_sum
from everlearn.transfer.online import StepRules

RULES = {"pa": 0, "pa1": 1, "pa2": 2}


@compiled
def step_size(loss: float, norm: float, C: float, rule: int) -> float:
    """The step size along y x (Crammer et al. 2006):

    PA (rule 0)  γ = ℓ / ‖x‖²,   PA-I (1)  γ = min(C, ℓ / ‖x‖²),   PA-II (2)  γ = ℓ / (‖x‖² + 1/2C)

    Zero if the loss or x is zero.
    """
    if not loss > 0.0 or not norm > 0.0:
        return 0.0
    if rule == 2:
        return loss / (norm + 0.5 / C)
    gamma = loss / norm
    if rule == 1 and gamma > C:
        return C
    return gamma


@compiled
def linear_step(
    w: Array, u: Array, x: Array, extra: Array, sign: float, offset: float, C: float, rule: int
) -> float:
    """One example (x, e, y): f = w·x + u·e + offset, w += γ y x, u += γ y e; returns f.

    γ is :func:`step_size` of ℓ = max(0, 1 − y f) and ‖x‖² + ‖e‖².
    """
    score = offset
    norm = 0.0
    for j in range(x.shape[0]):
        score += w[j] * x[j]
        norm += x[j] * x[j]
    for j in range(extra.shape[0]):
        score += u[j] * extra[j]
        norm += extra[j] * extra[j]
    gamma = step_size(1.0 - sign * score, norm, C, rule)
    if gamma > 0.0:
        change = gamma * sign
        for j in range(x.shape[0]):
            w[j] += change * x[j]
        for j in range(extra.shape[0]):
            u[j] += change * extra[j]
    return score


class Steps:
    """A sum over examples and a weight for each extra feature, learned by Passive-Aggressive."""

    def __init__(
        self, n_features: int, kernel: Kernel, rules: StepRules, first_weights: Sequence[float]
    ) -> None:
        self.total = empty_sum(n_features, kernel, rules.budget, rules.drop)
        # The extra feature of the intercept, always 1; empty without an intercept.
        self.constant = np.ones(int(rules.fit_intercept))
        self._u = np.concatenate([np.zeros(len(self.constant)), first_weights])
        self._C = rules.C
        self._rule = RULES[rules.variant]

    @property
    def intercept(self) -> float:
        return float(self._u[0]) if len(self.constant) else 0.0

    @property
    def extra_weights(self) -> Array:
        return self._u[len(self.constant) :]

    def values(self, X: Array, extras: Array | None = None) -> Array:
        """The value of f at every row, given its extra features with the constant first."""
        values = self.total.values(X)
        return values + (self.intercept if extras is None else extras @ self._u)

    def learn(self, x: Array, extra: Array, sign: float, offset: float, weight: float) -> float:
        """Learn one example; returns f(x, e) + offset as it was before.

        ``extra`` is e, with the constant feature first.

        ``weight`` multiplies the loss ξ in Eq. 2, so an integer counts as that many copies of the
        example in a row.
        """
        C = self._C * weight
        if type(self.total) is LinearSum:
            w = self.total.coefficients
            return linear_step(w, self._u, x, extra, sign, offset, C, self._rule)
        assert isinstance(self.total, (ColumnSum, SupportSum))
        value, norm = self.total.value_and_norm(x)
        score = value + float(extra @ self._u) + offset
        change = sign * step_size(1.0 - sign * score, norm + float(extra @ extra), C, self._rule)
        self.total.add(x, change)
        self._u += change * extra
        return score

    def skip(self, n_examples: int) -> None:
        """Skip the columns of the first examples, which the prior knowledge was learned from."""
        if isinstance(self.total, ColumnSum):
            self.total.n_taught = n_examples

    def flip(self) -> None:
        """Replace f by −f, for when the signs of the two labels are swapped."""
        self.total.coefficients = -self.total.coefficients
        self._u = -self._u

    def state(self) -> dict[str, AnyArray]:
        return self.total.state() | {"extra_weights": self._u}

    def restore(self, arrays: dict[str, AnyArray]) -> None:
        self.total.restore(arrays)
        self._u = validated_array(arrays, "extra_weights", len(self._u))
