"""Base class of the closed-form learners, whose whole state is a set of class moments.

Nearest class mean, streaming LDA and recursive least squares compute scores from the same additive
statistics. Learning adds to them, forgetting subtracts, merging sums, and saving writes them. Each
learner only defines how scores are computed, and which of its caches follow. Sparse rows and rows
on a GPU are accepted by learners that list a backend for them.
"""

from collections.abc import Iterable
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from everlearn.arrays import Array, Slots, State, as_numpy
from everlearn.base import BOUNDED, EXACT, Promise, StreamingClassifier
from everlearn.device.backend import Head, Watcher, send
from everlearn.device.moments import DeviceMoments
from everlearn.errors import DamagedModel, NotForgettable, NotMergeable
from everlearn.learners.closed_form.screened import ScreenedMeans, ScreenedQuestion
from everlearn.learners.closed_form.sparse import SparseRows, checked_sparse
from everlearn.statistics.class_means import ClassMeans
from everlearn.statistics.labels import Label
from everlearn.statistics.moments import BLOCK_ROWS
from everlearn.statistics.screening import MANY_ROWS
from everlearn.validation import checked_vector, require_positive, require_whole


class AdditiveClassifier(StreamingClassifier):
    """A classifier whose scores are computed from class moments."""

    _block_rows: int | None = BLOCK_ROWS
    _takes_sparse = False
    _runs_on_device = False

    @cached_property
    def moments_(self) -> Any:
        """The statistics; copied to the host first if a device was taught last."""
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
        """Whether older examples count for less."""
        return getattr(self, "half_life", None) is not None

    def _unless_fading(self, promises: frozenset[Promise]) -> frozenset[Promise]:
        """With a half-life the order matters, but a batch still equals its rows one by one."""
        return promises & (BOUNDED | {Promise.BATCH_IS_LOOP}) if self._fades else promises

    def to(self, device: object) -> Self:
        """Compute on a device from now on, also for rows in host memory.

        Single vectors (``learn_one``, ``predict_one``) are always computed on the host.

        Parameters
        ----------
        device : str or a device of torch or CuPy
            A name as in torch, "cuda" or "cuda:1"; "cpu" is the host. Batches that lie on a device
            are always computed there.
        """
        with self._lock:
            send(self, device)
        return self

    def top_one(
        self, x: ArrayLike, k: int = 5, *, tolerance: float = 0.05
    ) -> list[tuple[Label, float]]:
        """The k most likely classes of one vector and their probabilities, most likely first.

        From 4,096 classes on only those that can be among the k are scored in double precision,
        and the other classes enter the probabilities by bounds on their scores. The classes are
        those of the whole computation, ties included. Where it would take too many classes to keep
        the tolerance, all are scored and the probabilities are those of ``predict_proba``.

        Parameters
        ----------
        x : array-like of shape (n_features,)
        k : int
        tolerance : float
            What share of the sum over all classes the bounds may leave open: a probability differs
            from that of all classes scored by at most half of this share of itself. Shrinkage and
            regularization are those of ``predict_one``.
        """
        require_whole("k", k)
        require_positive("tolerance", tolerance)
        now = self._as_it_is()
        with now._lock:
            now._require_fitted()
            return now._top(checked_vector(x, "top_one", now.n_features_in_), int(k), tolerance)

    def unmerge(self, other: "AdditiveClassifier") -> Self:
        """Unlearn everything that another learner has learned; the inverse of :meth:`merge`.

        This removes a source from a sum without its examples: keep a learner trained on the source
        alone, and subtract it. Raises ``NeverLearned`` or ``UnknownLabel``, and changes nothing, if
        the statistics show that it was not part of the sum.
        """
        if type(other) is not type(self):
            raise NotMergeable(
                f"a {type(other).__name__} was never merged into a {type(self).__name__}"
            )
        if Promise.FORGET not in self.promises:
            raise NotForgettable(
                f"with these parameters a {type(self).__name__} depends on the order of its "
                "examples, so nothing can be unlearned exactly"
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
        """Called after a class was forgotten or a learner merged: all moments may differ."""

    def _learn_sparse(self, X: SparseRows, slots: Slots, weights: Array | None) -> None:
        """Learn sparse rows, without making them dense if possible."""
        for part, rows in X.blocks():
            self._learn(rows, slots[part], None if weights is None else weights[part])

    def _scores_sparse(self, X: SparseRows) -> Array:
        return np.concatenate([self._scores(dense) for _, dense in X.blocks()])

    def _device_head(self, moments: DeviceMoments) -> Head:
        """The head for moments on a device."""
        raise NotImplementedError

    def _watcher(self, slots: Slots, weights: Array | None) -> Watcher | None:
        """Observer of rows learned on a device, or ``None``."""
        return None

    # The contract.

    def _begin(self, n_features: int) -> None:
        self.moments_ = self._empty_moments(n_features)
        self._screened = ScreenedMeans()

    def _flush_waiting(self) -> None:
        if self._is_begun():
            self.moments_.flush()

    def _contenders(self, x: Array) -> tuple[Slots, Array] | None:
        asked = None if self.moments_.n_slots < MANY_ROWS else self._screened_question(x)
        if asked is None:
            return None
        slots = self._screened.candidates(self.moments_, asked.products)
        return None if slots is None else (slots, asked.exact(slots))

    def _screened_question(self, x: Array) -> ScreenedQuestion | None:
        """A question to many classes, where scores are products with class means."""
        return None

    def _top(self, x: Array, k: int, tolerance: float) -> list[tuple[Label, float]]:
        asked = None if self.moments_.n_slots < MANY_ROWS else self._screened_question(x)
        found = asked and self._screened.shares(
            self.moments_, asked, best=k, temperature=self.temperature_, tolerance=tolerance
        )
        if not found:
            shares = as_numpy(self._answer_with_probabilities(x[None], None))[0]
            order = np.argsort(-shares, kind="stable")[:k]
            return list(zip(self.classes_[order].tolist(), shares[order].tolist(), strict=True))
        slots, shares, _ = found
        order = np.lexsort((self.registry_.rank[slots], -shares))[:k]
        labels = [self._label_at(slot) for slot in slots[order]]
        return list(zip(labels, shares[order].tolist(), strict=True))

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
                "with a half-life the weight of an example depends on when it was learned, which "
                "is not stored; to forget old examples exactly use SlidingWindow"
            )
        # In one block: an impossible request must be noticed before anything changes.
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
            raise DamagedModel("counts and labels have different numbers of classes")
        known = [label is not None for label in self.registry_.by_slot]
        if not np.array_equal(self.moments_.counts > 0, known):
            raise DamagedModel("counts and labels disagree about which classes are known")
        self._after_other_change()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._takes_sparse
        return tags
