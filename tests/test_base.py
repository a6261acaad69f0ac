"""The base class of every learner."""

import numpy as np
import pandas as pd
import pytest

from everlearn import NearestClassMean, RecursiveRLSC
from everlearn.errors import InvalidLabel, OtherFeatures


class Shy(NearestClassMean):
    """Refuses a label in ``_welcome``."""

    def _welcome(self, known, new):
        if "stranger" in new:
            raise InvalidLabel("no strangers; come back with a name")


def test_a_new_label_is_checked_one_by_one_as_in_a_batch():
    learner = Shy().partial_fit([[0.0, 1.0]], ["friend"])
    other = Shy().partial_fit([[0.0, 1.0]], ["friend"])
    other.registry_.extend(["stranger"])
    for teach in (
        lambda: learner.partial_fit([[1.0, 1.0]], ["stranger"]),
        lambda: learner.learn_one([1.0, 1.0], "stranger"),
        lambda: learner.merge(other),
        lambda: Shy().learn_one([1.0, 1.0], "stranger"),
    ):
        with pytest.raises(InvalidLabel, match="no strangers"):
            teach()
    assert learner.classes_.tolist() == ["friend"]
    assert learner.moments_.total == 1.0


def test_a_refused_first_example_leaves_nothing_behind():
    learner = RecursiveRLSC()
    with pytest.raises(InvalidLabel):
        learner.learn_one([1.0, 2.0], None)
    assert not hasattr(learner, "n_features_in_")
    learner.learn_one([1.0, 2.0, 3.0], "cup")
    assert learner.n_features_in_ == 3


def test_columns_of_other_names_have_an_error_of_their_own():
    learner = NearestClassMean().fit(pd.DataFrame([[0.0, 1.0]], columns=["a", "b"]), ["cup"])
    with pytest.raises(OtherFeatures, match="should match those that were passed during fit"):
        learner.partial_fit(pd.DataFrame([[0.0, 1.0]], columns=["b", "a"]), ["cup"])
    assert list(learner.feature_names_in_) == ["a", "b"]
    # A new class, one by one, asks for no names.
    assert learner.learn_one([5.0, 5.0], "chair").predict_one([5.0, 4.0]) == "chair"


def test_fitting_rows_without_names_forgets_the_names():
    learner = NearestClassMean().fit(pd.DataFrame([[0.0, 1.0]], columns=["a", "b"]), ["cup"])
    learner.fit(np.zeros((1, 3)), ["cup"])
    assert not hasattr(learner, "feature_names_in_")


def test_a_linear_head_scores_like_its_classifier(rng):
    X, y = rng.normal(size=(60, 5)), np.arange(60) % 3
    for learner in (NearestClassMean(), RecursiveRLSC(fit_intercept=True)):
        weights, bias = learner.fit(X, y).linear_head()
        ours = X @ weights.T + bias
        scores = learner.decision_function(X)
        np.testing.assert_allclose(
            ours - ours[:, :1], scores - scores[:, :1], atol=1e-10 * np.abs(scores).max()
        )
