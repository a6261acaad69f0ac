"""Transformers and a final learner, trained incrementally as one.

Scikit-learn's Pipeline has no ``partial_fit``. Here every step has it: each transformer learns from
a block, then passes the transformed block to the next step; the last step, a learner, gets the
labels. The pipeline is itself a learner with the methods of its last step.

A transformer that keeps learning changes its output for the same example, while the learner behind
it was trained on earlier outputs. A scaler settles soon; the axes of an eigenspace rotate and
change order for a long time, unless they are set to be steady. ``freeze_after`` ends the
transformers' learning after a number of examples; from then on the learner works in a fixed space.
"""

import copy
from collections.abc import Callable, Iterable
from typing import Any, Self, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone, is_classifier
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils.metaestimators import _BaseComposition, available_if
from sklearn.utils.validation import _num_samples, has_fit_parameter

from everlearn.arrays import Array, State, as_numpy, lies_on_device
from everlearn.base import BOUNDED, Promise, StreamingClassifier
from everlearn.device.pipeline import send_steps, steps_on_device
from everlearn.errors import (
    DamagedModel,
    InvalidParameter,
    NotForgettable,
    NotMergeable,
    WrongShape,
)
from everlearn.preprocessing.fixed_map import FixedMap, in_blocks
from everlearn.statistics.labels import Label, Labels
from everlearn.validation import checked_labels, checked_weights

Step = tuple[str, Any]

# Behind fixed transformers, rows are processed in blocks of this size, as by the moments.
BLOCK_ROWS = 1024
# Features of larger numbers might overflow.
LARGE = 1e100
Method = TypeVar("Method", bound=Callable[..., Any])


def _where_learner_has(method: str) -> Callable[[Method], Method]:
    """Give the pipeline a method only if its last step has it."""

    def check(pipeline: "StreamPipeline") -> bool:
        return hasattr(pipeline._steps_now()[-1][1], method)

    return cast(Callable[[Method], Method], available_if(check))


