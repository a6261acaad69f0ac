"""The contract of a learner, and the behaviour shared by all learners.

A learner is a scikit-learn classifier that can learn at any time. This file manages the labels,
fixes the order of operations, and turns scores into answers; a learner implements a handful of
hooks in terms of slots and plain arrays:

    _begin(n_features)               empty state
    _learn(X, slots, weights)        a block of examples        _learn_one(x, slot)
    _scores(X)                       one column per slot        _scores_one(x)
    _welcome(known, new)             labels are about to be learned; raise to refuse them
    _forget, _forget_class, _merge   if they are exact
    _own_state, _own_restore         the state as named arrays and plain notes

The order is always: validate everything, then change state. Rejected input leaves the learner
unchanged. One thread may ask while another teaches: both take the lock (see estimator.py). Rows
other than numpy arrays go through a backend (see backend.py).
"""

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin
from sklearn.exceptions import NotFittedError

from everlearn.arrays import AnyArray, Array, Slots, State, as_numpy, like, softmax
from everlearn.backend import Backend, Offer, backend_for
from everlearn.errors import (
    InvalidInput,
    InvalidParameter,
    NotExportable,
    NotForgettable,
    NotMergeable,
    WrongShape,
)
from everlearn.estimator import BOUNDED, EXACT, Promise, StreamingEstimator
from everlearn.statistics.labels import Label, Labels
from everlearn.statistics.validated import validated_flag
from everlearn.validation import checked_labelled, checked_labels, checked_vector

__all__ = [
    "BOUNDED",
    "EXACT",
    "Array",
    "ClassWeight",
    "Promise",
    "Slots",
    "State",
    "StreamingClassifier",
    "StreamingEstimator",
    "parameters_by_label",
]

ClassWeight = Literal["balanced"] | Mapping[Label, float] | None


