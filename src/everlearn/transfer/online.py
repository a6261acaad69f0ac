"""What the online learners of this room share: an opening, then one Passive-Aggressive step each.

Some things can only be known from the first few examples: the bandwidth of a Gaussian kernel, the
weights of the priors, which of two labels the priors speak of. So a learner may begin with an
opening: the first examples are kept, and what is believed is worked out afresh from all of them
each time one more arrives. When the opening is complete they are let go, and from then on every
example costs the same and is seen once. A batch teaches exactly what its rows teach one by one.
"""

import logging
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from everlearn.base import Array, Promise, Slots, State
from everlearn.errors import InvalidParameter
from everlearn.transfer.binary import BinaryLearner, check_choice, check_positive_number
from everlearn.transfer.examples import Examples
from everlearn.transfer.hypothesis import (
    RULES,
    GaussianSum,
    Hypothesis,
    LinearSum,
    PoolSum,
    require_room,
)
from everlearn.transfer.kernel import check_kernel, mean_squared_distance
from everlearn.transfer.priors import Priors, check_priors

BANDWIDTH_EXAMPLES = 10
DROPS = ("oldest", "smallest")

log = logging.getLogger(__name__)


class OnlineLearner(BinaryLearner):
    """A learner of two labels with a Passive-Aggressive hypothesis."""

    C: float
    variant: str
    kernel: str
    bandwidth: float | None
    intercept: bool | None
    budget: int | None
    drop: str

    opening_: Examples | None
    hypothesis_: Hypothesis
    bandwidth_: float | None
    mistakes_: int
    n_examples_: int

    @property
    def promises(self) -> frozenset[Promise]:
        return frozenset({Promise.BATCH_IS_LOOP})

    @property
    def bounded_memory(self) -> bool:
        """Whether memory has a limit: a Gaussian kernel without a budget has none."""
        return self.kernel != "gaussian" or self.budget is not None

    def fit(self, X: ArrayLike, y: ArrayLike) -> Any:  # type: ignore[override]
        """Forget everything, then learn from these examples, once each, in this order.

        Parameters
        ----------
        X : array-like of shape (n_examples, n_features)
        y : array-like of shape (n_examples,)
            Two labels: words or whole numbers.
        """
        return super().fit(X, y)

    @property
    def waiting_for_(self) -> str | None:
        """What the opening still needs, in words; None when it is complete."""
        self._require_fitted()
        opening = self.opening_
        if opening is None:
            return None
        missing = self._opening_length() - len(opening)
        if missing > 0:
            return f"{missing} more example{'s' * (missing > 1)}"
        return f"an example of another label than {self.classes_.tolist()[0]!r}"

    # What a learner of this family says about itself.

    def _priors(self) -> list[Any]:
        """The prior knowledge that is asked about every example."""
        return []

    def _opening_length(self) -> int:
        """How many examples must come before the hypothesis can be settled."""
        by_kernel = self.kernel == "gaussian" and self.bandwidth is None
        return BANDWIDTH_EXAMPLES if by_kernel else 0

    def _needs_both_labels(self) -> bool:
        """Whether the opening waits for an example of each label."""
        return self.positive is None and len(self._priors()) > 0

    def _establish(self, opening: Examples, signs: Array) -> None:
        """Work out what to believe from the opening alone."""
        self.bandwidth_ = self._bandwidth_of(opening)
        self.hypothesis_ = self._first_hypothesis()
        for index, sign in enumerate(signs):
            self._step(opening.X[index], opening.prior_scores[index], sign, opening.weights[index])

    def _step(self, x: Array, prior_scores: Array, sign: float, weight: float) -> float:
        """Learn one example after the opening; returns the margin it had before."""
        raise NotImplementedError

    def _margin_of(self, X: Array, prior_scores: Array) -> Array:
        raise NotImplementedError

    # The life of the family.

    def _check_parameters(self) -> None:
        check_positive_number("C", self.C)
        check_choice("variant", self.variant, RULES)
        check_kernel(self.kernel, self.bandwidth)
        check_choice("drop", self.drop, DROPS)
        if self.budget is not None and not (
            isinstance(self.budget, (int, np.integer)) and self.budget > 0
        ):
            raise InvalidParameter(
                f"budget is a whole number above zero or None, not {self.budget!r}"
            )
        check_priors(self._priors())

    def _begin(self, n_features: int) -> None:
        self.n_features_in_ = n_features
        self.bandwidth_ = self.bandwidth
        has_intercept = self.kernel == "linear" if self.intercept is None else self.intercept
        self._one = np.ones(int(has_intercept))
        self.mistakes_ = 0
        self.n_examples_ = 0
        self._known = Priors(self._priors(), n_features)
        self.opening_ = Examples(n_features, len(self._known))
        self._orientation = 1.0
        if self._is_complete(self.opening_):
            self._establish(self.opening_, np.empty(0))
            self.opening_ = None

    def _learn(self, X: Array, slots: Slots, weights: Array | None) -> None:
        if self.kernel == "precomputed":
            require_room(self.n_features_in_, self.n_examples_, len(X))
        prior_scores = self._known.scores(X)
        if weights is None:
            weights = np.ones(len(X))
        self._orient()
        for row in range(len(X)):
            if self.opening_ is None:
                sign = self.signs_[slots[row]]
                margin = self._step(X[row], prior_scores[row], sign, weights[row])
            else:
                part = slice(row, row + 1)
                margin = self._extend_opening(
                    X[part], slots[part], weights[part], prior_scores[part]
                )
                sign = self.signs_[slots[row]]
            self._count(margin, sign)

    def _learn_one(self, x: Array, slot: int) -> None:
        if self.opening_ is not None or self.kernel == "precomputed" or len(self._known):
            self._learn(x[None], np.array([slot], dtype=np.intp), None)
            return
        sign = self.signs_[slot]
        self._count(self._step(x, _NOTHING, sign, 1.0), sign)

    def _count(self, margin: float, sign: float) -> None:
        self.n_examples_ += 1
        if not margin * sign > 0:
            self.mistakes_ += 1

    def _orient(self) -> None:
        """A first label was taken for +1; if the second shows that it is −1, turn f round."""
        known = self.signs_[0]
        if known != self._orientation and self.opening_ is None:
            self.hypothesis_.flip()
        self._orientation = known

    def _extend_opening(self, X: Array, slots: Slots, weights: Array, prior_scores: Array) -> float:
        assert self.opening_ is not None
        # On a copy: a kernel that is none is only noticed when it is factorised.
        opening = self.opening_.copy()
        n_before = len(opening)
        margin = float(self._margin_of(X, prior_scores)[0]) if n_before else 0.0
        opening.add(X, slots, weights, prior_scores)
        room = max(self._opening_length(), BANDWIDTH_EXAMPLES)
        if len(opening) > room and self.kernel != "precomputed":
            opening.keep(np.arange(len(opening) - room, len(opening)))
        self._establish(opening, self.signs_[opening.slots])
        self.opening_ = None if self._is_complete(opening) else opening
        if self.opening_ is not None and n_before < self._opening_length() == len(opening):
            log.warning(
                "%s has seen %d examples, all of one label; it waits for the other one",
                type(self).__name__,
                len(opening),
            )
        return margin

    def _is_complete(self, opening: Examples) -> bool:
        if len(opening) < self._opening_length():
            return False
        return not self._needs_both_labels() or len(np.unique(opening.slots)) == 2

    def _margin(self, X: Array) -> Array:
        return self._margin_of(X, self._known.scores(X))

    def _scores_one(self, x: Array) -> Array:
        scores: Array = self._scores(x[None])[0]
        return scores

    # Making hypotheses.

    def _bandwidth_of(self, opening: Examples) -> float | None:
        if self.kernel != "gaussian" or self.bandwidth is not None:
            return self.bandwidth
        return mean_squared_distance(opening.X)

    def _first_hypothesis(self) -> Hypothesis:
        return self._hypothesis_with(np.zeros(len(self._one)))

    def _hypothesis_with(self, extra_weights: Array) -> Hypothesis:
        """Zero, but for the weights of extra features."""
        examples: LinearSum | PoolSum | GaussianSum
        if self.kernel == "linear":
            examples = LinearSum(self.n_features_in_)
        elif self.kernel == "precomputed":
            examples = PoolSum(self.n_features_in_)
        else:
            assert self.bandwidth_ is not None
            examples = GaussianSum(
                self.n_features_in_, self.bandwidth_, self.budget, self.drop == "oldest"
            )
        return Hypothesis(examples, extra_weights, C=self.C, rule=self.variant)

    def _constant(self, n_rows: int) -> Array:
        """The extra feature that carries the intercept, or no feature."""
        return np.ones((n_rows, len(self._one)))

    # State in and out.

    def _own_state(self) -> State:
        if self.opening_ is None:
            arrays = {f"hypothesis.{k}": v for k, v in self.hypothesis_.state().items()}
        else:
            arrays = self.opening_.state()
        notes: dict[str, Any] = {
            "bandwidth": self.bandwidth_,
            "mistakes": self.mistakes_,
            "n_examples": self.n_examples_,
            "opening": self.opening_ is not None,
        }
        return arrays, notes

    def _own_restore(self, arrays: dict[str, NDArray[Any]], notes: dict[str, Any]) -> None:
        self.bandwidth_ = notes["bandwidth"]
        self.mistakes_ = int(notes["mistakes"])
        self.n_examples_ = int(notes["n_examples"])
        self._orientation = self.signs_[0]
        if notes["opening"]:
            self.opening_ = Examples(self.n_features_in_, len(self._known))
            self.opening_.restore(arrays)
            self._require_known(self.opening_)
            self._establish(self.opening_, self.signs_[self.opening_.slots])
        else:
            self.opening_ = None
            self.hypothesis_ = self._first_hypothesis()
            self.hypothesis_.restore({k.removeprefix("hypothesis."): v for k, v in arrays.items()})


_NOTHING = np.empty(0)
