"""A window equals a learner taught only its examples."""

import numpy as np
import pytest
from sklearn.base import clone

from everlearn import (
    AutoClassifier,
    NearestClassMean,
    RecursiveRLSC,
    SlidingWindow,
    StreamingLDA,
    load,
    save,
)
from everlearn.errors import InvalidParameter


def stream(rng, n=260, d=5, k=4):
    y = np.array(["cup", "chair", "lamp", "key"])[rng.integers(0, k, n)]
    return rng.normal(size=(n, d)) + 2.0 * (y == "cup")[:, None], y


@pytest.mark.parametrize(
    "inner", [None, NearestClassMean(), RecursiveRLSC(), AutoClassifier(sample_size=500)], ids=repr
)
def test_only_the_latest_examples_are_known(rng, inner):
    X, y = stream(rng)
    windowed = SlidingWindow(learner=inner, size=60).fit(X[:90], y[:90])
    for x, label in zip(X[90:], y[90:].tolist(), strict=True):
        windowed.learn_one(x, label)
        windowed.predict_one(x)
    plain = clone(inner or StreamingLDA()).fit(X[-60:], y[-60:])
    np.testing.assert_allclose(
        windowed.decision_function(X), plain.decision_function(X), rtol=1e-8, atol=1e-8
    )


def test_a_class_leaves_with_its_last_example(rng):
    X, y = stream(rng)
    windowed = SlidingWindow(size=30).fit(X[:1], ["old"]).partial_fit(X[1:30], y[1:30])
    assert "old" in windowed.classes_
    windowed.learn_one(X[30], y[30])
    assert "old" not in windowed.classes_
    windowed.learn_one(X[0], "old")
    assert windowed.predict(X[:1]).tolist() == ["old"]


def test_a_refused_batch_changes_nothing(rng):
    X, y = stream(rng)
    windowed = SlidingWindow(size=50).fit(X[:100], y[:100])
    before = windowed.decision_function(X)
    with pytest.raises(ValueError, match="features"):
        windowed.partial_fit(X[:5, :3], y[:5])
    assert np.array_equal(windowed.decision_function(X), before)


def test_a_file_keeps_the_window(rng, tmp_path):
    X, y = stream(rng)
    windowed = SlidingWindow(size=50).fit(X[:100], y[:100])
    save(windowed, tmp_path / "window")
    again = load(tmp_path / "window").partial_fit(X[100:130], y[100:130])
    windowed.partial_fit(X[100:130], y[100:130])
    assert np.array_equal(again.decision_function(X), windowed.decision_function(X))


def test_a_learner_that_cannot_forget_is_refused(rng):
    X, y = stream(rng)
    with pytest.raises(InvalidParameter, match="must forget exactly"):
        SlidingWindow(learner=StreamingLDA(half_life=9)).fit(X, y)


@pytest.mark.parametrize(
    "learner",
    [RecursiveRLSC(class_weight={1: 2.0}), StreamingLDA(priors={1: 2.0})],
    ids=["class_weight", "priors"],
)
def test_a_learner_whose_parameters_name_labels_is_refused(learner, rng):
    X, y = stream(rng)
    with pytest.raises(InvalidParameter, match="give sample_weight to the window"):
        SlidingWindow(learner=learner).fit(X, y)
