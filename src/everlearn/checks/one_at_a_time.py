"""Checks of single examples: the same learner as from batches, in any order."""

from typing import Any

import numpy as np
from sklearn.base import clone

from everlearn.base import Promise
from everlearn.checks.parts import (
    Stream,
    check,
    need_method,
    need_promise,
    require,
    require_equal,
    require_same_scores,
    taught,
)


@check
def learn_one_teaches(learner: Any, stream: Stream) -> None:
    need_method(learner, "learn_one")
    for x, label in zip(stream.X, stream.y.tolist(), strict=True):
        require(learner.learn_one(x, label) is learner, "learn_one returned another object")
    require(np.mean(learner.predict(stream.X_new) == stream.y) > 0.8, "learn_one taught nothing")


@check
def predict_one_agrees_with_predict(learner: Any, stream: Stream) -> None:
    need_method(learner, "predict_one")
    taught(learner, stream)
    one_by_one = [learner.predict_one(x) for x in stream.X_new]
    require_equal(one_by_one, learner.predict(stream.X_new), "predict_one and predict differ")


@check
def batch_equals_loop(learner: Any, stream: Stream) -> None:
    need_promise(learner, Promise.BATCH_IS_LOOP)
    loop = clone(learner)
    for x, label in zip(stream.X, stream.y.tolist(), strict=True):
        loop.learn_one(x, label)
    require_same_scores(taught(learner, stream), loop, stream, "a batch is not its loop")


@check
def batches_of_any_size_are_the_same(learner: Any, stream: Stream) -> None:
    need_promise(learner, Promise.BATCH_IS_LOOP)
    parts = clone(learner)
    for start, end in ((0, 1), (1, 4), (4, 40), (40, len(stream.y))):
        parts.partial_fit(stream.X[start:end], stream.y[start:end])
    require_same_scores(taught(learner, stream), parts, stream, "the size of batches matters")


@check
def any_order_gives_the_same_learner(learner: Any, stream: Stream) -> None:
    need_promise(learner, Promise.ANY_ORDER)
    other = clone(learner)
    order = np.argsort(stream.y, kind="stable")[::-1]
    other.partial_fit(stream.X[order], stream.y[order])
    require_same_scores(taught(learner, stream), other, stream, "the order of examples matters")


@check
def asking_in_between_changes_nothing(learner: Any, stream: Stream) -> None:
    asked = clone(learner)
    for start in range(0, len(stream.y), 10):
        for each in (learner, asked):
            each.partial_fit(stream.X[start : start + 10], stream.y[start : start + 10])
        asked.predict(stream.X_new)
        if hasattr(asked, "predict_one"):
            asked.predict_one(stream.X_new[0])
    require_same_scores(learner, asked, stream, "being asked changed what it learned")
