"""A learner that knows only the latest examples.

The last ``size`` examples are kept; whenever one leaves the window, the learner forgets it. If
forgetting is exact, the learner always equals one that was taught the window and nothing else: a
hard edge, where ``half_life`` fades.

Cost: one example learned and one forgotten, beside ``size`` × d numbers of memory.
"""

import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from everlearn.arrays import AnyArray, Array, Slots, State
from everlearn.base import BOUNDED, Promise, StreamingClassifier, parameters_by_label
from everlearn.errors import DamagedModel, InvalidParameter
from everlearn.learners.lda import StreamingLDA
from everlearn.statistics.kept_examples import KeptExamples
from everlearn.statistics.validated import validated_array
from everlearn.validation import require_whole


class SlidingWindow(StreamingClassifier):
    """Teach a learner the latest examples only.

    Parameters
    ----------
    learner : an everlearn learner that forgets exactly, default=StreamingLDA()
    size : int, default=1000
        Number of examples known; each further one replaces the oldest.

    Attributes
    ----------
    learner_ : the fitted learner, with class numbers as labels
    classes_ : ndarray
        The classes of which the window holds an example.
    n_features_in_ : int

    See Also
    --------
    StreamingLDA : ``half_life=`` lets examples fade instead, without keeping any.

    Notes
    -----
    *Cost*: that of the learner to learn one example and to forget one; ``size`` examples are kept.

    *Promises*: a batch equals its rows one by one, and memory is bounded. The order matters,
    because it determines which examples are the latest.

    Examples
    --------
    >>> from everlearn import NearestClassMean, SlidingWindow
    >>> learner = SlidingWindow(learner=NearestClassMean(), size=2)
    >>> for x, y in (([0.0], "cup"), ([5.0], "chair"), ([0.0], "chair"), ([5.0], "cup")):
    ...     learner = learner.learn_one(x, y)
    >>> learner.predict_one([1.0])
    'chair'
    """

    learner_: Any

    def __init__(self, *, learner: Any = None, size: int = 1000) -> None:
        self.learner = learner
        self.size = size

    @property
    def promises(self) -> frozenset[Promise]:
        return BOUNDED | {Promise.BATCH_IS_LOOP}

    @property
    def temperature_(self) -> float:
        return float(self.learner_.temperature_)

    def _check_parameters(self) -> None:
        require_whole("size", self.size)
        learner = self._untaught()
        if Promise.FORGET not in getattr(learner, "promises", ()):
            raise InvalidParameter(
                f"learner must forget exactly, which {learner!r} does not guarantee; use "
                "NearestClassMean, StreamingLDA, RecursiveRLSC or AutoClassifier"
            )
        for name in parameters_by_label(learner):
            raise InvalidParameter(
                f"{name} of learner maps labels, but inside a window it is taught class "
                "numbers; give sample_weight to the window instead"
            )
        learner._check_parameters()

    def _untaught(self) -> Any:
        return StreamingLDA() if self.learner is None else self.learner

    def _begin(self, n_features: int) -> None:
        self.learner_ = clone(self._untaught())
        self._kept = KeptExamples.none(n_features)

    def _learn_rows(
        self, rows: Any, labels: AnyArray, weights: Array | None, *, fresh: bool, **how: Any
    ) -> None:
        if not fresh:  # so that a rejected batch leaves the learner unchanged
            self.learner_ = copy.deepcopy(self.learner_)
        super()._learn_rows(rows, labels, weights, fresh=fresh, **how)
        self._release_empty()

    def _learn(self, X: Array, slots: Slots, weights: Array | None) -> None:
        X, slots = X[-self.size :], slots[-self.size :]
        share = np.ones(len(X)) if weights is None else weights[-self.size :]
        self.learner_.partial_fit(X, slots, sample_weight=share)
        self._push(X, slots, share)

    def _learn_one(self, x: Array, slot: int) -> None:
        self.learner_.learn_one(x, slot)
        self._push(x[None], np.array([slot]), np.ones(1))
        self._release_empty()

    def _push(self, X: Array, slots: Slots, weights: Array) -> None:
        """The window moves on; what falls out of it is forgotten."""
        kept = self._kept.followed_by(X, slots, weights)
        old = kept.only(slice(max(0, len(kept) - self.size)))
        if len(old):
            self.learner_.forget(old.X, old.slots, old.weights)
        self._kept = kept.only(slice(len(old), None))

    def _release_empty(self) -> None:
        """A class without an example in the window is not known any more."""
        known = set(self._kept.slots.tolist())
        labels = enumerate(self.registry_.by_slot)
        gone = [slot for slot, label in labels if label is not None and slot not in known]
        if gone:
            self._release_labels(gone)

    def _scores(self, X: Array) -> Array:
        return self._by_slot(self.learner_._scores(X))

    def _scores_one(self, x: Array) -> Array:
        return self._by_slot(self.learner_._scores_one(x)[None])[0]

    def _by_slot(self, scores: Array) -> Array:
        """The learner's columns, whose labels are our slots, as our columns."""
        ours = np.full((len(scores), self.registry_.n_slots), -np.inf)
        for column, slot in enumerate(self.learner_.registry_.by_slot):
            if slot is not None:
                ours[:, slot] = scores[:, column]
        return ours

    def _own_state(self) -> State:
        arrays = {
            "window": self._kept.X,
            "window_slots": self._kept.slots.astype(np.int64),
            "window_weights": self._kept.weights,
        }
        return arrays, {"learners": [copy.deepcopy(self.learner_)]}

    def _own_restore(self, arrays: dict[str, NDArray[Any]], notes: dict[str, Any]) -> None:
        X = validated_array(arrays, "window", None, self.n_features_in_)
        last = self.registry_.n_slots - 1
        slots = validated_array(arrays, "window_slots", len(X), dtype=np.int64, least=0, most=last)
        weights = validated_array(arrays, "window_weights", len(X), least=0.0)
        if len(X) > self.size:
            raise DamagedModel(f"window holds {len(X)} examples, more than its size")
        (learner,) = notes["learners"]
        known = {slot for slot, label in enumerate(self.registry_.by_slot) if label is not None}
        if set(slots.tolist()) != known or set(learner.classes_.tolist()) != known:
            raise DamagedModel("window, learner and labels have different classes")
        self.learner_ = learner
        self._kept = KeptExamples(X, slots.astype(np.intp), weights)