class StreamPipeline(_BaseComposition, StreamingClassifier):
    """A chain of transformers and a learner, each trained by ``partial_fit``.

    Parameters
    ----------
    steps : list of (name, estimator)
        The last is the learner, the others are transformers. All have ``partial_fit``. A pipeline
        with steps of scikit-learn works; it cannot be saved or put into a ``Memory``
        (``StreamingScaler`` stands for ``StandardScaler``, and can).
    freeze_after : int, optional
        Transformers stop learning after this many examples; never by default.

    Attributes
    ----------
    steps_ : list of (name, estimator)
        The fitted steps; those in ``steps`` are never changed.
    named_steps : dict
        The fitted steps, by name.
    classes_ : ndarray
    n_features_in_ : int
    n_seen_ : int
        Number of examples learned.

    See Also
    --------
    sklearn.pipeline.Pipeline : For everything that is fitted once.

    Notes
    -----
    Behind fixed transformers (``PowerNormalizer``, ``RandomFeatures``) the learner keeps all its
    promises, and a large batch is processed in blocks: random features of all examples are never in
    memory together. Behind transformers that learn, ``forget``, ``forget_class`` and ``merge`` are
    refused: they have learned from the same examples, and the learner's statistics refer to axes
    that have changed since.

    A transformer that adapts changes the learner's coordinates: use an eigenspace with
    ``axes="steady"``, or freeze it after a while.

    A batch that the learner refuses leaves the transformers unchanged.

    *Cost*: the sum over its steps.

    *Promises*: those of its learner, behind fixed transformers.

    Examples
    --------
    >>> from everlearn import NearestClassMean, StreamingPCA, StreamPipeline
    >>> eigenspace = StreamingPCA(n_components=2, axes="steady")
    >>> pipeline = StreamPipeline([("eigenspace", eigenspace), ("learner", NearestClassMean())])
    >>> X = [[0.0, 0, 1], [9.0, 1, 0], [0.0, 1, 1]]
    >>> pipeline.partial_fit(X, ["cup", "chair", "cup"]).predict_one([8.0, 1, 0])
    'chair'
    """

    steps_: list[Step]
    n_seen_: int

    def __init__(self, steps: list[Step], *, freeze_after: int | None = None) -> None:
        self.steps = steps
        self.freeze_after = freeze_after

    # Parameters of steps, as name__parameter.

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters, including those of the steps."""
        return dict(self._get_params("steps", deep=deep))

    def set_params(self, **parameters: Any) -> Self:
        """Set parameters; a step's parameter is named ``step__parameter``."""
        self._set_params("steps", **parameters)
        return self

    @property
    def named_steps(self) -> dict[str, Any]:
        return dict(self._steps_now())

    @property
    def promises(self) -> frozenset[Promise]:
        """The guarantees of every step; fixed transformers keep all of them, others few."""
        promises = frozenset(Promise)
        for _, step in self.steps:
            promises &= getattr(step, "promises", frozenset())
        return promises if self._is_fixed() else promises & BOUNDED

    def to(self, device: object) -> Self:
        """Compute on a device from now on, also for rows in host memory.

        As :meth:`StreamingLDA.to`; for pipelines of fixed transformers and a learner that runs on
        devices.
        """
        with self._lock:
            send_steps(self, device)
        return self

    # Asking; teaching uses the methods of the base class.

    @_where_learner_has("decision_function")
    def decision_function(self, X: ArrayLike) -> Array:
        """The learner's scores of the transformed rows."""
        return super().decision_function(X)

    @_where_learner_has("predict_proba")
    def predict_proba(self, X: ArrayLike, *, among: Iterable[Label] | None = None) -> Array:
        """Probabilities, one column per class in the order of ``classes_``."""
        return super().predict_proba(X, among=among)

    @property
    def temperature_(self) -> float:
        """The learner's temperature; one for a learner of another library."""
        return float(getattr(self._taught("temperature_")[-1][1], "temperature_", 1.0))

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes known, sorted."""
        classes: NDArray[Any] = self._taught("classes_")[-1][1].classes_
        return classes

    @property
    def n_features_in_(self) -> int:  # type: ignore[override]
        return int(self._taught("n_features_in_")[0][1].n_features_in_)

    @property
    def feature_names_in_(self) -> NDArray[Any]:  # type: ignore[override]
        names: NDArray[Any] = self._taught("feature_names_in_")[0][1].feature_names_in_
        return names

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        last = self.steps[-1][1] if self.steps else None
        if is_classifier(last):
            tags.classifier_tags.multi_class = get_tags(last).classifier_tags.multi_class
        # The pipeline accepts what its first step accepts.
        tags.input_tags.sparse = bool(self.steps) and get_tags(self.steps[0][1]).input_tags.sparse
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return self._is_begun()

    # The interface persistence needs.

    def _state(self) -> State:
        with self._lock:
            if not self._is_begun():
                return {}, {"taught": False}
            for _, estimator in self.steps_:
                if hasattr(estimator, "_state"):
                    estimator._state()  # settles caches, so that a file gives the same bits
            learners = [copy.deepcopy(estimator) for _, estimator in self.steps_]
            return {}, {"taught": True, "learners": learners, "n_seen": self.n_seen_}

    def _restore(self, arrays: dict[str, NDArray[Any]], notes: dict[str, Any]) -> None:
        self._check_parameters()
        if not notes["taught"]:
            return
        names = [name for name, _ in self.steps]
        kinds = [type(step) for _, step in self.steps]
        learners = notes["learners"]
        if not isinstance(learners, list) or [type(step) for step in learners] != kinds:
            raise DamagedModel("learners do not match the steps")
        self.steps_ = list(zip(names, learners, strict=True))
        self.n_seen_ = int(notes["n_seen"])

    # Hooks of the base class, applied to the steps.

    def _learn_batch(
        self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None,
        classes: Iterable[Label] | None,
        *,
        fresh: bool,
    ) -> None:
        """Train the transformers, then the learner.

        ``classes`` is passed to learners of other libraries, which may need all labels up front;
        weights are passed to the learner, and to transformers that accept them.
        """
        if fresh:
            self._check_parameters()
            self.steps_ = [(name, clone(estimator)) for name, estimator in self.steps]
            self.n_seen_ = 0
        elif self._room() > 0 and not self._is_fixed():
            # Copied, so that the learner at the end can still refuse.
            self.steps_ = _copied_transformers(self.steps_)
        on_device = steps_on_device(self, X)
        if on_device is not None:
            steps = [step for _, step in self.steps_]
            self.n_seen_ += on_device.learn(steps, X, y, sample_weight)
            return
        n_rows = _number_of_rows(X)
        if n_rows > BLOCK_ROWS and self._is_fixed():
            self._learn_in_blocks(X, y, sample_weight, n_rows)
            return
        room = int(min(n_rows, self._room()))
        weights = None if sample_weight is None else np.asarray(sample_weight)
        for _, transformer in self.steps_[:-1]:
            if room == n_rows:
                _teach(transformer, X, y, weights)
            elif room > 0:
                _teach(
                    transformer,
                    _safe_indexing(X, slice(0, room)),
                    None if y is None else _safe_indexing(y, slice(0, room)),
                    None if weights is None or weights.ndim == 0 else weights[:room],
                )
            X = transformer.transform(X)
        words: dict[str, Any] = {} if weights is None else {"sample_weight": weights}
        if classes is not None:
            words["classes"] = classes
        self.steps_[-1][1].partial_fit(X, y, **words)
        self.n_seen_ += n_rows

    def _learn_in_blocks(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None, n_rows: int
    ) -> None:
        """Learn a large batch behind fixed transformers; all of it or nothing."""
        transformers, learner = self.steps_[:-1], self.steps_[-1][1]
        seen = rows = transformers[0][1].partial_fit(X)._rows(X)
        for _, transformer in transformers:
            seen = transformer.partial_fit(seen[:1]).transform(seen[:1])
        labels = checked_labels(y)
        if len(labels) != n_rows:
            raise WrongShape(f"X has {n_rows} rows but y has {len(labels)} labels")
        weights = None if sample_weight is None else checked_weights(sample_weight, n_rows)
        registry = learner.registry_ if learner._is_begun() else Labels()
        learner._check_parameters()
        learner._welcome(registry, registry.encode(labels)[1])
        # Numbers so large that their features might overflow are checked together.
        size = BLOCK_ROWS if np.abs(rows).max() < LARGE else n_rows
        for part in in_blocks(n_rows, size):
            share = None if weights is None else weights[part]
            if share is None or share.any():
                learner.partial_fit(self._seen(rows[part]), labels[part], sample_weight=share)
        self.n_seen_ += n_rows

    def _seen(self, rows: Any) -> Any:
        """Rows after the transformers."""
        for _, transformer in self.steps_[:-1]:
            rows = transformer.transform(rows)
        return rows

    @property
    def exact_in_order(self) -> bool:
        maps = all(getattr(step, "row_by_row", False) for _, step in self.steps[:-1])
        return maps and bool(getattr(self.steps[-1][1], "exact_in_order", False))

    def _flush_waiting(self) -> None:
        learner = self._steps_now()[-1][1]
        if isinstance(learner, StreamingClassifier):
            learner._flush_waiting()

    def _learn_vector(self, x: ArrayLike, y: Label) -> None:
        learner = self._steps_now()[-1][1]
        ours = self._is_begun() and isinstance(learner, StreamingClassifier)
        if not ours or not learner._knows(y):
            row = _row(x, "learn_one")
            fresh = not self._is_begun()
            self._copy_on_write(
                lambda changed: changed._learn_batch(row, [y], None, None, fresh=fresh)
            )
            return
        vector: Any = as_numpy(x)
        adapting = self._room() > 0
        for _, transformer in self.steps_[:-1]:
            if adapting and hasattr(transformer, "learn_one"):
                transformer.learn_one(vector)
            elif adapting:
                transformer.partial_fit(_row(vector, "learn_one"))
            vector = _transformed_one(transformer, vector)
        learner.learn_one(vector, y)
        self.n_seen_ += 1

    def _knows(self, y: Label) -> bool:
        learner = self._steps_now()[-1][1]
        return isinstance(learner, StreamingClassifier) and learner._knows(y)

    def _forget_batch(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None) -> None:
        if not self._is_fixed():
            raise NotForgettable(
                "this pipeline cannot forget exactly: a transformer has learned from the examples, "
                "too; fit it again without them"
            )
        self._require_fitted()
        rows = self._seen(X)
        self.steps_[-1][1].forget(rows, y, sample_weight)
        self.n_seen_ -= int(rows.shape[0])

    def _forget_label(self, label: Label) -> None:
        if not self._is_fixed():
            raise NotForgettable(
                "this pipeline cannot forget a class exactly: a transformer has learned from its "
                "examples, too; fit it again without them"
            )
        self._require_fitted()
        self.steps_[-1][1].forget_class(label)

    def _merge_in(self, other: StreamingClassifier) -> None:
        assert isinstance(other, StreamPipeline)
        if not self._is_fixed():
            raise NotMergeable(
                "two pipelines with transformers that learn cannot be merged, because their "
                "learners use different axes; fit one set of transformers first and merge the "
                "learners behind it"
            )
        self._require_alike(other)
        if not other._is_begun():
            return
        if not self._is_begun():
            self.steps_ = copy.deepcopy(other.steps_)
            self.n_seen_ = other.n_seen_
            return
        self.steps_[-1][1].merge(other.steps_[-1][1])
        self.n_seen_ += other.n_seen_

    def _require_alike(self, other: "StreamPipeline") -> None:
        """Require the same steps with the same parameters and number of features."""
        ours, theirs = (_plain_parameters(pipeline) for pipeline in (self, other))
        for name in sorted(ours.keys() | theirs.keys()):
            here: Any = ours.get(name)
            there: Any = theirs.get(name)
            if not np.array_equal(here, there):
                raise NotMergeable(
                    f"{name} differs: {here!r} here, {there!r} there; pipelines must have the same "
                    "steps with the same parameters to be merged"
                )
        begun = self._is_begun() and other._is_begun()
        if begun and self.n_features_in_ != other.n_features_in_:
            raise NotMergeable(
                f"this pipeline was taught {self.n_features_in_} features, "
                f"the other {other.n_features_in_}"
            )

    def _is_fixed(self) -> bool:
        """Whether no transformer learns, so that the pipeline keeps its learner's promises."""
        transformers = [transformer for _, transformer in self.steps[:-1]]
        return bool(transformers) and all(isinstance(step, FixedMap) for step in transformers)

    def _decide(self, X: ArrayLike) -> Array:
        return self._asked(X, lambda learner, rows: learner.decision_function(rows))

    def _answer(self, X: ArrayLike, among: Iterable[Label] | None) -> NDArray[Any]:
        return self._asked(X, lambda learner, rows: learner.predict(rows, **_words(among)))

    def _answer_with_probabilities(self, X: ArrayLike, among: Iterable[Label] | None) -> Array:
        return self._asked(X, lambda learner, rows: learner.predict_proba(rows, **_words(among)))

    def _asked(self, X: Any, ask: Callable[[Any, Any], NDArray[Any]]) -> NDArray[Any]:
        """The learner's answers, block by block behind fixed transformers."""
        self._require_fitted()
        on_device = steps_on_device(self, X)
        if on_device is not None:
            found: NDArray[Any] = on_device.ask([step for _, step in self.steps_], X, ask)
            return found
        learner = self.steps_[-1][1]
        if not self._is_fixed() or _number_of_rows(X) <= BLOCK_ROWS:
            return ask(learner, self._seen(X))
        rows = self.steps_[0][1]._rows(X)
        parts = in_blocks(len(rows), BLOCK_ROWS)
        return np.concatenate([ask(learner, self._seen(rows[part])) for part in parts])

    def _answer_one(self, x: ArrayLike, among: Iterable[Label] | None) -> Label:
        self._require_fitted()
        vector: Any = as_numpy(x)
        for _, transformer in self.steps_[:-1]:
            vector = _transformed_one(transformer, vector)
        learner = self.steps_[-1][1]
        if hasattr(learner, "predict_one"):
            answer: Label = learner.predict_one(vector, **_words(among))
            return answer
        first: Label = learner.predict(_row(vector, "predict_one"), **_words(among))[0]
        return first

    def _room(self) -> int | float:
        """Number of further examples from which the transformers will learn."""
        return np.inf if self.freeze_after is None else max(0, self.freeze_after - self.n_seen_)

    def _steps_now(self) -> list[Step]:
        return getattr(self, "steps_", self.steps)

    def _taught(self, name: str) -> list[Step]:
        if not self._is_begun():
            raise AttributeError(f"{type(self).__name__} has no {name} before it is taught")
        return self.steps_

    def _is_begun(self) -> bool:
        return "steps_" in self.__dict__

    def _check_parameters(self) -> None:
        listed = isinstance(self.steps, (list, tuple)) and len(self.steps) > 0
        if not listed or not all(isinstance(s, (list, tuple)) and len(s) == 2 for s in self.steps):
            raise InvalidParameter(
                "steps must be a list of (name, estimator) with at least a learner"
            )
        names = [name for name, _ in self.steps]
        self._validate_names(names)
        for name, transformer in self.steps[:-1]:
            if not (hasattr(transformer, "partial_fit") and hasattr(transformer, "transform")):
                raise InvalidParameter(
                    f"step {name!r} is a {type(transformer).__name__}, which has no partial_fit or "
                    "no transform; every step before the last needs both"
                )
        name, learner = self.steps[-1]
        if not (hasattr(learner, "partial_fit") and hasattr(learner, "predict")):
            raise InvalidParameter(
                f"the last step, {name!r}, is a {type(learner).__name__}, which has no "
                "partial_fit or no predict; it should be a learner"
            )
        if self.freeze_after is not None and not (
            isinstance(self.freeze_after, (int, np.integer)) and self.freeze_after >= 1
        ):
            raise InvalidParameter(
                f"freeze_after must be an integer of at least 1, or None, not {self.freeze_after!r}"
            )


