"""Selects the backend that processes a batch, once per call, from the type of the input.

A learner works with numpy arrays and slots. Other kinds of input are listed in its ``_backends``,
in order: each entry looks at the rows and returns a backend, or None. ``HOST`` takes the rest. The
backend for sparse rows is in ``learners/closed_form/sparse.py``, that for arrays on a GPU in
``device/backend.py``. Single vectors are always processed on the host.
"""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from everlearn.arrays import AnyArray

# Number of scores computed at a time on the host: 256 MB.
SCORES_AT_ONCE = 2**25


class Backend(Protocol):
    """Trains and asks a learner with rows of one kind."""

    @property
    def xp(self) -> Any:
        """The array namespace of the scores."""

    def array(self, values: AnyArray) -> Any:
        """A host array, moved to where the scores are."""

    def learn(
        self, learner: Any, X: Any, y: Any, sample_weight: ArrayLike | None, *, fresh: bool
    ) -> None:
        """Validate a batch, then learn it."""

    def ask(self, learner: Any, X: Any, answer: Callable[[Any], Any]) -> Any:
        """Apply ``answer`` to the scores, one column per class in the order of ``classes_``.

        It may be called block by block.
        """

    def probabilities(self, learner: Any, scores: Any) -> Any:
        """Probabilities from such scores; −∞ marks excluded classes."""


Offer = Callable[[Any, Any], Backend | None]


class Host:
    """Numpy on the host; other kinds of rows are copied to it."""

    xp = np

    def array(self, values: AnyArray) -> AnyArray:
        return values

    def learn(
        self, learner: Any, X: Any, y: Any, sample_weight: ArrayLike | None, *, fresh: bool
    ) -> None:
        # A learner that takes blocks converts them to float64 one by one.
        rows = learner._rows(X, reset=fresh, single=learner._block_rows is not None)
        examples = learner._labelled(rows, y, sample_weight)
        learner._learn_rows(*examples, fresh=fresh)

    def ask(self, learner: Any, X: Any, answer: Callable[[Any], Any]) -> Any:
        rows, registry = learner._rows(X), learner.registry_
        size = max(1, SCORES_AT_ONCE // max(1, registry.n_slots))
        parts = [
            answer(_in_order(learner._scores(rows[start : start + size]), registry.order))
            for start in range(0, max(1, len(rows)), size)
        ]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def probabilities(self, learner: Any, scores: Any) -> Any:
        return learner._probabilities(scores)


def _in_order(scores: AnyArray, order: AnyArray) -> AnyArray:
    """Columns by slot reordered by class; the same array if the order is the same."""
    sorted_already = scores.shape[1] == len(order) and bool(np.all(order[1:] > order[:-1]))
    return scores if sorted_already else np.take(scores, order, axis=1)


HOST: Backend = Host()


def backend_for(learner: Any, X: Any) -> Backend:
    """The backend for these rows."""
    for offer in learner._backends:
        backend: Backend | None = offer(learner, X)
        if backend is not None:
            return backend
    return HOST
