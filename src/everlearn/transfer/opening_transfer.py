"""The Multi-KT hypothesis of an online learner's opening: what TROL, TROL+ and TR-OTL begin with.

    w_1 = Σ_j β_j ŵ_j + Σ_i α_i x_i                                                      (Eq. 4-5)

over the first n examples (n = 6 in the paper). It costs O(n³ + k n²) once, and n kernel values and
k questions to priors for each example afterwards. Its bias b belongs to it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everlearn.base import Array, State
from everlearn.errors import InvalidParameter
from everlearn.statistics.stored import stored
from everlearn.transfer.binary import check_positive_number
from everlearn.transfer.examples import Examples
from everlearn.transfer.hypothesis import PoolSum
from everlearn.transfer.kernel import gaussian
from everlearn.transfer.multi_kt import transfer
from everlearn.transfer.online import OnlineLearner
from everlearn.transfer.prior_weights import check_penalty


@dataclass(frozen=True)
class OpeningTransfer:
    """w_1·x = Σ_j β_j h_j(x) + Σ_i α_i k(x_i, x) + b, over the examples of the opening."""

    supports: Array
    alpha: Array
    beta: Array
    bias: float

    @classmethod
    def learned(cls, learner: Any, opening: Examples, signs: Array) -> "OpeningTransfer":
        n = len(opening)
        K = _kernel(learner, opening.X, opening.X)
        solution = transfer(
            K[:, :n],
            signs,
            opening.weights,
            opening.prior_scores,
            C=learner.batch_C,
            penalty=learner.penalty,
            ridge=learner.ridge,
        )
        # With a precomputed kernel an example is a column: nothing to keep but its place.
        supports = opening.X if learner.kernel != "precomputed" else np.empty((n, 0))
        return cls(supports, solution.alpha, solution.beta, solution.bias)

    def margin(self, learner: Any, X: Array, prior_scores: Array) -> Array:
        K = _kernel(learner, X, self.supports)[:, : len(self.alpha)]
        margins: Array = prior_scores @ self.beta + K @ self.alpha + self.bias
        return margins

    def state(self) -> dict[str, NDArray[Any]]:
        return {
            "transfer.supports": self.supports,
            "transfer.alpha": self.alpha,
            "transfer.beta": self.beta,
            "transfer.bias": np.array([self.bias]),
        }

    @classmethod
    def from_state(cls, arrays: dict[str, NDArray[Any]]) -> "OpeningTransfer":
        return cls(
            supports=stored(arrays, "transfer.supports", None, None),
            alpha=stored(arrays, "transfer.alpha", None),
            beta=stored(arrays, "transfer.beta", None),
            bias=float(stored(arrays, "transfer.bias", 1)[0]),
        )


def _kernel(learner: Any, X: Array, supports: Array) -> Array:
    if learner.kernel == "precomputed":
        return X
    if learner.kernel == "linear":
        return X @ supports.T
    return gaussian(X, supports, learner.bandwidth_)


class TransferringLearner(OnlineLearner):
    """An online learner that has priors, and may begin with a Multi-KT hypothesis."""

    priors: Any
    n_first: int
    batch_C: float  # noqa: N815 (C as everywhere)
    penalty: str
    ridge: float | None
    transferred_: OpeningTransfer

    @property
    def beta_(self) -> Array:
        """The weight of each prior in the hypothesis of the opening."""
        self._require_fitted()
        if not self._transfers():
            raise AttributeError("this learner has no Multi-KT opening, so no prior has β")
        return self.transferred_.beta

    def _transfers(self) -> bool:
        """Whether the opening is a Multi-KT hypothesis."""
        return True

    def _learn_opening(self, opening: Examples, signs: Array) -> None:
        """The hypothesis is zero and w_1 is known; learn more from the opening where need be."""

    def _priors(self) -> Any:
        return self.priors

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not (isinstance(self.n_first, (int, np.integer)) and self.n_first >= 2):
            raise InvalidParameter(
                "n_first is a whole number, 2 or more (one example of each label), not "
                f"{self.n_first!r}"
            )
        check_positive_number("batch_C", self.batch_C)
        check_penalty(self.penalty, self.ridge)

    def _opening_length(self) -> int:
        return self.n_first if self._transfers() else super()._opening_length()

    def _needs_both_labels(self) -> bool:
        return self._transfers() or super()._needs_both_labels()

    def _establish(self, opening: Examples, signs: Array) -> None:
        if not self._transfers():
            super()._establish(opening, signs)
            return
        self.bandwidth_ = self._bandwidth_of(opening)
        self.transferred_ = OpeningTransfer.learned(self, opening, signs)
        self.hypothesis_ = self._first_hypothesis()
        self._learn_opening(opening, signs)
        if isinstance(self.hypothesis_.examples, PoolSum):
            self.hypothesis_.examples.n_taught = len(opening)

    def _own_state(self) -> State:
        arrays, notes = super()._own_state()
        if self._transfers():
            arrays |= self.transferred_.state()
        return arrays, notes

    def _own_restore(self, arrays: dict[str, NDArray[Any]], notes: dict[str, Any]) -> None:
        super()._own_restore(arrays, notes)
        if self._transfers():
            self.transferred_ = OpeningTransfer.from_state(arrays)