class StreamingClassifier(ClassifierMixin, StreamingEstimator):
    """A classifier that learns one example, or many, at any time.

    Attributes
    ----------
    classes_ : ndarray
        The labels taught, sorted.
    registry_ : Labels
        Maps labels to slots of the learner's statistics.
    temperature_ : float
        Divisor of the scores before they become probabilities.
    """

    registry_: Labels
    # A mapping multiplies ``sample_weight``; None in learners without this parameter.
    class_weight: ClassWeight = None
    # The mapping that the state was learned with.
    _learned_class_weight: Mapping[Label, float] | None = None
    # Maximum number of rows per call of ``_learn``; None for a whole batch.
    _block_rows: int | None = None
    # Backends for rows that are not numpy arrays; the first that accepts them is used.
    _backends: tuple[Offer, ...] = ()

    # Teaching.

    def fit(
        self, X: ArrayLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Forget everything, then learn from these examples.

        Parameters
        ----------
        X : array-like of shape (n_examples, n_features)
            Or an iterator of batches, each a pair of rows and labels, without ``y``.
        y : array-like of shape (n_examples,)
            Strings or integers.
        sample_weight : array-like of shape (n_examples,), optional
        """
        learn = "_learn_batches" if y is None and _are_batches(X) else "_learn_batch"
        return self._copy_on_write(
            lambda changed: getattr(changed, learn)(X, y, sample_weight, None, fresh=True)
        )

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        classes: Iterable[Label] | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn from more examples; any labels, new ones included.

        Parameters
        ----------
        X : array-like of shape (n_examples, n_features)
            Or an iterator of batches, each a pair of rows and labels, without ``y``, such as a
            ``DataLoader``. All of them are learned, or none.
        y : array-like of shape (n_examples,)
        classes : iterable of labels, optional
            Accepted for compatibility with scikit-learn. It is not needed: a class exists from its
            first example on, and never before.
        sample_weight : array-like of shape (n_examples,), optional
        """
        learn = "_learn_batches" if y is None and _are_batches(X) else "_learn_batch"
        return self._copy_on_write(
            lambda changed: getattr(changed, learn)(
                X, y, sample_weight, classes, fresh=not changed._is_begun()
            )
        )

    def learn_one(self, x: ArrayLike, y: Label) -> Self:
        """Learn one example; the fast path, without scikit-learn's validation."""
        with self._lock:
            self._learn_vector(x, y)
        return self

    def forget(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Unlearn examples: afterwards the learner is as if it had never learned them.

        Raises ``NeverLearned``, and changes nothing, if the statistics show that the examples were
        not learned; a learner that keeps no examples cannot detect every such mistake.
        """
        return self._copy_on_write(lambda changed: changed._forget_batch(X, y, sample_weight))

    def forget_class(self, label: Label) -> Self:
        """Unlearn a whole class by its label."""
        return self._copy_on_write(lambda changed: changed._forget_label(label))

    def merge(self, other: "StreamingClassifier") -> Self:
        """Learn everything that another learner of the same kind has learned."""
        if type(other) is not type(self):
            raise NotMergeable(
                f"a {type(self).__name__} can only be merged with its own kind, "
                f"not with a {type(other).__name__}"
            )
        if other is self:
            raise NotMergeable("a learner cannot be merged with itself; merge a copy")
        with self._locks_with(other):
            return self._copy_on_write(lambda changed: changed._merge_in(other))

    # Asking.

    def decision_function(self, X: ArrayLike) -> Array:
        """Scores, one column per class in the order of ``classes_``; higher is more likely.

        With two classes a single column, positive for the second, as in scikit-learn.
        """
        now = self._as_it_is()
        with now._lock:
            scores: Array = like(now._decide(X), X)
            return scores

    def predict(self, X: ArrayLike, *, among: Iterable[Label] | None = None) -> AnyArray:
        """The most likely class of each row.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
        among : iterable of labels, optional
            Consider only these classes, for instance those of the task at hand.
        """
        now = self._as_it_is()
        with now._lock:
            return now._answer(X, among)

    def predict_proba(self, X: ArrayLike, *, among: Iterable[Label] | None = None) -> Array:
        """Probabilities, one column per class in the order of ``classes_``."""
        now = self._as_it_is()
        with now._lock:
            shares: Array = like(now._answer_with_probabilities(X, among), X)
            return shares

    def predict_log_proba(self, X: ArrayLike, *, among: Iterable[Label] | None = None) -> Array:
        """Logarithms of :meth:`predict_proba`; −∞ for excluded classes."""
        with np.errstate(divide="ignore"):
            logarithms: Array = np.log(as_numpy(self.predict_proba(X, among=among)))
        return like(logarithms, X)

    def predict_one(self, x: ArrayLike, *, among: Iterable[Label] | None = None) -> Label:
        """The most likely class of one vector; the fast path."""
        now = self._as_it_is()
        with now._lock:
            return now._answer_one(x, among)

    def linear_head(self) -> tuple[Array, Array]:
        """This classifier as one matrix and one vector, if it is linear.

        Returns
        -------
        weights : ndarray of shape (n_classes, n_features)
        bias : ndarray of shape (n_classes,)
            ``X @ weights.T + bias`` equals the classifier's scores, one column per class in the
            order of ``classes_``, up to a term common to all classes.

        Raises
        ------
        NotExportable
            If the classifier is not linear.
        """
        raise NotExportable(
            f"{type(self).__name__} is not a linear function of its input; use a classifier that "
            "is, for instance RecursiveRLSC"
        )

    @property
    def temperature_(self) -> float:
        """Divisor that turns scores into differences of log-probabilities.

        ``predict_proba`` is the softmax of the divided scores, unless a learner overrides it.
        """
        return 1.0

    @property
    def classes_(self) -> AnyArray:
        """The classes known, sorted."""
        if not self._is_begun():
            raise AttributeError(f"{type(self).__name__} has no classes_ before it is taught")
        return self.registry_.classes

    def __sklearn_is_fitted__(self) -> bool:
        return self._is_begun() and len(self.registry_) > 0

    # Hooks.

    def _welcome(self, known: Labels, new: list[Label]) -> None:
        """Called before labels are learned, some of them new; raise to refuse them."""

    def _learn(self, X: Array, slots: Slots, weights: Array | None) -> None:
        raise NotImplementedError

    def _learn_one(self, x: Array, slot: int) -> None:
        """Learn one example of a known class."""
        self._learn(x[None].copy(), np.array([slot], dtype=np.intp), None)

    def _forget(self, X: Array, slots: Slots, weights: Array | None) -> Iterable[int]:
        """Unlearn examples; returns the slots of classes without examples left."""
        raise NotForgettable(f"{type(self).__name__} does not keep what exact forgetting needs")

    def _forget_class(self, slot: int) -> None:
        raise NotForgettable(f"{type(self).__name__} does not keep what exact forgetting needs")

    def _merge(self, other: Any, slots: Slots) -> None:
        """Add another learner's state; its slot i is our slot ``slots[i]``."""
        raise NotMergeable(f"two {type(self).__name__} learners have no exact sum")

    def _scores(self, X: Array) -> Array:
        raise NotImplementedError

    def _scores_one(self, x: Array) -> Array:
        scores: Array = self._scores(x[None])[0]
        return scores

    def _probabilities(self, scores: Array) -> Array:
        """Probabilities from scores; excluded classes have −∞."""
        shares: Array = softmax(scores / self.temperature_)
        return shares

    @property
    def exact_in_order(self) -> bool:
        """Whether examples in the same order lead to the same bits, however they are batched.

        For batches of at most a few hundred; also with questions in between.
        """
        return False

    def _flush_waiting(self) -> None:
        """Bring the state to that after saving and loading: no rows are left waiting."""

    def _as_it_is(self) -> Self:
        """The object to ask: the learner itself, or a snapshot that teaching does not change."""
        return self

    def _changeable_registry(self) -> Labels:
        """The registry to change: the learner's own, or a copy of it."""
        return self.registry_

    def _encode(self, registry: Labels, labels: AnyArray) -> tuple[Slots, list[Label]]:
        """Slots of labels, and the new labels, as in :meth:`Labels.encode`."""
        return registry.encode(labels)

    # Teaching works on a copy, except for a single example of a known class.

    def _learn_batches(
        self, batches: Any, y: None, _: object, classes: Iterable[Label] | None, *, fresh: bool
    ) -> None:
        """Learn batches into a copy, so that a bad one leaves nothing behind."""
        taught = copy.deepcopy(self)
        for batch in batches:
            if not isinstance(batch, (tuple, list)) or len(batch) not in (2, 3):
                raise WrongShape(
                    "an iterator of batches must yield pairs of rows and labels, with weights as "
                    f"an optional third, not a {type(batch).__name__}"
                )
            X, y, weights = (*batch, None)[:3]
            taught._learn_batch(X, y, weights, classes, fresh=fresh)
            fresh = False
        self.__dict__.update(taught.__dict__ | {"_lock": self._lock})

    def _learn_batch(
        self,
        X: ArrayLike,
        y: ArrayLike | None,
        sample_weight: ArrayLike | None,
        classes: Iterable[Label] | None,
        *,
        fresh: bool,
    ) -> None:
        backend_for(self, X).learn(self, X, y, sample_weight, fresh=fresh)

    def _learn_vector(self, x: ArrayLike, y: Label) -> None:
        vector = checked_vector(x, "learn_one", self.__dict__.get("n_features_in_"))
        registry = self.__dict__.get("registry_")
        slot = None if registry is None else registry.find(y)
        if slot is not None and self._weighs_all_alike:
            self._learn_one(vector, slot)
            return
        label = checked_labels([y])
        self._copy_on_write(
            lambda changed: changed._learn_rows(vector[None], label, None, fresh=registry is None)
        )

    def _learn_rows(
        self,
        rows: Any,
        labels: AnyArray,
        weights: Array | None,
        *,
        fresh: bool,
        learn: Callable[[Any, Slots, Array | None], None] | None = None,
    ) -> None:
        """Learn validated examples, in blocks of dense rows unless a backend does otherwise."""
        self._check_parameters()
        registry = Labels() if fresh else self._changeable_registry()
        slots, new = self._encode(registry, labels)
        if fresh:
            self.n_features_in_ = rows.shape[1]
            self._begin(rows.shape[1])
            self._learned_class_weight = self._class_weight_mapping()
        weights = self._times_class_weight(labels, weights)
        self._welcome(registry, new)
        (learn or self._learn_dense)(rows, slots, weights)
        registry.extend(new)
        self.registry_ = registry

    def _learn_dense(self, rows: AnyArray, slots: Slots, weights: Array | None) -> None:
        size = self._block_rows or len(rows)
        for start in range(0, len(rows), size):
            part = slice(start, start + size)
            block = np.ascontiguousarray(rows[part], dtype=np.float64)
            self._learn(block, slots[part], None if weights is None else weights[part])

    def _forget_batch(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None) -> None:
        self._require_fitted()
        rows, labels, weights = self._labelled(self._rows(X), y, sample_weight)
        slots = self.registry_.slots(labels)
        weights = self._times_class_weight(labels, weights)
        self._release_labels(self._forget(rows, slots, weights))

    def _forget_label(self, label: Label) -> None:
        self._require_fitted()
        slot = self.registry_.slot(label)
        self._forget_class(slot)
        self._release_labels([slot])

    def _release_labels(self, slots: Iterable[int]) -> None:
        registry = self._changeable_registry()
        registry.release(slots)
        self.registry_ = registry

    def _merge_in(self, other: "StreamingClassifier") -> None:
        self._require_same_parameters(other)
        if not other._is_begun() or not len(other.registry_):
            return
        fresh = not self._is_begun()
        other._require_same_class_weight()
        if not fresh:
            self._require_same_class_weight()
        if not fresh and self.n_features_in_ != other.n_features_in_:
            raise NotMergeable(
                f"this learner was taught {self.n_features_in_} features, "
                f"the other {other.n_features_in_}"
            )
        registry = Labels() if fresh else self._changeable_registry()
        by_slot = other.registry_.by_slot
        found, new = registry.encode([label for label in by_slot if label is not None])
        slots = np.full(len(by_slot), -1, dtype=np.intp)
        slots[[label is not None for label in by_slot]] = found
        if fresh:
            self.n_features_in_ = other.n_features_in_
            self._begin(other.n_features_in_)
            self._learned_class_weight = self._class_weight_mapping()
        self._welcome(registry, new)
        self._merge(other, slots)
        registry.extend(new)
        self.registry_ = registry

    def _labelled(
        self, rows: Any, y: ArrayLike | None, sample_weight: ArrayLike | None
    ) -> tuple[Any, AnyArray, Array | None]:
        """Rows with their labels and weights, without those of weight zero."""
        labels, weights = checked_labelled(y, sample_weight, len(rows), type(self).__name__)
        if weights is None:
            return rows, labels, None
        # An example of weight zero must not create a class.
        counted = weights > 0
        return rows[counted], labels[counted], weights[counted]

    @property
    def _weighs_all_alike(self) -> bool:
        """Whether an example has the same weight in every class."""
        known = self._learned_class_weight
        return known is None and (self.class_weight is None or isinstance(self.class_weight, str))

    def _class_weight_mapping(self) -> Mapping[Label, float] | None:
        return dict(self.class_weight) if isinstance(self.class_weight, Mapping) else None

    def _require_same_class_weight(self) -> None:
        if self._class_weight_mapping() != self._learned_class_weight:
            raise InvalidParameter(
                "class_weight was changed after examples were learned, whose weights it had set; "
                "set it back, or call fit to learn anew"
            )

    def _times_class_weight(self, labels: AnyArray, weights: Array | None) -> Array | None:
        """Weights of examples, multiplied by those of their classes."""
        self._require_same_class_weight()
        by_label = self._learned_class_weight
        if by_label is None:
            return weights
        factors = np.array([by_label.get(label, 1.0) for label in labels.tolist()], dtype=float)
        return factors if weights is None else weights * factors

    # Asking.

    def _decide(self, X: ArrayLike) -> Any:
        return backend_for(self, X).ask(self, X, _decided)

    def _answer(self, X: ArrayLike, among: Iterable[Label] | None) -> AnyArray:
        self._require_fitted()
        backend = backend_for(self, X)
        hidden = self._hidden(backend, among)
        best = backend.ask(self, X, lambda scores: backend.xp.argmax(hidden(scores), axis=1))
        answers: AnyArray = self.classes_[as_numpy(best)]
        return answers

    def _answer_with_probabilities(self, X: ArrayLike, among: Iterable[Label] | None) -> Any:
        self._require_fitted()
        backend = backend_for(self, X)
        hidden = self._hidden(backend, among)
        return backend.ask(self, X, lambda scores: backend.probabilities(self, hidden(scores)))

    def _hidden(self, backend: Backend, among: Iterable[Label] | None) -> Callable[[Any], Any]:
        """Replace the scores of excluded classes by −∞."""
        if among is None:
            return lambda scores: scores
        mask = np.full(len(self.registry_), -np.inf)
        mask[self.registry_.rank[self._candidates(among)]] = 0.0
        hiding = backend.array(mask)
        return lambda scores: scores + hiding

    def _answer_one(self, x: ArrayLike, among: Iterable[Label] | None) -> Label:
        self._require_fitted()
        vector = checked_vector(x, "predict_one", self.n_features_in_)
        if among is None:
            found = self._contenders(vector)
            if found is not None:
                return self._first_best(*found)
        scores = self._scores_one(vector)
        if among is not None:
            allowed = self._candidates(among)
            return self._first_best(allowed, scores[allowed])
        if self.registry_.has_gaps:
            scores = scores.copy()
            scores[self.registry_.released] = -np.inf
        return self._first_best(None, scores)

    def _contenders(self, x: Array) -> tuple[Slots, Array] | None:
        """Slots that contain the highest score, and their scores; ``None`` for all slots."""
        return None

    def _first_best(self, slots: Slots | None, scores: Array) -> Label:
        """The label with the highest score; among equals, the one that sorts first."""
        best = int(scores.argmax())
        equal = np.flatnonzero(scores == scores[best])
        if len(equal) < 2:
            equal = np.array([best])
        labels = [self._label_at(slot) for slot in (equal if slots is None else slots[equal])]
        return min(labels)

    def _candidates(self, among: Iterable[Label]) -> Slots:
        slots = self.registry_.slots(among)
        if not len(slots):
            raise InvalidInput("among contains no class; give at least one, or omit it")
        return slots

    def _label_at(self, slot: int) -> Label:
        label = self.registry_.by_slot[slot]
        assert label is not None
        return label

    def _knows(self, y: Label) -> bool:
        """Whether a label was taught; raises ``InvalidLabel`` for an invalid one."""
        return self._is_begun() and self.registry_.find(y) is not None

    def _is_begun(self) -> bool:
        return "registry_" in self.__dict__

    def _require_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet: it was taught nothing, or "
                "has forgotten everything. Call partial_fit or learn_one first."
            )

    # The interface persistence needs.

    def _state(self) -> State:
        with self._lock:
            arrays, notes = super()._state()
            if notes["taught"]:
                self._require_same_class_weight()
                notes["labels"] = list(self.registry_.by_slot)
            return arrays, notes

    def _restore(self, arrays: dict[str, AnyArray], notes: dict[str, Any]) -> None:
        if validated_flag(notes, "taught"):
            self.registry_ = Labels.restored(notes.get("labels"))
        super()._restore(arrays, notes)
        self._learned_class_weight = self._class_weight_mapping()


def parameters_by_label(learner: Any) -> list[str]:
    """Names of parameters, also of parts of a learner, that map labels to values."""
    return [
        name
        for name, value in learner.get_params(deep=True).items()
        if name.rpartition("__")[2] in ("class_weight", "priors") and isinstance(value, Mapping)
    ]


def _are_batches(X: Any) -> bool:
    """Whether this is an iterable of batches, such as a generator or a DataLoader."""
    an_array = isinstance(X, (list, tuple, str, bytes)) or sp.issparse(X)
    return not an_array and not hasattr(X, "shape") and isinstance(X, Iterable)


def _decided(scores: Any) -> Any:
    """Scores in scikit-learn's format: one column for two classes, positive for the second."""
    return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores
