"""What the batch learners of this room share: their whole state is the examples they keep.

A least squares SVM is a formula over all its examples. It can be taught at any time, and what it
believes is worked out afresh when it is next asked; so a batch equals its rows one by one in any
order, and forgetting and merging are exact. Its memory grows with its examples, therefore
``max_examples`` bounds it; the online learners of this room have no such bound.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everlearn.base import EXACT, Array, Promise, Slots, State
from everlearn.errors import (
    InvalidParameter,
    LostDefiniteness,
    NotForgettable,
    NotMergeable,
    TooManyExamples,
)
from everlearn.transfer.binary import BinaryLearner, check_positive_number
from everlearn.transfer.examples import Examples
from everlearn.transfer.hypothesis import require_room
from everlearn.transfer.kernel import check_kernel, gaussian, mean_squared_distance


class WorkedOut:
    """What follows from the examples, filled in when it is first asked for."""

    def __init__(self) -> None:
        self.bandwidth: float | None = None
        self.solution: Any = None


class ExampleKeeper(BinaryLearner):
    """A learner of two labels that is a function of the examples it keeps."""

    C: float
    kernel: str
    bandwidth: float | None
    max_examples: int

    examples_: Examples
    bounded_memory = False

    @property
    def promises(self) -> frozenset[Promise]:
        return EXACT if self.kernel != "precomputed" else frozenset({Promise.BATCH_IS_LOOP})

    @property
    def bandwidth_(self) -> float | None:
        """δ of the Gaussian kernel: as given, or the mean squared distance of all examples."""
        if self.kernel != "gaussian" or self.bandwidth is not None:
            return self.bandwidth
        if self._worked_out.bandwidth is None:
            kept = self.examples_
            self._worked_out.bandwidth = mean_squared_distance(kept.X, kept.weights)
        return self._worked_out.bandwidth

    def _changed(self) -> None:
        """The examples are not what they were; drop what was worked out from them."""
        self._worked_out = WorkedOut()

    def _gram(self) -> Array:
        """K between the examples kept."""
        return self._kernel_with_examples(self.examples_.X)

    def _kernel_with_examples(self, X: Array) -> Array:
        kept = self.examples_.X
        if self.kernel == "precomputed":
            return X[:, : len(kept)]
        if self.kernel == "linear":
            return X @ kept.T
        assert self.bandwidth_ is not None
        return gaussian(X, kept, self.bandwidth_)

    def _signs_of_examples(self) -> Array:
        return self.signs_[self.examples_.slots]

    def _prior_scores(self, X: Array) -> Array | None:
        """What the priors say of these rows, if there are any."""
        return None

    # The contract.

    def _check_parameters(self) -> None:
        check_positive_number("C", self.C)
        check_kernel(self.kernel, self.bandwidth)
        if not (isinstance(self.max_examples, (int, np.integer)) and self.max_examples > 0):
            raise InvalidParameter(
                f"max_examples is a whole number above zero, not {self.max_examples!r}"
            )

    def _begin(self, n_features: int) -> None:
        self.n_features_in_ = n_features
        self.examples_ = self._no_examples()
        self._changed()

    def _no_examples(self) -> Examples:
        return Examples(self.n_features_in_)

    def _learn(self, X: Array, slots: Slots, weights: Array | None) -> None:
        if self.kernel == "precomputed":
            require_room(self.n_features_in_, len(self.examples_), len(X))
            self._require_definite(X)
        self._require_room(len(X))
        self.examples_.add(X, slots, weights, self._prior_scores(X))
        self._changed()

    def _forget(self, X: Array, slots: Slots, weights: Array | None) -> Iterable[int]:
        self._require_own_kernel()
        self.examples_.remove(X, slots, weights)
        self._changed()
        gone = set(slots.tolist()) - set(self.examples_.slots.tolist())
        return sorted(gone)

    def _forget_class(self, slot: int) -> None:
        self._require_own_kernel()
        self.examples_.keep(self.examples_.slots != slot)
        self._changed()

    def _merge(self, other: Any, slots: Slots) -> None:
        if self.kernel == "precomputed":
            raise NotMergeable("the columns of two precomputed kernels are different examples")
        theirs = other.examples_
        self._require_room(len(theirs))
        self.examples_.add(theirs.X, slots[theirs.slots], theirs.weights, theirs.prior_scores)
        self._changed()

    def _require_definite(self, X: Array) -> None:
        rows = np.concatenate([self.examples_.X, X])
        lowest = float(np.linalg.eigvalsh(rows[:, : len(rows)]).min())
        if lowest <= -1.0 / self.C:
            raise LostDefiniteness(
                f"the precomputed kernel has the eigenvalue {lowest:.3g}; a kernel has none below "
                "zero, so check that rows and columns are in the same order"
            )

    def _require_own_kernel(self) -> None:
        if self.kernel == "precomputed":
            raise NotForgettable(
                "columns of a precomputed kernel are counted by arrival and cannot be taken out; "
                "fit again without the examples"
            )

    def _require_room(self, n_new: int) -> None:
        if len(self.examples_) + n_new > self.max_examples:
            raise TooManyExamples(
                f"{type(self).__name__} keeps its examples, {len(self.examples_)} so far; {n_new} "
                f"more are above max_examples={self.max_examples}; raise it, or use TROL or "
                "PassiveAggressive, which need no room"
            )

    def _own_state(self) -> State:
        return self.examples_.state(), {}

    def _own_restore(self, arrays: dict[str, NDArray[Any]], notes: dict[str, Any]) -> None:
        self.examples_.restore(arrays)
        self._require_known(self.examples_)
        self._changed()
