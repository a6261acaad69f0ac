"""Transformers and a final learner, taught as one.

Scikit-learn's Pipeline has no ``partial_fit``. In this one every step has it: each transformer
learns from a block, then passes the block, transformed, to the next step; the learner at the end
gets the labels. It is a learner itself: what the final one can be asked, the whole can.

A transformer that keeps learning keeps changing what it says about the same example, while the
learner behind it remembers what it said before. A scaler settles soon; the axes of an eigenspace
turn, and change places, for a long time, unless they are asked to be steady. ``freeze_after`` ends
the transformers' learning once they have seen enough; from then on the learner behind them lives in
a fixed space.
"""

import copy
from collections.abc import Callable, Iterable
from typing import Any, NoReturn, Self, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import _safe_indexing
from sklearn.utils.metaestimators import _BaseComposition, available_if
from sklearn.utils.validation import _num_samples, has_fit_parameter

from everlearn.base import Array, Promise, State, StreamingClassifier
from everlearn.errors import InvalidParameter, NotForgettable, NotMergeable, WrongShape
from everlearn.statistics.labels import Label

Step = tuple[str, Any]
Method = TypeVar("Method", bound=Callable[..., Any])


def _where_learner_has(method: str) -> Callable[[Method], Method]:
    """Give the pipeline a method only where its last step has it."""

    def check(pipeline: "StreamPipeline") -> bool:
        return hasattr(pipeline._steps_now()[-1][1], method)

    return cast(Callable[[Method], Method], available_if(check))


