"""What the closed-form learners share: their whole state is a set of class moments.

Nearest class mean, streaming LDA and recursive least squares read scores off the same additive
statistics. Teaching adds to them, forgetting subtracts, merging sums, and saving writes them down;
each learner only says how it reads scores off them, and which of its caches follow. Sparse rows and
rows on a GPU are taken by learners that list a backend for them.
"""

from collections.abc import Iterable
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from everlearn.arrays import Array, Slots, State
from everlearn.base import BOUNDED, EXACT, Promise, StreamingClassifier
from everlearn.device.backend import Head, Watcher, send
from everlearn.device.moments import DeviceMoments
from everlearn.errors import DamagedModel, NotForgettable, NotMergeable
from everlearn.learners.closed_form.screened import ScreenedMeans
from everlearn.learners.closed_form.sparse import SparseRows, checked_sparse
from everlearn.statistics.class_means import ClassMeans
from everlearn.statistics.moments import BLOCK_ROWS
from everlearn.statistics.screening import MANY_ROWS


class AdditiveClassifier(StreamingClassifier):
    """A classifier that reads its answers off class moments."""

    _block_rows: int | None = BLOCK_ROWS
    _takes_sparse = False
    _runs_on_device = False

    @cached_property
    def moments_(self) -> Any:
        """The statistics. An attribute, unless a device was taught last: then they are copied."""
        copy = self.__dict__.get("_device_copy")
        if copy is None:
            raise AttributeError(f"{type(self).__name__} has no moments_ before it is taught")
        moments = copy.on_host()
        self._after_other_change()
        return moments

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

    def to(self, device: object) -> Self:
        """Compute on a device from now on, with rows from host memory as well.

        Single vectors (``learn_one``, ``predict_one``) are computed with on the host in any case.

        Parameters
        ----------
        device : str or a device of torch or CuPy
            A word as torch takes it, "cuda" or "cuda:1"; "cpu" is the host. Batches that lie on a
            device are computed with there in any case.
        """
        with self._lock:
            send(self, device)
        return self

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

    def _empty_moments(self, n_features: int) -> ClassMeans:
        raise NotImplementedError

    def _release(self, X: Array, slots: Slots, weights: Array | None) -> None:
        """Unlearn examples; raises before anything changes."""
        self.moments_.remove(X, slots, weights)

    def _after_other_change(self) -> None:
        """The moments changed as a whole: a class was forgotten, or another learner merged in."""

    def _learn_sparse(self, X: SparseRows, slots: Slots, weights: Array | None) -> None:
        """Learn rows without writing their zeros down, where that is possible."""
        for part, rows in X.blocks():
            self._learn(rows, slots[part], None if weights is None else weights[part])

    def _scores_sparse(self, X: SparseRows) -> Array:
        return np.concatenate([self._scores(dense) for _, dense in X.blocks()])

    def _device_head(self, moments: DeviceMoments) -> Head:
        """How scores are read off moments on a device."""
        raise NotImplementedError

    def _watcher(self, slots: Slots, weights: Array | None) -> Watcher | None:
        """What else takes note of rows that are learned on a device."""
        return None

    # The contract.

    def _begin(self, n_features: int) -> None:
        self.moments_ = self._empty_moments(n_features)
        self._screened = ScreenedMeans()

    def _settle(self) -> None:
        if self._is_begun():
            self.moments_.settle()

    def _contenders(self, x: Array) -> tuple[Slots, Array] | None:
        return None if self.moments_.n_slots < MANY_ROWS else self._screened_scores(x)

    def _screened_scores(self, x: Array) -> tuple[Slots, Array] | None:
        """As :meth:`_contenders`, where there are many classes."""
        return None

    def _learn(self, X: Array, slots: Slots, weights: Array | None) -> None:
        self.moments_.add(X, slots, weights)

    def _learn_one(self, x: Array, slot: int) -> None:
        self.moments_.add_one(x, slot)

    def _forget_batch(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None) -> None:
        if sp.issparse(X) and self._takes_sparse:
            X = checked_sparse(X).dense()
        super()._forget_batch(X, y, sample_weight)

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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._takes_sparse
        return tags
