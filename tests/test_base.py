"""The base class of every learner."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.utils.class_weight import compute_class_weight, compute_sample_weight

from everlearn import NCMForest, NearestClassMean, RecursiveRLSC, SVMForest, load, save
from everlearn.errors import InvalidLabel, InvalidParameter, NotMergeable, OtherFeatures


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


WEIGHTED = [
    RecursiveRLSC(regularization="auto", recoding="auto", fit_intercept=True, validation_size=20),
    NCMForest(n_estimators=4, random_state=0),
    SVMForest(n_estimators=4, random_state=0),
]


@pytest.mark.parametrize("learner", WEIGHTED, ids=lambda learner: type(learner).__name__)
def test_class_weights_multiply_sample_weights(learner, rng):
    weights = {"a": 3.0, "c": 0.5}
    X, y = rng.normal(size=(60, 5)), np.array(["a", "b", "c"])[np.arange(60) % 3]
    own = rng.uniform(0.5, 2.0, size=60)
    of_class = compute_sample_weight(weights | {"b": 1.0}, y)
    ours = clone(learner).set_params(class_weight=weights)
    ours.partial_fit(X[:40], y[:40], sample_weight=own[:40]).partial_fit(X[40:], y[40:])
    theirs = clone(learner).partial_fit(X[:40], y[:40], sample_weight=own[:40] * of_class[:40])
    theirs.partial_fit(X[40:], y[40:], sample_weight=of_class[40:])
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-12)
    ours.forget(X[40:50], y[40:50])
    theirs.forget(X[40:50], y[40:50], sample_weight=of_class[40:50])
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-12)


def test_class_weights_of_numbered_classes_come_back_from_a_file(rng, tmp_path):
    X, y = rng.normal(size=(40, 5)), np.arange(40) % 4
    known = np.unique(y)
    weights = dict(zip(known, compute_class_weight("balanced", classes=known, y=y), strict=True))
    learner = RecursiveRLSC(class_weight=weights).fit(X, y)
    save(learner, tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.class_weight == weights
    again.partial_fit(X[:9], y[:9])
    assert np.array_equal(again.coef_, learner.partial_fit(X[:9], y[:9]).coef_)


@pytest.mark.parametrize("later", [None, {"a": 4.0}])
def test_class_weights_cannot_change_once_examples_have_them(later, rng, tmp_path):
    X, y = rng.normal(size=(30, 5)), np.array(["a", "b", "c"])[np.arange(30) % 3]
    learner = RecursiveRLSC(class_weight={"a": 3.0}).fit(X, y)
    before = learner.coef_
    learner.set_params(class_weight=later)
    for change in (learner.partial_fit, learner.forget):
        with pytest.raises(InvalidParameter, match="class_weight was changed"):
            change(X, y)
    other = RecursiveRLSC(class_weight=later).fit(X, y)
    refused = [
        lambda: learner.learn_one(X[0], "a"),
        lambda: save(learner, tmp_path / "model"),
        lambda: learner.merge(other),
        lambda: other.merge(learner),
    ]
    for change in refused:
        with pytest.raises(InvalidParameter, match="class_weight was changed"):
            change()
    assert np.array_equal(learner.set_params(class_weight={"a": 3.0}).coef_, before)
    assert learner.fit(X, y).coef_.shape == before.shape
    with pytest.raises(NotMergeable, match="class_weight differs"):
        learner.merge(RecursiveRLSC(class_weight={"a": 9.0}).fit(X, y))


def test_a_forest_says_why_it_cannot_balance(rng):
    X, y = rng.normal(size=(20, 5)), np.arange(20) % 2
    with pytest.raises(InvalidParameter, match="give a mapping from labels to weights"):
        NCMForest(class_weight="balanced").fit(X, y)
