"""The contract of a streaming learner, as a suite anyone can run on their own estimator.

    >>> from everlearn import NearestClassMean, check_learner
    >>> results = check_learner(NearestClassMean())

Every check is a function named after the promise it tests. Some promises are made by every
learner; others only by those that say so in ``promises`` (see :class:`everlearn.base.Promise`), or
that have the method in question. What does not apply is reported as skipped, with the reason.
"""

import copy
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from everlearn.base import Promise
from everlearn.errors import CannotSave, CheckFailed, EverlearnError
from everlearn.persistence import load, save

Array = NDArray[np.float64]
Check = Callable[[Any, "Stream"], None]

# Scores of two learners that should be the same may differ by this much, relative to their size.
TOLERANCE = 1e-9
FORGET_TOLERANCE = 1e-8

CHECKS: list[Check] = []


class NotApplicable(Exception):
    """A check that this learner makes no promise about."""


@dataclass(frozen=True)
class CheckResult:
    """What became of one check."""

    name: str
    status: str  # "passed", "failed" or "skipped"
    reason: str = ""


@dataclass(frozen=True)
class Stream:
    """Examples to check with: four Gaussian classes in a random order, and others to ask about."""

    X: Array
    y: NDArray[Any]
    X_new: Array

    @classmethod
    def generate(cls, seed: int, n_classes: int) -> "Stream":
        rng = np.random.default_rng(seed)
        names = np.array(["cup", "chair", "apple", "lamp"][:n_classes])
        centres = 4.0 * rng.normal(size=(n_classes, 6))
        y = rng.permutation(np.repeat(np.arange(n_classes), 60 // n_classes))
        mixing = np.eye(6) + 0.3 * rng.normal(size=(6, 6))
        X = centres[y] + rng.normal(size=(len(y), 6)) @ mixing
        X_new = centres[y] + rng.normal(size=(len(y), 6)) @ mixing
        return cls(X, names[y], X_new)


def check_learner(learner: Any, *, on_fail: str = "raise", seed: int = 0) -> list[CheckResult]:
    """Check that an estimator keeps the contract of a streaming learner.

    Parameters
    ----------
    learner : estimator
        Anything with ``partial_fit`` and ``predict``; it is cloned, not changed. Estimators that
        classify two classes only are checked with two.
    on_fail : {"raise", "report"}, default="raise"
        Raise ``CheckFailed`` at the first broken promise, or go on and report all.
    seed : int
        For the examples to check with.

    Returns
    -------
    list of CheckResult
        Name, status ("passed", "failed", "skipped") and reason of each check.
    """
    if on_fail not in ("raise", "report"):
        raise ValueError(f"on_fail is 'raise' or 'report', not {on_fail!r}")
    stream = Stream.generate(seed, n_classes=2 if _two_classes_only(learner) else 4)
    results = []
    for check in CHECKS:
        name = check.__name__
        try:
            check(clone(learner), stream)
        except NotApplicable as reason:
            results.append(CheckResult(name, "skipped", str(reason)))
        except Exception as error:
            text = f"{type(learner).__name__} broke {name}: {error}"
            if on_fail == "raise":
                raise CheckFailed(text) from error
            results.append(CheckResult(name, "failed", text))
        else:
            results.append(CheckResult(name, "passed"))
    return results


def _check(function: Check) -> Check:
    CHECKS.append(function)
    return function


# Learning.


@_check
def learns_what_it_is_taught(learner: Any, stream: Stream) -> None:
    _taught(learner, stream)
    _require(np.mean(learner.predict(stream.X_new) == stream.y) > 0.8, "it learned almost nothing")


@_check
def partial_fit_returns_the_learner(learner: Any, stream: Stream) -> None:
    _require(learner.partial_fit(stream.X, stream.y) is learner, "partial_fit returned another")


@_check
def needs_no_list_of_classes(learner: Any, stream: Stream) -> None:
    first = stream.y == stream.y[0]
    learner.partial_fit(stream.X[first], stream.y[first])
    _require(_answers(learner, stream) == {stream.y[0]}, "it predicted a class it never saw")


@_check
def learns_a_new_class_at_any_time(learner: Any, stream: Stream) -> None:
    late = stream.y == stream.y[0]
    learner.partial_fit(stream.X[~late], stream.y[~late])
    learner.partial_fit(stream.X[late], stream.y[late])
    hits = learner.predict(stream.X_new[late]) == stream.y[0]
    _require(np.mean(hits) > 0.8, "a class that came later was not learned")


@_check
def forgets_nothing_old_when_it_learns_something_new(learner: Any, stream: Stream) -> None:
    late = stream.y == stream.y[0]
    learner.partial_fit(stream.X[~late], stream.y[~late])
    learner.partial_fit(stream.X[late], stream.y[late])
    hits = learner.predict(stream.X_new[~late]) == stream.y[~late]
    _require(np.mean(hits) > 0.8, "what was learned first is gone")


@_check
def knows_a_class_from_its_first_example(learner: Any, stream: Stream) -> None:
    late = stream.y == stream.y[0]
    learner.partial_fit(stream.X[~late], stream.y[~late])
    learner.partial_fit(stream.X[late][:1], stream.y[late][:1])
    _require(stream.y[0] in list(learner.classes_), "one example did not make a class")


@_check
def never_predicts_a_class_never_taught(learner: Any, stream: Stream) -> None:
    known = stream.y != stream.y[0]
    learner.partial_fit(stream.X[known], stream.y[known], classes=np.unique(stream.y))
    _require(stream.y[0] not in _answers(learner, stream), "it predicted a class it never saw")


@_check
def classes_are_sorted(learner: Any, stream: Stream) -> None:
    _taught(learner, stream)
    _require_equal(learner.classes_, np.unique(stream.y), "classes_ are not the sorted labels")


@_check
def fit_forgets_what_was_before(learner: Any, stream: Stream) -> None:
    fresh = clone(learner).fit(stream.X, stream.y)
    learner.fit(stream.X_new, np.full(len(stream.y), "other"))
    learner.fit(stream.X, stream.y)
    _require_same_scores(learner, fresh, stream, "fit depends on what was learned before")


@_check
def accepts_whole_numbers_as_labels(learner: Any, stream: Stream) -> None:
    numbers = np.unique(stream.y, return_inverse=True)[1] * 10
    answers = learner.partial_fit(stream.X, numbers).predict(stream.X_new)
    _require(set(answers.tolist()) <= set(numbers.tolist()), "labels came back as something else")


@_check
def labels_keep_their_type(learner: Any, stream: Stream) -> None:
    _taught(learner, stream)
    _require(all(isinstance(a, str) for a in learner.predict(stream.X)), "words are no words now")


@_check
def accepts_single_precision(learner: Any, stream: Stream) -> None:
    learner.partial_fit(stream.X.astype(np.float32), stream.y)
    _require(np.mean(learner.predict(stream.X_new) == stream.y) > 0.8, "float32 was not learned")


# One at a time.


@_check
def learn_one_teaches(learner: Any, stream: Stream) -> None:
    _need_method(learner, "learn_one")
    for x, label in zip(stream.X, stream.y.tolist(), strict=True):
        _require(learner.learn_one(x, label) is learner, "learn_one returned another object")
    _require(np.mean(learner.predict(stream.X_new) == stream.y) > 0.8, "learn_one taught nothing")


@_check
def predict_one_agrees_with_predict(learner: Any, stream: Stream) -> None:
    _need_method(learner, "predict_one")
    _taught(learner, stream)
    one_by_one = [learner.predict_one(x) for x in stream.X_new]
    _require_equal(one_by_one, learner.predict(stream.X_new), "predict_one and predict differ")


@_check
def batch_equals_loop(learner: Any, stream: Stream) -> None:
    _need_promise(learner, Promise.BATCH_IS_LOOP)
    loop = clone(learner)
    for x, label in zip(stream.X, stream.y.tolist(), strict=True):
        loop.learn_one(x, label)
    _require_same_scores(_taught(learner, stream), loop, stream, "a batch is not its loop")


@_check
def batches_of_any_size_are_the_same(learner: Any, stream: Stream) -> None:
    _need_promise(learner, Promise.BATCH_IS_LOOP)
    parts = clone(learner)
    for start, end in ((0, 1), (1, 4), (4, 40), (40, len(stream.y))):
        parts.partial_fit(stream.X[start:end], stream.y[start:end])
    _require_same_scores(_taught(learner, stream), parts, stream, "the size of batches matters")


@_check
def any_order_gives_the_same_learner(learner: Any, stream: Stream) -> None:
    _need_promise(learner, Promise.ANY_ORDER)
    other = clone(learner)
    order = np.argsort(stream.y, kind="stable")[::-1]
    other.partial_fit(stream.X[order], stream.y[order])
    _require_same_scores(_taught(learner, stream), other, stream, "the order of examples matters")


@_check
def asking_in_between_changes_nothing(learner: Any, stream: Stream) -> None:
    asked = clone(learner)
    for start in range(0, len(stream.y), 10):
        for each in (learner, asked):
            each.partial_fit(stream.X[start : start + 10], stream.y[start : start + 10])
        asked.predict(stream.X_new)
        if hasattr(asked, "predict_one"):
            asked.predict_one(stream.X_new[0])
    _require_same_scores(learner, asked, stream, "being asked changed what it learned")


# Asking.


@_check
def cannot_be_asked_before_it_is_taught(learner: Any, stream: Stream) -> None:
    for ask in ("predict", "predict_proba", "decision_function"):
        if hasattr(learner, ask):
            _require_raises(NotFittedError, getattr(learner, ask), stream.X)
    if hasattr(learner, "predict_one"):
        _require_raises(NotFittedError, learner.predict_one, stream.X[0])


@_check
def prediction_is_pure(learner: Any, stream: Stream) -> None:
    _taught(learner, stream)
    first = _scores(learner, stream.X_new)
    for _ in range(3):
        learner.predict(stream.X)
        learner.predict(stream.X[:1])
    _require_equal(_scores(learner, stream.X_new), first, "asking twice gave two answers")


@_check
def prediction_of_a_row_does_not_depend_on_the_others(learner: Any, stream: Stream) -> None:
    _taught(learner, stream)
    alone = np.concatenate([learner.predict(x[None]) for x in stream.X_new])
    _require_equal(alone, learner.predict(stream.X_new), "the answer depends on the batch")


@_check
def probabilities_are_probabilities(learner: Any, stream: Stream) -> None:
    _need_method(learner, "predict_proba")
    p = _taught(learner, stream).predict_proba(stream.X_new)
    _require(p.shape == (len(stream.y), len(learner.classes_)), "not one column per class")
    _require(np.all(p >= 0) and np.allclose(p.sum(axis=1), 1.0), "rows do not sum to one")
    _require_equal(
        learner.classes_[p.argmax(axis=1)],
        learner.predict(stream.X_new),
        "the most probable class is not the answer",
    )


@_check
def answers_only_among_candidates(learner: Any, stream: Stream) -> None:
    _taught(learner, stream)
    candidates = learner.classes_[:2].tolist()
    try:
        answers = learner.predict(stream.X_new, among=candidates)
    except TypeError:
        raise NotApplicable("predict has no candidate mask (among=)") from None
    _require(set(answers.tolist()) <= set(candidates), "an answer is not among the candidates")
    full = learner.predict(stream.X_new)
    inside = np.isin(full, candidates)
    _require_equal(answers[inside], full[inside], "the mask changed an answer inside it")


# Forgetting and merging.


@_check
def learn_then_forget_equals_never_learned(learner: Any, stream: Stream) -> None:
    _need_promise(learner, Promise.FORGET)
    kept = np.arange(len(stream.y)) % 3 != 0
    never = clone(learner).partial_fit(stream.X[kept], stream.y[kept])
    _taught(learner, stream).forget(stream.X[~kept], stream.y[~kept])
    _require_same_scores(learner, never, stream, "something forgotten is left", FORGET_TOLERANCE)


@_check
def forgetting_while_being_asked_is_exact(learner: Any, stream: Stream) -> None:
    _need_promise(learner, Promise.FORGET)
    never = clone(learner).partial_fit(stream.X[30:], stream.y[30:])
    _taught(learner, stream)
    for x, label in zip(stream.X[:30], stream.y[:30], strict=True):
        learner.predict_one(x)
        learner.forget(x[None], [label])
    _require_same_scores(learner, never, stream, "something forgotten is left", FORGET_TOLERANCE)


@_check
def forgetting_all_of_a_class_removes_it(learner: Any, stream: Stream) -> None:
    _need_promise(learner, Promise.FORGET)
    gone = stream.y == stream.y[0]
    never = clone(learner).partial_fit(stream.X[~gone], stream.y[~gone])
    _taught(learner, stream).forget(stream.X[gone], stream.y[gone])
    _require(stream.y[0] not in list(learner.classes_), "the class is still known")
    _require_same_scores(learner, never, stream, "something forgotten is left", FORGET_TOLERANCE)


@_check
def forget_class_equals_never_learned(learner: Any, stream: Stream) -> None:
    _need_promise(learner, Promise.FORGET_CLASS)
    gone = stream.y == stream.y[0]
    never = clone(learner).partial_fit(stream.X[~gone], stream.y[~gone])
    _taught(learner, stream).forget_class(stream.y[0])
    _require(stream.y[0] not in list(learner.classes_), "the class is still known")
    _require_same_scores(learner, never, stream, "something forgotten is left", FORGET_TOLERANCE)


@_check
def forgetting_everything_starts_anew(learner: Any, stream: Stream) -> None:
    _need_promise(learner, Promise.FORGET)
    fresh = _taught(clone(learner), stream)
    _taught(learner, stream).forget(stream.X, stream.y)
    _require_raises(NotFittedError, learner.predict, stream.X)
    _require_same_scores(_taught(learner, stream), fresh, stream, "old rounding is left")


@_check
def what_was_not_learned_cannot_be_forgotten(learner: Any, stream: Stream) -> None:
    _need_promise(learner, Promise.FORGET)
    _taught(learner, stream)
    before = _scores(learner, stream.X_new)
    _require_raises(EverlearnError, learner.forget, stream.X[:1], ["unheard of"])
    twice = np.concatenate([stream.X, stream.X]), np.concatenate([stream.y, stream.y])
    _require_raises(EverlearnError, learner.forget, *twice)
    _require_equal(_scores(learner, stream.X_new), before, "a refused forget changed the learner")


@_check
def merged_shards_equal_one_stream(learner: Any, stream: Stream) -> None:
    _need_promise(learner, Promise.MERGE)
    whole = _taught(clone(learner), stream)
    for shard in np.array_split(np.arange(len(stream.y)), 7):
        learner.merge(clone(learner).partial_fit(stream.X[shard], stream.y[shard]))
    _require_same_scores(learner, whole, stream, "merged shards are not the whole stream")


@_check
def merging_leaves_the_other_learner_alone(learner: Any, stream: Stream) -> None:
    _need_promise(learner, Promise.MERGE)
    other = clone(learner).partial_fit(stream.X[:30], stream.y[:30])
    before = _scores(other, stream.X_new)
    learner.partial_fit(stream.X[30:], stream.y[30:]).merge(other)
    learner.partial_fit(stream.X[:5], stream.y[:5])
    _require_equal(_scores(other, stream.X_new), before, "the merged learner changed")


@_check
def unlike_learners_do_not_merge(learner: Any, stream: Stream) -> None:
    _need_promise(learner, Promise.MERGE)
    _taught(learner, stream)
    before = _scores(learner, stream.X_new)
    narrow = clone(learner).partial_fit(stream.X[:, :3], stream.y)
    numbers = clone(learner).partial_fit(stream.X, np.unique(stream.y, return_inverse=True)[1])
    for other in (narrow, numbers, object(), learner):
        _require_raises(EverlearnError, learner.merge, other)
    _require_equal(_scores(learner, stream.X_new), before, "a refused merge changed the learner")


# Bad input and memory.


@_check
def a_bad_batch_leaves_the_state_unchanged(learner: Any, stream: Stream) -> None:
    _taught(learner, stream)
    before = _scores(learner, stream.X_new)
    for X, y in _bad_batches(stream):
        _require_raises((ValueError, TypeError), learner.partial_fit, X, y)
        _require_raises((ValueError, TypeError), clone(learner).partial_fit, X, y)
    wide = np.concatenate([stream.X, stream.X], axis=1)
    _require_raises(ValueError, learner.partial_fit, wide, np.full(len(wide), "new"))
    _require_equal(learner.classes_, np.unique(stream.y), "a refused batch left a label behind")
    _require_equal(_scores(learner, stream.X_new), before, "a refused batch changed the learner")


@_check
def a_bad_vector_leaves_the_state_unchanged(learner: Any, stream: Stream) -> None:
    _need_method(learner, "learn_one")
    _taught(learner, stream)
    before = _scores(learner, stream.X_new)
    x = stream.X[0]
    holed = np.where(np.arange(len(x)) == 2, np.nan, x)
    for bad in (x[:-1], x[None], holed, np.full(len(x), np.inf), x.astype(complex), ["a"] * len(x)):
        _require_raises((ValueError, TypeError), learner.learn_one, bad, stream.y[0])
        _require_raises((ValueError, TypeError), learner.predict_one, bad)
    for bad_label in (None, float("nan"), 0.5, 3, [stream.y[0]]):
        _require_raises((ValueError, TypeError), learner.learn_one, x, bad_label)
    _require_equal(_scores(learner, stream.X_new), before, "a refused vector changed the learner")


@_check
def a_refused_fit_leaves_the_state_unchanged(learner: Any, stream: Stream) -> None:
    _taught(learner, stream)
    before = _scores(learner, stream.X_new)
    for X, y in _bad_batches(stream):
        _require_raises((ValueError, TypeError), learner.fit, X, y)
    _require_equal(_scores(learner, stream.X_new), before, "a refused fit changed the learner")


@_check
def bad_weights_are_refused(learner: Any, stream: Stream) -> None:
    _taught(learner, stream)
    weights = np.ones(len(stream.y))
    try:
        clone(learner).partial_fit(stream.X, stream.y, sample_weight=weights)
    except TypeError:
        raise NotApplicable("partial_fit has no sample_weight") from None
    before = _scores(learner, stream.X_new)
    for bad in (-weights, 0 * weights, weights[:-1], weights * np.nan):
        _require_raises(ValueError, learner.partial_fit, stream.X, stream.y, sample_weight=bad)
    _require_equal(_scores(learner, stream.X_new), before, "refused weights changed the learner")


@_check
def does_not_share_the_callers_arrays(learner: Any, stream: Stream) -> None:
    X, y = stream.X.copy(), stream.y.copy()
    learner.partial_fit(X, y)
    x = X[0].copy()
    if hasattr(learner, "learn_one"):
        learner.learn_one(x, str(y[0]))
    before = _scores(learner, stream.X_new)
    X[:], x[:], y[:] = 1e6, 1e6, "zzz"
    _require_equal(_scores(learner, stream.X_new), before, "it keeps the caller's memory")


@_check
def does_not_write_to_the_callers_arrays(learner: Any, stream: Stream) -> None:
    X, y = stream.X.copy(), stream.y.copy()
    X.flags.writeable = False
    y.flags.writeable = False
    learner.partial_fit(X, y)
    learner.predict(X)
    if hasattr(learner, "learn_one"):
        learner.learn_one(X[0], str(y[0]))
        learner.predict_one(X[0])


@_check
def memory_is_bounded_on_a_ten_times_longer_stream(learner: Any, stream: Stream) -> None:
    repeats = 40

    def taught_for(rounds: int) -> Any:
        each = clone(learner)
        for _ in range(rounds):
            each.partial_fit(stream.X, stream.y)
            each.predict(stream.X_new[:2])
        return each

    if not getattr(learner, "bounded_memory", True):
        raise NotApplicable("the learner says that it keeps its examples")
    short, long = _size(taught_for(repeats // 10)), _size(taught_for(repeats))
    _require(long <= 1.25 * short + 4096, f"{short} bytes grew to {long} on a longer stream")


# Life beyond the process.


@_check
def a_copy_learns_on_its_own(learner: Any, stream: Stream) -> None:
    _taught(learner, stream)
    before = _scores(learner, stream.X_new)
    twin = copy.deepcopy(learner)
    _require_equal(_scores(twin, stream.X_new), before, "a copy answers differently")
    twin.partial_fit(stream.X_new, stream.y[::-1])
    _require_equal(_scores(learner, stream.X_new), before, "a copy shares memory with its original")


@_check
def save_and_load_give_the_same_answers(learner: Any, stream: Stream) -> None:
    _taught(learner, stream)
    loaded = _saved_and_loaded(learner)
    _require_equal(loaded.classes_, learner.classes_, "classes were lost in the file")
    _require_same_scores(loaded, learner, stream, "a loaded learner answers differently")


@_check
def a_loaded_learner_goes_on_learning(learner: Any, stream: Stream) -> None:
    _taught(learner, stream)
    loaded = _saved_and_loaded(learner)
    for each in (learner, loaded):
        each.partial_fit(stream.X_new, stream.y)
    _require_same_scores(loaded, learner, stream, "a loaded learner learns differently")


@_check
def an_untaught_learner_can_be_saved(learner: Any, stream: Stream) -> None:
    loaded = _saved_and_loaded(learner)
    _require_raises(NotFittedError, loaded.predict, stream.X)
    _taught(loaded, stream)


# What the checks are made of.


def _taught(learner: Any, stream: Stream) -> Any:
    return learner.partial_fit(stream.X, stream.y)


def _answers(learner: Any, stream: Stream) -> set[Any]:
    return set(learner.predict(stream.X_new).tolist())


def _scores(learner: Any, X: Array) -> NDArray[Any]:
    for ask in ("decision_function", "predict_proba", "predict"):
        if hasattr(learner, ask):
            return np.asarray(getattr(learner, ask)(X))
    raise CheckFailed("the learner cannot be asked: it has no predict")


def _bad_batches(stream: Stream) -> list[tuple[Any, Any]]:
    X, y = stream.X, stream.y
    holed, huge = X.copy(), X.copy()
    holed[3, 2], huge[3, 2] = np.nan, np.inf
    words: list[Any] = y.tolist()
    return [
        (holed, y),
        (huge, y),
        (X[0], y),
        (X[None], y),
        (X[:0], y[:0]),
        (X[:5], y[:4]),
        (X + 1j, y),
        (np.full(X.shape, "word", dtype=object), y),
        (X, [None, *words[1:]]),
        (X, [float("nan"), *words[1:]]),
        (X, [7, *words[1:]]),
    ]


def _require(condition: object, complaint: str) -> None:
    if not condition:
        raise CheckFailed(complaint)


def _require_equal(ours: Any, theirs: Any, complaint: str) -> None:
    _require(np.array_equal(np.asarray(ours), np.asarray(theirs)), complaint)


def _require_same_scores(
    ours: Any, theirs: Any, stream: Stream, complaint: str, tolerance: float = TOLERANCE
) -> None:
    _require_equal(ours.classes_, theirs.classes_, complaint)
    a, b = _scores(ours, stream.X_new), _scores(theirs, stream.X_new)
    if a.dtype.kind not in "fiu":
        _require_equal(a, b, complaint)
        return
    gap = float(np.max(np.abs(a - b)) / max(float(np.max(np.abs(b))), 1e-300))
    _require(gap <= tolerance, f"{complaint} (scores differ by {gap:.1e}, allowed {tolerance})")


def _require_raises(kinds: Any, action: Callable[..., Any], *args: Any, **words: Any) -> None:
    try:
        action(*args, **words)
    except kinds as error:
        _require(str(error).strip(), f"{type(error).__name__} says nothing")
        return
    raise CheckFailed(f"{action.__name__} accepted what it should have refused")


def _need_method(learner: Any, name: str) -> None:
    if not hasattr(learner, name):
        raise NotApplicable(f"there is no {name}")


def _need_promise(learner: Any, promise: Promise) -> None:
    if promise not in getattr(learner, "promises", ()):
        raise NotApplicable(f'it does not promise that "{promise}"')


def _two_classes_only(learner: Any) -> bool:
    tags = getattr(learner, "__sklearn_tags__", None)
    classifier = tags().classifier_tags if tags else None
    return classifier is not None and not classifier.multi_class


def _saved_and_loaded(learner: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "learner.everlearn")
        try:
            save(learner, path)
        except CannotSave as reason:
            raise NotApplicable(str(reason)) from None
        return load(path)


def _size(root: Any) -> int:
    """Bytes reachable from an object, each counted once."""
    seen: set[int] = set()
    total, waiting = 0, [root]
    while waiting:
        item = waiting.pop()
        if id(item) in seen or isinstance(item, type):
            continue
        seen.add(id(item))
        if isinstance(item, np.ndarray):
            total += item.nbytes if item.base is None else 0
            waiting.append(item.base)
            continue
        total += sys.getsizeof(item, 0)
        if isinstance(item, dict):
            waiting += [*item.keys(), *item.values()]
        elif isinstance(item, (list, tuple, set, frozenset)):
            waiting += list(item)
        else:
            waiting += list(getattr(item, "__dict__", {}).values())
    return total
