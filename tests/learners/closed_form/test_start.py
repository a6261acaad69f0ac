"""Streaming LDA that starts from a covariance: its weight, and that it counts once."""

import numpy as np
import pytest

import everlearn
from everlearn import StreamingLDA
from everlearn.errors import InvalidParameter, NotMergeable, TooFewExamples

WIDTH, WEIGHT = 6, 12.0


def problem(seed=0, n=90, n_classes=3):
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(WIDTH, WIDTH))
    y = rng.integers(0, n_classes, n)
    X = rng.normal(size=(n, WIDTH)) @ mixing + 2.0 * rng.normal(size=(n_classes, WIDTH))[y]
    start = np.cov(rng.normal(size=(40, WIDTH)) @ rng.normal(size=(WIDTH, WIDTH)), rowvar=False)
    return X, y, start


def within(X, y):
    """The pooled scatter, class by class."""
    return sum(
        (X[y == k] - X[y == k].mean(0)).T @ (X[y == k] - X[y == k].mean(0)) for k in np.unique(y)
    )


def started(start, **parameters):
    return StreamingLDA(start_covariance=start, start_weight=WEIGHT, **parameters)


def test_covariance_and_weights_are_those_of_the_formula():
    X, y, start = problem()
    learner = started(start, shrinkage=0.2).fit(X, y)
    covariance = (WEIGHT * start + within(X, y)) / (WEIGHT + len(X))
    np.testing.assert_allclose(learner.covariance_, covariance, rtol=1e-12)
    shrunk = 0.8 * covariance + 0.2 * np.trace(covariance) / WIDTH * np.eye(WIDTH)
    means = np.array([X[y == k].mean(0) for k in range(3)])
    weights = np.linalg.solve(shrunk, means.T).T
    scores = X @ weights.T - 0.5 * np.sum(means * weights, axis=1)
    ours = learner.decision_function(X)
    np.testing.assert_allclose(ours - ours[:, :1], scores - scores[:, :1], rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("shrinkage", [0.1, "oas"])
def test_one_at_a_time_equals_the_batch(shrinkage):
    X, y, start = problem(1, n=300)
    batch = started(start, shrinkage=shrinkage).fit(X, y)
    loop = started(start, shrinkage=shrinkage)
    answers = []
    for x, label in zip(X, y, strict=True):
        loop.learn_one(x, label)
        answers.append(loop.predict_one(x) == loop.predict(x[None])[0])
    np.testing.assert_allclose(loop.covariance_, batch.covariance_, rtol=1e-10)
    assert np.mean(answers) > 0.98  # predict_one has a tolerance for the shrinkage


def test_a_merge_counts_the_start_once_and_unmerge_removes_the_examples():
    X, y, start = problem(2)
    whole = started(start).fit(X, y)
    first, second = started(start).fit(X[:40], y[:40]), started(start).fit(X[40:], y[40:])
    merged = started(start).merge(first).merge(second)
    np.testing.assert_allclose(merged.covariance_, whole.covariance_, rtol=1e-10)
    np.testing.assert_allclose(merged.coef_, whole.coef_, rtol=1e-8)
    merged.unmerge(second)
    np.testing.assert_allclose(merged.covariance_, first.covariance_, rtol=1e-10)


def test_learners_of_different_starts_are_not_merged():
    X, y, start = problem(3)
    with pytest.raises(NotMergeable, match="start_covariance"):
        started(start).fit(X, y).merge(started(2.0 * start).fit(X, y))
    with pytest.raises(NotMergeable, match="start_covariance"):
        started(start).fit(X, y).merge(StreamingLDA(start_weight=WEIGHT).fit(X, y))


def test_forgetting_never_removes_the_start():
    X, y, start = problem(4)
    some = started(start).fit(X, y).forget(X[60:], y[60:])
    fresh = started(start).fit(X[:60], y[:60])
    np.testing.assert_allclose(some.covariance_, fresh.covariance_, rtol=1e-9)
    nothing = some.forget(X[:60], y[:60])
    again = nothing.partial_fit(X[:5], y[:5])
    expected = started(start).fit(X[:5], y[:5]).covariance_
    np.testing.assert_allclose(again.covariance_, expected, rtol=1e-9)


def test_forgetting_a_class_leaves_the_start():
    X, y, start = problem(5)
    kept = started(start, class_scatter=True).fit(X, y).forget_class(2)
    expected = started(start).fit(X[y != 2], y[y != 2]).covariance_
    np.testing.assert_allclose(kept.covariance_, expected, rtol=1e-9)


def test_a_saved_learner_still_knows_its_start(tmp_path):
    X, y, start = problem(6)
    everlearn.save(started(start).fit(X[:40], y[:40]), tmp_path / "learner")
    loaded = everlearn.load(tmp_path / "learner")
    loaded.merge(started(start).fit(X[40:], y[40:]))
    np.testing.assert_allclose(loaded.covariance_, started(start).fit(X, y).covariance_, rtol=1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_a_start_from_unlabelled_vectors_downweights_noisy_features(seed):
    """Features of large variance carry no information here; only the covariance shows it."""
    rng = np.random.default_rng(seed)
    scale = np.r_[np.full(4, 8.0), np.full(16, 0.1)]
    centres = np.c_[np.zeros((5, 4)), rng.normal(size=(5, 16))]
    X = np.tile(centres, (40, 1)) + scale * rng.normal(size=(200, 20))
    y = np.tile(np.arange(5), 40)
    other = centres[rng.integers(0, 5, 300)] + scale * rng.normal(size=(300, 20))
    # Without a start one example a class has no scatter within classes at all.
    plain = StreamingLDA(shrinkage=0.001).fit(X[:5], y[:5]).score(X[5:], y[5:])
    learner = StreamingLDA.started_from(other, shrinkage=0.001).fit(X[:5], y[:5])
    assert plain < 0.4
    assert learner.score(X[5:], y[5:]) > 0.7


def test_a_start_from_vectors_is_their_covariance_and_counts_as_many():
    X, _, _ = problem(7)
    learner = StreamingLDA.started_from(X, priors="empirical")
    np.testing.assert_allclose(learner.start_covariance, np.cov(X, rowvar=False, bias=True))
    assert (learner.start_weight, learner.priors) == (len(X), "empirical")
    assert StreamingLDA.started_from(X, weight=3).start_weight == 3.0
    with pytest.raises(TooFewExamples, match="at least two"):
        StreamingLDA.started_from(X[:1])


@pytest.mark.parametrize(
    ("covariance", "words"),
    [
        (np.ones((5, 5)), r"for 6 features"),
        (np.triu(np.ones((6, 6))), "not symmetric"),
        (np.ones((6, 6)) - 2 * np.eye(6), "negative eigenvalues"),
        (-1.0, "negative variances"),
        (np.full(6, np.nan), "not finite"),
        ("wide", "a number, one number per feature, or a matrix"),
    ],
)
def test_an_invalid_covariance_is_refused_before_learning(covariance, words):
    X, _, _ = problem(8)
    learner = StreamingLDA(start_covariance=covariance)
    with pytest.raises(InvalidParameter, match=words):
        learner.learn_one(X[0], "cup")
    assert not hasattr(learner, "n_features_in_")


def test_a_start_cannot_be_combined_with_a_half_life():
    X, y, start = problem(9)
    with pytest.raises(InvalidParameter, match="half_life"):
        started(start, half_life=10).fit(X, y)
