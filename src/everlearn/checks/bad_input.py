"""Checks of bad input and aliasing: rejected input changes nothing, input arrays stay untouched."""

from typing import Any

import numpy as np
from sklearn.base import clone

from everlearn.base import Promise
from everlearn.checks.parts import (
    NotApplicable,
    Stream,
    bad_batches,
    check,
    need_method,
    need_promise,
    require,
    require_equal,
    require_raises,
    scores,
    taught,
)
from everlearn.size import size_in_bytes


@check
def a_bad_batch_leaves_the_state_unchanged(learner: Any, stream: Stream) -> None:
    taught(learner, stream)
    before = scores(learner, stream.X_new)
    for X, y in bad_batches(stream):
        require_raises((ValueError, TypeError), learner.partial_fit, X, y)
        require_raises((ValueError, TypeError), clone(learner).partial_fit, X, y)
    wide = np.concatenate([stream.X, stream.X], axis=1)
    require_raises(ValueError, learner.partial_fit, wide, np.full(len(wide), "new"))
    require_equal(learner.classes_, np.unique(stream.y), "a refused batch left a label behind")
    require_equal(scores(learner, stream.X_new), before, "a refused batch changed the learner")


@check
def a_bad_vector_leaves_the_state_unchanged(learner: Any, stream: Stream) -> None:
    need_method(learner, "learn_one")
    taught(learner, stream)
    before = scores(learner, stream.X_new)
    x = stream.X[0]
    holed = np.where(np.arange(len(x)) == 2, np.nan, x)
    for bad in (x[:-1], x[None], holed, np.full(len(x), np.inf), x.astype(complex), ["a"] * len(x)):
        require_raises((ValueError, TypeError), learner.learn_one, bad, stream.y[0])
        require_raises((ValueError, TypeError), learner.predict_one, bad)
    for bad_label in (None, float("nan"), 0.5, 3, [stream.y[0]]):
        require_raises((ValueError, TypeError), learner.learn_one, x, bad_label)
    require_equal(scores(learner, stream.X_new), before, "a refused vector changed the learner")


@check
def a_refused_fit_leaves_the_state_unchanged(learner: Any, stream: Stream) -> None:
    taught(learner, stream)
    before = scores(learner, stream.X_new)
    for X, y in bad_batches(stream):
        require_raises((ValueError, TypeError), learner.fit, X, y)
    require_equal(scores(learner, stream.X_new), before, "a refused fit changed the learner")


@check
def bad_weights_are_refused(learner: Any, stream: Stream) -> None:
    taught(learner, stream)
    weights = np.ones(len(stream.y))
    try:
        clone(learner).partial_fit(stream.X, stream.y, sample_weight=weights)
    except TypeError:
        raise NotApplicable("partial_fit has no sample_weight") from None
    before = scores(learner, stream.X_new)
    for bad in (-weights, 0 * weights, weights[:-1], weights * np.nan):
        require_raises(ValueError, learner.partial_fit, stream.X, stream.y, sample_weight=bad)
    require_equal(scores(learner, stream.X_new), before, "refused weights changed the learner")


@check
def does_not_share_the_callers_arrays(learner: Any, stream: Stream) -> None:
    X, y = stream.X.copy(), stream.y.copy()
    learner.partial_fit(X, y)
    x = X[0].copy()
    if hasattr(learner, "learn_one"):
        learner.learn_one(x, str(y[0]))
    before = scores(learner, stream.X_new)
    X[:], x[:], y[:] = 1e6, 1e6, "zzz"
    require_equal(scores(learner, stream.X_new), before, "it keeps the caller's memory")


@check
def does_not_write_to_the_callers_arrays(learner: Any, stream: Stream) -> None:
    X, y = stream.X.copy(), stream.y.copy()
    X.flags.writeable = False
    y.flags.writeable = False
    learner.partial_fit(X, y)
    learner.predict(X)
    if hasattr(learner, "learn_one"):
        learner.learn_one(X[0], str(y[0]))
        learner.predict_one(X[0])


@check
def memory_is_bounded_on_a_ten_times_longer_stream(learner: Any, stream: Stream) -> None:
    need_promise(learner, Promise.BOUNDED_MEMORY)
    repeats = 40

    def taught_for(rounds: int) -> Any:
        each = clone(learner)
        for _ in range(rounds):
            each.partial_fit(stream.X, stream.y)
            each.predict(stream.X_new[:2])
        return each

    short, long = size_in_bytes(taught_for(repeats // 10)), size_in_bytes(taught_for(repeats))
    require(long <= 1.25 * short + 4096, f"{short} bytes grew to {long} on a longer stream")
