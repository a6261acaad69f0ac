"""AutoClassifier chooses what the examples themselves speak for."""

import numpy as np
import pytest

from everlearn import AutoClassifier, NearestClassMean, RecursiveRLSC, StreamingLDA, load, save
from everlearn.errors import NotForgettable
from everlearn.learners import auto


def blobs(rng, n, *, spread, n_classes=6, d=12):
    centres = rng.normal(size=(n_classes, d))
    y = rng.integers(0, n_classes, n)
    return centres[y] + rng.normal(size=(n, d)) * spread, y


def best_single(X, y, X_new, y_new):
    singles = (
        NearestClassMean(),
        StreamingLDA(),
        RecursiveRLSC(regularization="auto", recoding=0.0, fit_intercept=True),
    )
    return max(learner.fit(X, y).score(X_new, y_new) for learner in singles)


def test_round_classes_are_read_by_their_means(rng):
    """With few examples and one variance for all, nothing beats the nearest mean by much."""
    X, y = blobs(rng, 3030, spread=0.8)
    learner = AutoClassifier().fit(X[:30], y[:30])
    assert learner.score(X[30:], y[30:]) > best_single(X[:30], y[:30], X[30:], y[30:]) - 0.03


def test_long_classes_are_not(rng):
    """One direction varies a hundred times more than the classes differ: means alone fail."""
    spread = np.r_[30.0, np.full(11, 0.3)]
    X, y = blobs(rng, 2600, spread=spread)
    learner = AutoClassifier().fit(X[:600], y[:600])
    assert learner.choice_.reading != auto.NEAREST
    assert NearestClassMean().fit(X[:600], y[:600]).score(X[600:], y[600:]) < 0.5
    assert learner.score(X[600:], y[600:]) > best_single(X[:600], y[:600], X[600:], y[600:]) - 0.01


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("origin", [0.0, 1e3])
def test_the_choice_does_not_depend_on_scale_and_origin(rng, scale, origin):
    X, y = blobs(rng, 400, spread=1.0)
    plain, moved = AutoClassifier().fit(X, y), AutoClassifier().fit(scale * (X + origin), y)
    assert plain.choice_.reading == moved.choice_.reading
    assert plain.choice_.strength == moved.choice_.strength
    new, _ = blobs(rng, 200, spread=1.0)
    assert np.array_equal(plain.predict(new), moved.predict(scale * (new + origin)))


def test_probabilities_are_calibrated_on_what_was_never_seen(rng):
    X, y = blobs(rng, 4500, spread=1.3)
    learner = AutoClassifier().fit(X[:500], y[:500])
    shares = learner.predict_proba(X[500:]).max(axis=1)
    right = learner.predict(X[500:]) == y[500:]
    assert abs(shares.mean() - right.mean()) < 0.04


def test_it_says_why(rng):
    X, y = blobs(rng, 300, spread=1.0)
    learner = AutoClassifier().fit(X, y)
    assert "of 300 examples answered without themselves" in learner.why_
    assert learner.choice_.reading in learner.why_
    alone = AutoClassifier().fit(X[:2], ["cup", "chair"])
    assert "no class has two examples yet" in alone.why_


def test_the_fast_path_follows_every_example(rng):
    """Between two choices, predict_one is the reading chosen last on exactly what was learned."""
    X, y = blobs(rng, 430, spread=1.5)
    learner = AutoClassifier().fit(X[:400], y[:400])
    learner.predict_one(X[0])
    for x, label in zip(X[400:420], y[400:420], strict=True):
        learner.learn_one(x, label)
    chosen = learner._running._choice
    exact = auto._Chosen()
    exact._choice, exact._made_for = chosen, learner.moments_.version
    expected = exact.scores(X[420:], learner.moments_, learner._sample)
    found = np.array([learner._scores_one(x) for x in X[420:]])
    assert np.array_equal(found.argmax(axis=1), expected.argmax(axis=1))


def test_a_file_keeps_the_sample(rng, tmp_path):
    X, y = blobs(rng, 200, spread=1.0)
    learner = AutoClassifier(sample_size=50).fit(X, y)
    save(learner, tmp_path / "auto")
    again = load(tmp_path / "auto")
    assert again.choice_ == learner.choice_
    assert np.array_equal(again.decision_function(X), learner.decision_function(X))


def test_a_class_cannot_be_taken_out_of_a_pooled_scatter(rng):
    X, y = blobs(rng, 50, spread=1.0)
    with pytest.raises(NotForgettable, match="pass its examples to forget"):
        AutoClassifier().fit(X, y).forget_class(0)


def test_wide_features_are_chosen_by_factors_as_narrow_ones_by_eigenvectors(rng, monkeypatch):
    X, y = blobs(rng, 300, spread=1.0)
    narrow = AutoClassifier().fit(X, y)
    narrow_ridge = dict(narrow.choice_.right)[auto.RIDGE]
    monkeypatch.setattr("everlearn.learners.leave_one_out.WIDE", 5)
    monkeypatch.setattr(auto, "WIDE", 5)
    monkeypatch.setattr(auto, "WIDE_RIDGES", auto.RIDGES)
    wide = AutoClassifier().fit(X, y)
    assert wide.choice_.reading == auto.RIDGE
    assert dict(wide.choice_.right)[auto.RIDGE] == pytest.approx(narrow_ridge)
