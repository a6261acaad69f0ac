"""Checks of asking: predict is pure, works row by row, and probabilities sum to one."""

from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError

from everlearn.checks.parts import (
    NotApplicable,
    Stream,
    check,
    need_method,
    require,
    require_equal,
    require_raises,
    scores,
    taught,
)


@check
def cannot_be_asked_before_it_is_taught(learner: Any, stream: Stream) -> None:
    for ask in ("predict", "predict_proba", "decision_function"):
        if hasattr(learner, ask):
            require_raises(NotFittedError, getattr(learner, ask), stream.X)
    if hasattr(learner, "predict_one"):
        require_raises(NotFittedError, learner.predict_one, stream.X[0])


@check
def prediction_is_pure(learner: Any, stream: Stream) -> None:
    taught(learner, stream)
    first = scores(learner, stream.X_new)
    for _ in range(3):
        learner.predict(stream.X)
        learner.predict(stream.X[:1])
    require_equal(scores(learner, stream.X_new), first, "asking twice gave two answers")


@check
def prediction_of_a_row_does_not_depend_on_the_others(learner: Any, stream: Stream) -> None:
    taught(learner, stream)
    alone = np.concatenate([learner.predict(x[None]) for x in stream.X_new])
    require_equal(alone, learner.predict(stream.X_new), "the answer depends on the batch")


@check
def probabilities_are_probabilities(learner: Any, stream: Stream) -> None:
    need_method(learner, "predict_proba")
    p = taught(learner, stream).predict_proba(stream.X_new)
    require(p.shape == (len(stream.y), len(learner.classes_)), "not one column per class")
    require(np.all(p >= 0) and np.allclose(p.sum(axis=1), 1.0), "rows do not sum to one")
    require_equal(
        learner.classes_[p.argmax(axis=1)],
        learner.predict(stream.X_new),
        "the most probable class is not the answer",
    )


@check
def answers_only_among_candidates(learner: Any, stream: Stream) -> None:
    taught(learner, stream)
    candidates = learner.classes_[:2].tolist()
    try:
        answers = learner.predict(stream.X_new, among=candidates)
    except TypeError:
        raise NotApplicable("predict has no candidate mask (among=)") from None
    require(set(answers.tolist()) <= set(candidates), "an answer is not among the candidates")
    full = learner.predict(stream.X_new)
    inside = np.isin(full, candidates)
    require_equal(answers[inside], full[inside], "the mask changed an answer inside it")
