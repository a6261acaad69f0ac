"""Where a batch is computed with: one backend, chosen once per call from the array that came in.

A learner speaks of numpy arrays and slots. What else it takes is listed in its ``_backends``, in
order: each entry looks at the rows and returns a backend, or None. ``HOST`` takes the rest. A
backend for sparse rows stands in ``learners/closed_form/sparse.py``, one for arrays on a GPU in
``device/backend.py``. Single vectors are always computed with on the host.
"""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from everlearn.arrays import AnyArray

# So many scores are computed at a time on the host: 256 MB of them.
SCORES_AT_ONCE = 2**25


class Backend(Protocol):
    """Teaches and asks a learner with rows of one kind."""

    @property
    def xp(self) -> Any:
        """The array namespace of the scores."""

    def array(self, values: AnyArray) -> Any:
        """A host array beside the scores."""

    def learn(
        self, learner: Any, X: Any, y: Any, sample_weight: ArrayLike | None, *, fresh: bool
    ) -> None:
        """Validate a batch, then learn it."""

    def ask(self, learner: Any, X: Any, answer: Callable[[Any], Any]) -> Any:
        """What ``answer`` makes of the scores, one column per class in the order of ``classes_``.

        It may be called block by block.
        """

    def probabilities(self, learner: Any, scores: Any) -> Any:
        """Probabilities from such scores; −∞ for classes that are not asked about."""


Offer = Callable[[Any, Any], Backend | None]


class Host:
    """Numpy on the host; other kinds of rows are copied to it."""

    xp = np

    def array(self, values: AnyArray) -> AnyArray:
        return values

    def learn(
        self, learner: Any, X: Any, y: Any, sample_weight: ArrayLike | None, *, fresh: bool
    ) -> None:
        # A learner that takes blocks makes float64 of them one by one.
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
    """Columns by slot in the order of classes; the same array where that is no other."""
    sorted_already = scores.shape[1] == len(order) and bool(np.all(order[1:] > order[:-1]))
    return scores if sorted_already else np.take(scores, order, axis=1)


HOST: Backend = Host()


def backend_for(learner: Any, X: Any) -> Backend:
    """The backend that computes with these rows."""
    for offer in learner._backends:
        backend: Backend | None = offer(learner, X)
        if backend is not None:
            return backend
    return HOST
