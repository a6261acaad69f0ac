"""Checks of forgetting and merging: equal to never learned, equal to one stream."""

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from everlearn.base import Promise
from everlearn.checks.parts import (
    FORGET_TOLERANCE,
    Stream,
    check,
    need_promise,
    require,
    require_equal,
    require_raises,
    require_same_scores,
    scores,
    taught,
)
from everlearn.errors import EverlearnError


@check
def learn_then_forget_equals_never_learned(learner: Any, stream: Stream) -> None:
    need_promise(learner, Promise.FORGET)
    kept = np.arange(len(stream.y)) % 3 != 0
    never = clone(learner).partial_fit(stream.X[kept], stream.y[kept])
    taught(learner, stream).forget(stream.X[~kept], stream.y[~kept])
    require_same_scores(learner, never, stream, "something forgotten is left", FORGET_TOLERANCE)


@check
def forgetting_while_being_asked_is_exact(learner: Any, stream: Stream) -> None:
    need_promise(learner, Promise.FORGET)
    never = clone(learner).partial_fit(stream.X[30:], stream.y[30:])
    taught(learner, stream)
    for x, label in zip(stream.X[:30], stream.y[:30], strict=True):
        learner.predict_one(x)
        learner.forget(x[None], [label])
    require_same_scores(learner, never, stream, "something forgotten is left", FORGET_TOLERANCE)


@check
def forgetting_all_of_a_class_removes_it(learner: Any, stream: Stream) -> None:
    need_promise(learner, Promise.FORGET)
    gone = stream.y == stream.y[0]
    never = clone(learner).partial_fit(stream.X[~gone], stream.y[~gone])
    taught(learner, stream).forget(stream.X[gone], stream.y[gone])
    require(stream.y[0] not in list(learner.classes_), "the class is still known")
    require_same_scores(learner, never, stream, "something forgotten is left", FORGET_TOLERANCE)


@check
def forget_class_equals_never_learned(learner: Any, stream: Stream) -> None:
    need_promise(learner, Promise.FORGET_CLASS)
    gone = stream.y == stream.y[0]
    never = clone(learner).partial_fit(stream.X[~gone], stream.y[~gone])
    taught(learner, stream).forget_class(stream.y[0])
    require(stream.y[0] not in list(learner.classes_), "the class is still known")
    require_same_scores(learner, never, stream, "something forgotten is left", FORGET_TOLERANCE)


@check
def forgetting_everything_starts_anew(learner: Any, stream: Stream) -> None:
    need_promise(learner, Promise.FORGET)
    fresh = taught(clone(learner), stream)
    taught(learner, stream).forget(stream.X, stream.y)
    require_raises(NotFittedError, learner.predict, stream.X)
    require_same_scores(taught(learner, stream), fresh, stream, "old rounding is left")


@check
def what_was_not_learned_cannot_be_forgotten(learner: Any, stream: Stream) -> None:
    need_promise(learner, Promise.FORGET)
    taught(learner, stream)
    before = scores(learner, stream.X_new)
    require_raises(EverlearnError, learner.forget, stream.X[:1], ["unheard of"])
    twice = np.concatenate([stream.X, stream.X]), np.concatenate([stream.y, stream.y])
    require_raises(EverlearnError, learner.forget, *twice)
    require_equal(scores(learner, stream.X_new), before, "a refused forget changed the learner")


@check
def merged_shards_equal_one_stream(learner: Any, stream: Stream) -> None:
    need_promise(learner, Promise.MERGE)
    whole = taught(clone(learner), stream)
    for shard in np.array_split(np.arange(len(stream.y)), 7):
        learner.merge(clone(learner).partial_fit(stream.X[shard], stream.y[shard]))
    require_same_scores(learner, whole, stream, "merged shards are not the whole stream")


@check
def merging_leaves_the_other_learner_alone(learner: Any, stream: Stream) -> None:
    need_promise(learner, Promise.MERGE)
    other = clone(learner).partial_fit(stream.X[:30], stream.y[:30])
    before = scores(other, stream.X_new)
    learner.partial_fit(stream.X[30:], stream.y[30:]).merge(other)
    learner.partial_fit(stream.X[:5], stream.y[:5])
    require_equal(scores(other, stream.X_new), before, "the merged learner changed")


@check
def unlike_learners_do_not_merge(learner: Any, stream: Stream) -> None:
    need_promise(learner, Promise.MERGE)
    taught(learner, stream)
    before = scores(learner, stream.X_new)
    narrow = clone(learner).partial_fit(stream.X[:, :3], stream.y)
    numbers = clone(learner).partial_fit(stream.X, np.unique(stream.y, return_inverse=True)[1])
    for other in (narrow, numbers, object(), learner):
        require_raises(EverlearnError, learner.merge, other)
    require_equal(scores(learner, stream.X_new), before, "a refused merge changed the learner")
