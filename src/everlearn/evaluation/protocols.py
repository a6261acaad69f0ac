"""Protocols: how a stream is learned, and when the estimator is tested.

    prequential     ask about every example, then learn it
    checkpointed    learn; at every n-th example, or at given positions, test on a test set

Any estimator with ``partial_fit``, and any of River's classifiers, can be evaluated. If an
estimator rejects a class, the run continues: the rejected examples are counted in ``rejected``,
with the error message.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from everlearn.arrays import Array
from everlearn.errors import InvalidParameter, WrongShape
from everlearn.evaluation.estimators import Adapter, adapted, warm_up
from everlearn.evaluation.metrics import accuracy, mistake_rate, per_class_accuracy
from everlearn.size import size_in_bytes
from everlearn.streams.examples import Examples, Indices

Progress = Callable[[int], None]
# Progress is reported in portions, so that it costs nothing per example.
PROGRESS_EVERY = 256
# A copy of the estimator learns this many examples before timing starts.
WARM_UP = 4


@dataclass
class Rejection:
    """Examples of a class that an estimator refused to learn, with the error message."""

    count: int
    reason: str


@dataclass(repr=False)
class Run:
    """The result of a prequential run.

    Attributes
    ----------
    truth, answers : ndarray
        One per example. An answer is None before the estimator has learned anything.
    asking, learning : ndarray of seconds, one per example
    n_bytes : memory of the estimator at the end
    rejected : what it refused to learn, by label
    """

    truth: NDArray[Any]
    answers: NDArray[Any]
    asking: Array
    learning: Array
    n_bytes: int
    rejected: dict[Any, Rejection] = field(default_factory=dict)

    def __repr__(self) -> str:
        refused = sum(rejection.count for rejection in self.rejected.values())
        told = f", {refused} refused" if refused else ""
        return f"<Run: {len(self.truth)} examples, {self.accuracy:.1%} right{told}>"

    @property
    def accuracy(self) -> float:
        return accuracy(self.truth, self.answers)

    @property
    def mistake_rate(self) -> Array:
        """The share of mistakes among the first n examples, for every n."""
        return mistake_rate(self.truth, self.answers)

    def as_row(self) -> dict[str, Any]:
        """The run in one row of a table."""
        return {
            "examples": len(self.truth),
            "accuracy": self.accuracy,
            "µs to ask": 1e6 * float(np.mean(self.asking)),
            "µs to learn": 1e6 * float(np.mean(self.learning)),
            "bytes": self.n_bytes,
            "rejected": sum(rejection.count for rejection in self.rejected.values()),
        }


@dataclass(repr=False)
class Curve:
    """The result of a checkpointed run; every list has one entry per checkpoint.

    Attributes
    ----------
    seen : number of examples learned
    accuracies : on the test set, or on its part with classes seen
    per_class : by class in the order of ``classes``; NaN for classes not tested
    learning : seconds of learning since the previous checkpoint
    n_bytes : memory of the estimator
    rejected : examples it refused to learn, by label
    """

    classes: NDArray[Any]
    seen: list[int] = field(default_factory=list)
    accuracies: list[float] = field(default_factory=list)
    per_class: list[Array] = field(default_factory=list)
    learning: list[float] = field(default_factory=list)
    n_bytes: list[int] = field(default_factory=list)
    rejected: dict[Any, Rejection] = field(default_factory=dict)

    def __repr__(self) -> str:
        if not self.seen:
            return "<Curve: no checkpoint yet>"
        return (
            f"<Curve: {len(self.seen)} checkpoints, {self.accuracies[-1]:.1%} right after "
            f"{self.seen[-1]} examples>"
        )

    def as_rows(self) -> list[dict[str, Any]]:
        """The run as rows of a table."""
        names = ("seen", "accuracy", "seconds learning", "bytes")
        columns = (self.seen, self.accuracies, self.learning, self.n_bytes)
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def prequential(
    estimator: Any,
    X: ArrayLike,
    y: ArrayLike,
    *,
    order: Indices | None = None,
    classes: Sequence[Any] | None = None,
    stops: Sequence[int] = (),
    at_stop: Callable[[int], object] | None = None,
    progress: Progress | None = None,
) -> Run:
    """Ask about every example, then learn it.

    Measuring costs a few microseconds per example.

    Parameters
    ----------
    estimator : anything with ``partial_fit`` and ``predict``, or a River classifier
    X, y : the examples
    order : positions, for instance from :mod:`everlearn.streams.orderings`; by default as given
    classes : passed to estimators that need them up front; defaults to all classes
    stops, at_stop : ``at_stop`` is called after each of these numbers of examples, for instance to
        use a test set; its time is not counted
    progress : called with the number of examples done since the last call

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from everlearn import NearestClassMean
    >>> from everlearn.evaluation import prequential
    >>> from everlearn.streams import iid
    >>> X, y = load_digits(return_X_y=True)
    >>> run = prequential(NearestClassMean(), X, y, order=iid(y, seed=0))
    >>> bool(run.accuracy > 0.85)
    True
    """
    rows, labels = _validated(X, y)
    order = np.arange(len(rows)) if order is None else order
    adapter = adapted(estimator, labels if classes is None else classes)  # type: ignore[arg-type]
    n = len(order)
    truth = labels[order]
    answers: list[Any] = [None] * n
    ticks = np.empty((n, 3))
    rejected: dict[Any, Rejection] = {}
    warm_up(estimator, rows[order[:WARM_UP]], truth[:WARM_UP])
    ask, learn = adapter.predict_one, adapter.learn_one
    taught = False
    names = truth.tolist()
    pauses = set(_checkpoints(stops, n)) if len(stops) else set()
    for start, stop in pairwise(sorted({*range(0, n, PROGRESS_EVERY), *pauses, n})):
        for step in range(start, stop):
            x = rows[order[step]]
            begin = perf_counter()
            if taught:
                answers[step] = ask(x)
            middle = perf_counter()
            try:
                learn(x, names[step])
                taught = True
            except ValueError as error:
                _count_rejection(rejected, names[step], 1, error)
            ticks[step] = begin, middle, perf_counter()
        if stop in pauses and at_stop:
            at_stop(stop)
        if progress:
            progress(stop - start)
    given = np.empty(n, dtype=object)
    given[:] = answers
    asking, learning = np.diff(ticks, axis=1).T
    return Run(truth, given, asking, learning, size_in_bytes(estimator), rejected)


def checkpointed(
    estimator: Any,
    train: Examples,
    test: Examples,
    order: Indices,
    *,
    every: int | Sequence[int],
    base: int = 0,
    batch: int = 1,
    only_seen: bool = False,
    classes: Sequence[Any] | None = None,
    score: Callable[[Any, Examples], float] | None = None,
    progress: Progress | None = None,
) -> Curve:
    """Learn a stream; at checkpoints, test on a test set.

    Parameters
    ----------
    estimator : anything with ``partial_fit`` and ``predict``, or a River classifier
    train, test : Examples
    order : positions in ``train``
    every : int n: a checkpoint after every n examples and at the end; or a list of positions
    base : number of examples learned in one first call (base initialisation)
    batch : number of examples per call after that; 1 teaches one by one
    only_seen : test only on classes that were already learned
    classes : passed to estimators that need them up front; defaults to all classes
    score : (estimator, test examples) → number, instead of the accuracy (top-5, with task labels)
    progress : called with the number of examples done since the last call
    """
    stops = _checkpoints(every, len(order))
    known = train.classes if classes is None else classes
    adapter = adapted(estimator, known)  # type: ignore[arg-type]
    curve = Curve(np.unique(np.concatenate([train.classes, test.classes])))
    position, taught = 0, False
    for stop in stops:
        begin = perf_counter()
        for chosen in _batches(order, position, stop, base, batch):
            taught = _learn_batch(adapter, train.take(chosen), curve.rejected) or taught
        curve.learning.append(perf_counter() - begin)
        asked = _of_seen_classes(test, train.y[order[:stop]]) if only_seen else test
        if taught:
            _test(curve, estimator, adapter, asked, score)
        else:  # everything was rejected so far
            nothing = np.full(len(asked), None)
            curve.per_class.append(per_class_accuracy(asked.y, nothing, curve.classes))
            curve.accuracies.append(0.0)
        curve.seen.append(stop)
        curve.n_bytes.append(size_in_bytes(estimator))
        if progress:
            progress(stop - position)
        position = stop
    return curve


def _batches(order: Indices, position: int, stop: int, base: int, batch: int) -> list[Indices]:
    parts = []
    if position < base:
        parts.append(order[position : min(base, stop)])
        position = min(base, stop)
    return parts + [order[i : min(i + batch, stop)] for i in range(position, stop, batch)]


def _learn_batch(adapter: Adapter, examples: Examples, rejected: dict[Any, Rejection]) -> bool:
    """Learn some examples; if they are rejected, class by class, to find out which class it is.

    Returns whether anything was learned.
    """
    try:
        if len(examples) == 1:
            adapter.learn_one(examples.X[0], examples.y[0].item())
        else:
            adapter.learn(examples.X, examples.y)
        return True
    except ValueError as error:
        if len(examples.classes) == 1:
            _count_rejection(rejected, examples.y[0].item(), len(examples), error)
            return False
    taught = False
    for label in examples.classes:
        taught = _learn_batch(adapter, examples.take(examples.y == label), rejected) or taught
    return taught


def _test(
    curve: Curve,
    estimator: Any,
    adapter: Adapter,
    asked: Examples,
    score: Callable[[Any, Examples], float] | None,
) -> None:
    answers = adapter.predict(asked.X) if len(asked) else asked.y
    curve.per_class.append(per_class_accuracy(asked.y, answers, curve.classes))
    curve.accuracies.append(score(estimator, asked) if score else accuracy(asked.y, answers))


def _of_seen_classes(test: Examples, seen: NDArray[Any]) -> Examples:
    return test.take(np.isin(test.y, np.unique(seen)))


def _checkpoints(every: int | Sequence[int], n: int) -> list[int]:
    if isinstance(every, (int, np.integer)):
        step = int(every)
        if step < 1:
            raise InvalidParameter(f"every must be 1 or more, not {step}")
        return [*range(step, n, step), n]
    stops = sorted({int(stop) for stop in every})
    if not stops or stops[0] < 1 or stops[-1] > n:
        raise InvalidParameter(f"checkpoints must be between 1 and {n} examples, not {stops}")
    return stops


def _validated(X: ArrayLike, y: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    rows, labels = np.asarray(X), np.asarray(y)
    if rows.ndim < 2:
        raise WrongShape(
            "X must be a table, one row of features per example; convert dictionaries to rows "
            "first, for instance with pandas.DataFrame(X).to_numpy()"
        )
    if len(rows) != len(labels):
        raise WrongShape(f"X has {len(rows)} rows but y has {len(labels)} labels")
    if rows.dtype.kind in "iubf":
        rows = np.ascontiguousarray(rows, dtype=np.float64)
    return rows, labels


def _count_rejection(
    rejected: dict[Any, Rejection], label: Any, count: int, error: Exception
) -> None:
    rejection = rejected.setdefault(label, Rejection(0, str(error).strip().splitlines()[0]))
    rejection.count += count
