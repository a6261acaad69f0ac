"""What the closed-form learners share: their whole state is a set of class moments.

Nearest class mean, streaming LDA and recursive least squares are different readings of the same
additive statistics. Teaching adds to them, forgetting subtracts, merging sums, and saving writes
them down; each learner only says how it reads scores off them, and which of its caches follow.
"""

from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from everlearn.arrays import Array, Slots, State
from everlearn.base import BOUNDED, EXACT, Promise, StreamingClassifier
from everlearn.errors import DamagedModel, NotForgettable, NotMergeable
from everlearn.learners.closed_form.screened import ScreenedMeans
from everlearn.statistics.class_means import ClassMeans
from everlearn.statistics.moments import BLOCK_ROWS
from everlearn.statistics.screening import MANY_ROWS


class AdditiveClassifier(StreamingClassifier):
    """A classifier that reads its answers off class moments."""

    moments_: Any
    _learns_single = True

    @property
    def promises(self) -> frozenset[Promise]:
        return self._unless_fading(EXACT | BOUNDED)

    @property
    def _fades(self) -> bool:
        """Whether examples count for less the longer ago they were learned."""
        return getattr(self, "half_life", None) is not None

    def _unless_fading(self, promises: frozenset[Promise]) -> frozenset[Promise]:
        """With a half-life the order matters, and a batch is still its rows one by one."""
        return promises & (BOUNDED | {Promise.BATCH_IS_LOOP}) if self._fades else promises

    def _empty_moments(self, n_features: int) -> ClassMeans:
        raise NotImplementedError

    def unmerge(self, other: "AdditiveClassifier") -> Self:
        """Unlearn everything that another learner has learned; the inverse of :meth:`merge`.

        It is how a source is taken out of a sum without its examples: keep what the source taught
        on its own, and subtract it. Raises ``NeverLearned`` or ``UnknownLabel``, and changes
        nothing, where the statistics show that it was not part of the sum.
        """
        if type(other) is not type(self):
            raise NotMergeable(
                f"a {type(other).__name__} was never merged into a {type(self).__name__}"
            )
        if Promise.FORGET not in self.promises:
            raise NotForgettable(
                f"with these parameters a {type(self).__name__} depends on the order of what it "
                "was taught, so nothing can be taken out of it exactly"
            )
        with self._locks_with(other):
            return self._copy_on_write(lambda changed: changed._unmerge(other))

    def _unmerge(self, other: "AdditiveClassifier") -> None:
        self._require_same_parameters(other)
        if not other._is_begun() or not len(other.registry_):
            return
        self._require_fitted()
        if self.n_features_in_ != other.n_features_in_:
            raise NotMergeable(
                f"this learner was taught {self.n_features_in_} features, "
                f"the other {other.n_features_in_}"
            )
        slots = np.full(other.registry_.n_slots, -1, dtype=np.intp)
        for theirs, label in enumerate(other.registry_.by_slot):
            if label is not None:
                slots[theirs] = self.registry_.slot(label)
        self.moments_.unmerge(other.moments_, slots)
        self._after_other_change()
        self._release_labels(np.flatnonzero(self.moments_.counts == 0).tolist())

    # Hooks: a learner with caches that follow the moments extends these.

    def _absorb(self, X: Array, slots: Slots, weights: Array | None) -> None:
        """Learn one block of at most ``BLOCK_ROWS`` examples."""
        self.moments_.add(X, slots, weights)

    def _release(self, X: Array, slots: Slots, weights: Array | None) -> None:
        """Unlearn examples; raises before anything changes."""
        self.moments_.remove(X, slots, weights)

    def _after_other_change(self) -> None:
        """The moments changed as a whole: a class was forgotten, or another learner merged in."""

    def _begin(self, n_features: int) -> None:
        self.moments_ = self._empty_moments(n_features)
        self._screened = ScreenedMeans()

    def _contenders(self, x: ArrayLike) -> tuple[Slots, Array] | None:
        if self.moments_.n_slots < MANY_ROWS:
            return None
        return self._screened_scores(self._vector(x, "predict_one"))

    def _screened_scores(self, x: Array) -> tuple[Slots, Array] | None:
        """As :meth:`_contenders`, where there are many classes."""
        return None

    def _learn(self, X: Array, slots: Slots, weights: Array | None) -> None:
        for start in range(0, len(X), BLOCK_ROWS):
            part = slice(start, start + BLOCK_ROWS)
            block = np.ascontiguousarray(X[part], dtype=np.float64)
            self._absorb(block, slots[part], None if weights is None else weights[part])

    def _learn_one(self, x: Array, slot: int) -> None:
        self.moments_.add_one(x, slot)

    def _forget(self, X: Array, slots: Slots, weights: Array | None) -> Iterable[int]:
        if self._fades:
            raise NotForgettable(
                "with a half-life an example counts for less the longer ago it was learned, and "
                "when this one was is not kept; to forget old examples exactly use SlidingWindow"
            )
        # In one block: what cannot be forgotten must be noticed before anything is.
        self._release(X, slots, weights)
        touched = np.unique(slots)
        return [int(slot) for slot in touched[self.moments_.counts[touched] == 0]]

    def _forget_class(self, slot: int) -> None:
        self.moments_.remove_class(slot)
        self._after_other_change()

    def _merge(self, other: Any, slots: Slots) -> None:
        self.moments_.merge(other.moments_, slots)
        self._after_other_change()

    def _own_state(self) -> State:
        return self.moments_.state(), {}

    def _own_restore(self, arrays: dict[str, NDArray[Any]], notes: dict[str, Any]) -> None:
        self.moments_.restore(arrays)
        if self.moments_.n_slots != self.registry_.n_slots:
            raise DamagedModel("counts and labels are of different numbers of classes")
        known = [label is not None for label in self.registry_.by_slot]
        if not np.array_equal(self.moments_.counts > 0, known):
            raise DamagedModel("counts say of other classes than labels that they are known")
        self._after_other_change()
