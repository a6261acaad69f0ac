"""Checks of learning: new classes at any time, old ones kept, labels as the caller gave them."""

from typing import Any

import numpy as np
from sklearn.base import clone

from everlearn.checks.parts import (
    Stream,
    answers,
    check,
    require,
    require_equal,
    require_same_scores,
    taught,
)


@check
def learns_what_it_is_taught(learner: Any, stream: Stream) -> None:
    taught(learner, stream)
    require(np.mean(learner.predict(stream.X_new) == stream.y) > 0.8, "it learned almost nothing")


@check
def partial_fit_returns_the_learner(learner: Any, stream: Stream) -> None:
    require(learner.partial_fit(stream.X, stream.y) is learner, "partial_fit returned another")


@check
def needs_no_list_of_classes(learner: Any, stream: Stream) -> None:
    first = stream.y == stream.y[0]
    learner.partial_fit(stream.X[first], stream.y[first])
    require(answers(learner, stream) == {stream.y[0]}, "it predicted a class it never saw")


@check
def learns_a_new_class_at_any_time(learner: Any, stream: Stream) -> None:
    late = stream.y == stream.y[0]
    learner.partial_fit(stream.X[~late], stream.y[~late])
    learner.partial_fit(stream.X[late], stream.y[late])
    hits = learner.predict(stream.X_new[late]) == stream.y[0]
    require(np.mean(hits) > 0.8, "a class that came later was not learned")


@check
def forgets_nothing_old_when_it_learns_something_new(learner: Any, stream: Stream) -> None:
    late = stream.y == stream.y[0]
    learner.partial_fit(stream.X[~late], stream.y[~late])
    learner.partial_fit(stream.X[late], stream.y[late])
    hits = learner.predict(stream.X_new[~late]) == stream.y[~late]
    require(np.mean(hits) > 0.8, "what was learned first is gone")


@check
def knows_a_class_from_its_first_example(learner: Any, stream: Stream) -> None:
    late = stream.y == stream.y[0]
    learner.partial_fit(stream.X[~late], stream.y[~late])
    learner.partial_fit(stream.X[late][:1], stream.y[late][:1])
    require(stream.y[0] in list(learner.classes_), "one example did not make a class")


@check
def never_predicts_a_class_never_taught(learner: Any, stream: Stream) -> None:
    known = stream.y != stream.y[0]
    learner.partial_fit(stream.X[known], stream.y[known], classes=np.unique(stream.y))
    require(stream.y[0] not in answers(learner, stream), "it predicted a class it never saw")


@check
def classes_are_sorted(learner: Any, stream: Stream) -> None:
    taught(learner, stream)
    require_equal(learner.classes_, np.unique(stream.y), "classes_ are not the sorted labels")


@check
def fit_forgets_what_was_before(learner: Any, stream: Stream) -> None:
    fresh = clone(learner).fit(stream.X, stream.y)
    learner.fit(stream.X_new, np.full(len(stream.y), "other"))
    learner.fit(stream.X, stream.y)
    require_same_scores(learner, fresh, stream, "fit depends on what was learned before")


@check
def accepts_whole_numbers_as_labels(learner: Any, stream: Stream) -> None:
    numbers = np.unique(stream.y, return_inverse=True)[1] * 10
    answers = learner.partial_fit(stream.X, numbers).predict(stream.X_new)
    require(set(answers.tolist()) <= set(numbers.tolist()), "labels came back as something else")


@check
def labels_keep_their_type(learner: Any, stream: Stream) -> None:
    taught(learner, stream)
    require(all(isinstance(a, str) for a in learner.predict(stream.X)), "strings are not strings")


@check
def accepts_single_precision(learner: Any, stream: Stream) -> None:
    learner.partial_fit(stream.X.astype(np.float32), stream.y)
    require(np.mean(learner.predict(stream.X_new) == stream.y) > 0.8, "float32 was not learned")
