"""Checks of copies and files: a loaded learner equals the saved one and goes on learning."""

import copy
from typing import Any

from sklearn.exceptions import NotFittedError

from everlearn.checks.parts import (
    Stream,
    check,
    require_equal,
    require_raises,
    require_same_scores,
    saved_and_loaded,
    scores,
    taught,
)


@check
def a_copy_learns_on_its_own(learner: Any, stream: Stream) -> None:
    taught(learner, stream)
    before = scores(learner, stream.X_new)
    twin = copy.deepcopy(learner)
    require_equal(scores(twin, stream.X_new), before, "a copy answers differently")
    twin.partial_fit(stream.X_new, stream.y[::-1])
    require_equal(scores(learner, stream.X_new), before, "a copy shares memory with its original")


@check
def save_and_load_give_the_same_answers(learner: Any, stream: Stream) -> None:
    taught(learner, stream)
    loaded = saved_and_loaded(learner)
    require_equal(loaded.classes_, learner.classes_, "classes were lost in the file")
    require_same_scores(loaded, learner, stream, "a loaded learner answers differently")


@check
def a_loaded_learner_goes_on_learning(learner: Any, stream: Stream) -> None:
    taught(learner, stream)
    loaded = saved_and_loaded(learner)
    for each in (learner, loaded):
        each.partial_fit(stream.X_new, stream.y)
    require_same_scores(loaded, learner, stream, "a loaded learner learns differently")


@check
def an_untaught_learner_can_be_saved(learner: Any, stream: Stream) -> None:
    loaded = saved_and_loaded(learner)
    require_raises(NotFittedError, loaded.predict, stream.X)
    taught(loaded, stream)