class StreamPipeline(ClassifierMixin, _BaseComposition, BaseEstimator):  # type: ignore[misc]
    """A chain of transformers and a learner, each taught by ``partial_fit``.

    Parameters
    ----------
    steps : list of (name, estimator)
        The last is the learner, the others are transformers. All have ``partial_fit``.
    freeze_after : int, optional
        After so many examples the transformers stop learning. By default they never do.

    Attributes
    ----------
    steps_ : list of (name, estimator)
        The steps as taught; those in ``steps`` are never changed.
    named_steps : dict
        The steps as taught, by name.
    classes_ : ndarray
    n_features_in_ : int
    n_seen_ : int
        How many examples were learned.

    See Also
    --------
    sklearn.pipeline.Pipeline : For everything that is fitted once.

    Notes
    -----
    ``forget``, ``forget_class`` and ``merge`` are refused: the transformers have learned from the
    same examples, and what the learner has added up was measured along axes that moved since.

    A transformer that adapts moves the ground under the learner: let an eigenspace measure along
    ``axes="steady"``, or freeze it after a while.

    A batch that the learner refuses leaves the transformers as they were.

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
        """Parameters, those of the steps included."""
        return dict(self._get_params("steps", deep=deep))

    def set_params(self, **parameters: Any) -> Self:
        """Set parameters; a step's parameter is named ``step__parameter``."""
        self._set_params("steps", **parameters)
        return self

    @property
    def named_steps(self) -> dict[str, Any]:
        return dict(self._steps_now())

    # Learning.

    @property
    def promises(self) -> frozenset[Promise]:
        """Nothing beyond the contract: the transformers learn, too."""
        return frozenset()

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Forget everything, then learn from these examples.

        Parameters
        ----------
        X : array-like of shape (n_examples, n_features)
        y : array-like of shape (n_examples,)
        sample_weight : array-like of shape (n_examples,), optional
            Given to the learner, and to the transformers that know weights.
        """
        self._learn(self._fresh_steps(), 0, X, y, sample_weight)
        return self

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: Iterable[Label] | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn from more examples: first the transformers, then the learner.

        Parameters as in ``fit``; ``classes`` is given to learners other than everlearn's, which
        may want to know all labels up front.
        """
        if not hasattr(self, "steps_"):
            self._learn(self._fresh_steps(), 0, X, y, sample_weight, classes)
        else:
            # Copied, so that the learner at the end can still refuse.
            steps = self.steps_ if self._room() == 0 else _copied_transformers(self.steps_)
            self._learn(steps, self.n_seen_, X, y, sample_weight, classes)
        return self

    def learn_one(self, x: ArrayLike, y: Label) -> Self:
        """Learn one example; the fast path."""
        learner = self._steps_now()[-1][1]
        if not (hasattr(self, "steps_") and isinstance(learner, StreamingClassifier)):
            return self.partial_fit(_row(x, "learn_one"), [y])
        learner.labels_.encode([y])  # refuses what the learner would refuse later
        vector: Any = x
        adapting = self._room() > 0
        for _, transformer in self.steps_[:-1]:
            if adapting and hasattr(transformer, "learn_one"):
                transformer.learn_one(vector)
            elif adapting:
                transformer.partial_fit(_row(vector, "learn_one"))
            vector = _transformed_one(transformer, vector)
        learner.learn_one(vector, y)
        self.n_seen_ += 1
        return self

    def forget(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> NoReturn:
        """Not possible: see Notes."""
        raise NotForgettable(
            "a pipeline cannot forget exactly: its transformers have learned from the examples, "
            "too; fit it anew without them"
        )

    def forget_class(self, label: Label) -> NoReturn:
        """Not possible: see Notes."""
        raise NotForgettable(
            "a pipeline cannot forget a class exactly: its transformers have learned from its "
            "examples, too; fit it anew without them"
        )

    def merge(self, other: "StreamPipeline") -> NoReturn:
        """Not possible: see Notes."""
        raise NotMergeable(
            "two pipelines cannot be merged: each learner counts along the axes of its own "
            "transformers; fit one set of transformers first and merge learners behind it"
        )

    # Asking.

    @_where_learner_has("decision_function")
    def decision_function(self, X: ArrayLike) -> Array:
        """The learner's scores of the transformed rows."""
        learner, rows = self._before_learner(X)
        scores: Array = learner.decision_function(rows)
        return scores

    def predict(self, X: ArrayLike, **words: Any) -> NDArray[Any]:
        """The most likely class of each row; words (``among=``) go to the learner."""
        learner, rows = self._before_learner(X)
        answers: NDArray[Any] = learner.predict(rows, **words)
        return answers

    @_where_learner_has("predict_proba")
    def predict_proba(self, X: ArrayLike, **words: Any) -> Array:
        """Probabilities, one column per class in the order of ``classes_``."""
        learner, rows = self._before_learner(X)
        probabilities: Array = learner.predict_proba(rows, **words)
        return probabilities

    def predict_one(self, x: ArrayLike, **words: Any) -> Label:
        """The most likely class of one vector; the fast path."""
        self._require_fitted()
        vector: Any = x
        for _, transformer in self.steps_[:-1]:
            vector = _transformed_one(transformer, vector)
        learner = self.steps_[-1][1]
        if hasattr(learner, "predict_one"):
            answer: Label = learner.predict_one(vector, **words)
            return answer
        first: Label = learner.predict(_row(vector, "predict_one"), **words)[0]
        return first

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes known, sorted."""
        classes: NDArray[Any] = self._taught("classes_")[-1][1].classes_
        return classes

    @property
    def n_features_in_(self) -> int:
        return int(self._taught("n_features_in_")[0][1].n_features_in_)

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        names: NDArray[Any] = self._taught("feature_names_in_")[0][1].feature_names_in_
        return names

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "steps_")

    # What persistence asks of anything it saves.

    def _state(self) -> State:
        if not hasattr(self, "steps_"):
            return {}, {"taught": False}
        learners = [estimator for _, estimator in self.steps_]
        return {}, {"taught": True, "learners": learners, "n_seen": self.n_seen_}

    def _restore(self, arrays: dict[str, NDArray[Any]], notes: dict[str, Any]) -> None:
        if notes["taught"]:
            names = [name for name, _ in self.steps]
            self.steps_ = list(zip(names, notes["learners"], strict=True))
            self.n_seen_ = int(notes["n_seen"])

    # Inside.

    def _learn(
        self,
        steps: list[Step],
        n_seen: int,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None,
        classes: Iterable[Label] | None = None,
    ) -> None:
        n_rows = _number_of_rows(X)
        room = n_rows if self.freeze_after is None else min(n_rows, self.freeze_after - n_seen)
        weights = None if sample_weight is None else np.asarray(sample_weight)
        for _, transformer in steps[:-1]:
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
        learner = steps[-1][1]
        words: dict[str, Any] = {} if weights is None else {"sample_weight": weights}
        if classes is not None:
            words["classes"] = classes
        learner.partial_fit(X, y, **words)
        self.steps_ = steps
        self.n_seen_ = n_seen + n_rows

    def _before_learner(self, X: Any) -> tuple[Any, Any]:
        self._require_fitted()
        for _, transformer in self.steps_[:-1]:
            X = transformer.transform(X)
        return self.steps_[-1][1], X

    def _room(self) -> int | float:
        """From how many further examples the transformers will learn."""
        return np.inf if self.freeze_after is None else max(0, self.freeze_after - self.n_seen_)

    def _steps_now(self) -> list[Step]:
        return getattr(self, "steps_", self.steps)

    def _taught(self, name: str) -> list[Step]:
        if not hasattr(self, "steps_"):
            raise AttributeError(f"{type(self).__name__} has no {name} before it is taught")
        return self.steps_

    def _require_fitted(self) -> None:
        if not hasattr(self, "steps_"):
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet: it was taught nothing. "
                "Call partial_fit or learn_one first."
            )

    def _fresh_steps(self) -> list[Step]:
        """Untaught copies of the steps, after a look at them."""
        if not isinstance(self.steps, (list, tuple)) or len(self.steps) == 0:
            raise InvalidParameter("steps is a list of (name, estimator) with at least a learner")
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
                f"freeze_after is a whole number of at least 1, or None, not {self.freeze_after!r}"
            )
        return [(name, clone(estimator)) for name, estimator in self.steps]


def _teach(transformer: Any, X: Any, y: Any, weights: NDArray[Any] | None) -> None:
    if weights is not None and has_fit_parameter(transformer, "sample_weight"):
        transformer.partial_fit(X, y, sample_weight=weights)
    else:
        transformer.partial_fit(X, y)


def _copied_transformers(steps: list[Step]) -> list[Step]:
    return [*((name, copy.deepcopy(transformer)) for name, transformer in steps[:-1]), steps[-1]]


def _transformed_one(transformer: Any, vector: Any) -> Any:
    if hasattr(transformer, "transform_one"):
        return transformer.transform_one(vector)
    return transformer.transform(_row(vector, "transform"))[0]


def _row(x: Any, method: str) -> NDArray[Any]:
    row = np.asarray(x)
    if row.ndim != 1:
        raise WrongShape(f"{method} takes one vector, got an array of shape {row.shape}")
    return row[None]


def _number_of_rows(X: Any) -> int:
    try:
        return int(_num_samples(X))
    except TypeError as error:
        raise WrongShape(f"X should be rows of features: {error}") from None