def _plain_parameters(pipeline: StreamPipeline) -> dict[str, Any]:
    """All parameters except the steps themselves, which are given by their classes."""
    found = {key: value for key, value in pipeline.get_params().items() if key != "steps"}
    return {
        key: type(value).__name__ if hasattr(value, "get_params") else value
        for key, value in found.items()
    }


def _teach(transformer: Any, X: Any, y: Any, weights: NDArray[Any] | None) -> None:
    if weights is not None and has_fit_parameter(transformer, "sample_weight"):
        transformer.partial_fit(X, y, sample_weight=weights)
    else:
        transformer.partial_fit(X, y)


def _copied_transformers(steps: list[Step]) -> list[Step]:
    return [*((name, copy.deepcopy(transformer)) for name, transformer in steps[:-1]), steps[-1]]


def _words(among: Iterable[Label] | None) -> dict[str, Any]:
    """Keyword arguments for ``among``, which learners of other libraries do not have."""
    return {} if among is None else {"among": among}


def _transformed_one(transformer: Any, vector: Any) -> Any:
    if hasattr(transformer, "transform_one"):
        return transformer.transform_one(vector)
    return transformer.transform(_row(vector, "transform"))[0, :]


def _row(x: Any, method: str) -> Any:
    row = x if lies_on_device(x) else as_numpy(x)
    if row.ndim != 1:
        raise WrongShape(f"{method} takes one vector, got an array of shape {row.shape}")
    return row[None, :]


def _number_of_rows(X: Any) -> int:
    try:
        return int(_num_samples(X))
    except TypeError as error:
        raise WrongShape(f"X must be rows of features: {error}") from None
