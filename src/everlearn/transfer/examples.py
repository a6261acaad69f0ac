"""Examples kept as they came."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from everlearn.base import Array, Slots
from everlearn.errors import NeverLearned
from everlearn.statistics.stored import stored


class Examples:
    """Rows with slots, weights and what the priors said of them, in order of arrival."""

    def __init__(self, n_features: int, n_priors: int = 0) -> None:
        self.X = np.empty((0, n_features))
        self.slots: Slots = np.empty(0, dtype=np.intp)
        self.weights = np.empty(0)
        self.prior_scores = np.empty((0, n_priors))

    def __len__(self) -> int:
        return len(self.X)

    def copy(self) -> "Examples":
        """The same examples; adding to the one leaves the other as it is."""
        twin = Examples(0)
        twin.__dict__.update(self.__dict__)
        return twin

    def add(
        self, X: Array, slots: Slots, weights: Array | None, prior_scores: Array | None = None
    ) -> None:
        if weights is None:
            weights = np.ones(len(X))
        if prior_scores is None:
            prior_scores = np.empty((len(X), 0))
        self.X = np.concatenate([self.X, X])
        self.slots = np.concatenate([self.slots, slots])
        self.weights = np.concatenate([self.weights, weights])
        self.prior_scores = np.concatenate([self.prior_scores, prior_scores])

    def keep(self, kept: NDArray[Any]) -> None:
        """Keep these positions and drop the others."""
        self.X = self.X[kept]
        self.slots = self.slots[kept]
        self.weights = self.weights[kept]
        self.prior_scores = self.prior_scores[kept]

    def remove(self, X: Array, slots: Slots, weights: Array | None) -> None:
        """Take examples back, the latest of equal ones first; all of them or none."""
        left = self.weights.copy()
        for index, (x, slot) in enumerate(zip(X, slots, strict=True)):
            to_remove = 1.0 if weights is None else weights[index]
            for place in np.flatnonzero((self.slots == slot) & (x == self.X).all(axis=1))[::-1]:
                taken = min(left[place], to_remove)
                left[place] -= taken
                to_remove -= taken
            if to_remove > 0:
                raise NeverLearned(
                    f"row {index} of the examples to be forgotten was not learned under this label"
                )
        self.weights = left
        self.keep(left > 0)

    def state(self) -> dict[str, NDArray[Any]]:
        return {
            "examples": self.X,
            "example_slots": self.slots,
            "example_weights": self.weights,
            "example_prior_scores": self.prior_scores,
        }

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        n_features, n_priors = self.X.shape[1], self.prior_scores.shape[1]
        self.X = stored(arrays, "examples", None, n_features)
        self.slots = stored(arrays, "example_slots", len(self.X), dtype=np.intp)
        self.weights = stored(arrays, "example_weights", len(self.X))
        self.prior_scores = stored(arrays, "example_prior_scores", len(self.X), n_priors)
