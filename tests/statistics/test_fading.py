"""A half-life weights each example by the number of later ones."""

import numpy as np
import pytest

from everlearn import NearestClassMean, RecursiveRLSC, StreamingLDA, load, save
from everlearn.errors import InvalidParameter, NotForgettable
from everlearn.statistics.class_means import ClassMeans
from everlearn.statistics.moments import Moments
from tests.oracles import class_moments

LEARNERS = [
    NearestClassMean,
    StreamingLDA,
    RecursiveRLSC,
    lambda **words: RecursiveRLSC(fit_intercept=True, recoding=0.3, **words),
    lambda **words: RecursiveRLSC(weighting="rebalance", **words),
]


def stream(rng, n=300, d=5, k=4):
    y = rng.integers(0, k, n)
    return rng.normal(size=(k, d))[y] * 2 + rng.normal(size=(n, d)), y


def faded(n, half_life):
    """The weight of each of n examples once all of them were learned."""
    return 0.5 ** (np.arange(n)[::-1] / half_life)


@pytest.mark.parametrize("half_life", [1, 3.5, 100])
def test_moments_are_those_of_weighted_examples(rng, half_life):
    X, slots = stream(rng)
    moments = Moments(5, half_life=half_life)
    moments.add(X[:170], slots[:170])
    for x, slot in zip(X[170:], slots[170:], strict=True):
        moments.add_one(x, int(slot))
    _, counts, means, scatter = class_moments(X, slots, faded(300, half_life))
    state = moments.state()
    np.testing.assert_allclose(state["counts"], counts, rtol=1e-11)
    np.testing.assert_allclose(state["means"], means, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(np.triu(state["scatter"]), np.triu(scatter), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("make", LEARNERS)
@pytest.mark.parametrize("half_life", [5, 60])
def test_a_learner_answers_as_one_taught_weighted_examples(rng, make, half_life):
    X, y = stream(rng)
    X_new, _ = stream(rng, n=50)
    plain = make().fit(X, y, sample_weight=faded(300, half_life))
    learner = make(half_life=half_life).fit(X[:100], y[:100])
    for x, label in zip(X[100:], y[100:].tolist(), strict=True):
        learner.predict_one(x)
        learner.learn_one(x, label)
    np.testing.assert_allclose(
        learner.decision_function(X_new), plain.decision_function(X_new), rtol=1e-8, atol=1e-9
    )
    np.testing.assert_allclose(
        learner.predict_proba(X_new), plain.predict_proba(X_new), rtol=1e-6, atol=1e-9
    )
    same = [learner.predict_one(x) for x in X_new] == learner.predict(X_new)
    assert np.mean(same) > 0.95  # within the stated tolerance


def test_a_class_learned_long_ago_is_still_known(rng):
    """Thousands of half-lives: nothing overflows, and nothing vanishes."""
    X, _ = stream(rng, n=6000)
    learner = StreamingLDA(half_life=2).fit(X[:4], ["old", "old", "new", "newer"])
    for start in range(4, 6000, 500):
        part = X[start : start + 500]
        learner.partial_fit(part, np.where(part[:, 0] > 0, "new", "newer"))
    assert set(learner.classes_) == {"old", "new", "newer"}
    assert np.isfinite(learner.decision_function(X[:10])).all()
    assert learner.moments_.counts.min() > 0


@pytest.mark.parametrize("kind", [ClassMeans, Moments])
def test_merging_uses_current_weights(rng, kind):
    X, slots = stream(rng)
    ours, theirs = kind(5, half_life=30), kind(5, half_life=30)
    ours.add(X[:220], slots[:220])
    theirs.add(X[220:], slots[220:])
    ours.merge(theirs, np.arange(4))
    weights = np.concatenate([faded(220, 30), faded(80, 30)])
    _, counts, means, scatter = class_moments(X, slots, weights)
    np.testing.assert_allclose(ours.state()["counts"], counts, rtol=1e-11)
    np.testing.assert_allclose(ours.state()["means"], means, rtol=1e-9, atol=1e-11)
    if kind is Moments:
        np.testing.assert_allclose(
            np.triu(ours.state()["scatter"]), np.triu(scatter), rtol=1e-9, atol=1e-9
        )


def test_a_file_keeps_faded_weights(rng, tmp_path):
    X, y = stream(rng)
    learner = RecursiveRLSC(half_life=40).fit(X[:200], y[:200])
    save(learner, tmp_path / "faded")
    again = load(tmp_path / "faded").partial_fit(X[200:], y[200:])
    learner.partial_fit(X[200:], y[200:])
    np.testing.assert_allclose(
        again.decision_function(X[:20]), learner.decision_function(X[:20]), rtol=1e-9, atol=1e-11
    )


def test_operations_a_half_life_cannot_support_are_refused(rng):
    X, y = stream(rng)
    with pytest.raises(NotForgettable, match="SlidingWindow"):
        StreamingLDA(half_life=50).fit(X, y).forget(X[:1], y[:1])
    with pytest.raises(InvalidParameter, match="half_life"):
        RecursiveRLSC(half_life=50, regularization="auto").fit(X, y)
    with pytest.raises(InvalidParameter, match="at least 1"):
        NearestClassMean(half_life=0.5).fit(X, y)


@pytest.mark.parametrize(
    "learner", [NearestClassMean(half_life=500), StreamingLDA(half_life=500)], ids=repr
)
def test_labels_that_change_their_meaning_are_relearned(rng, learner):
    """All labels move on by one at example 3,000; 2,000 examples later nine of ten are right."""
    centres = 3.0 * rng.normal(size=(10, 16))
    y = rng.integers(0, 10, 5500)
    X = centres[y] + rng.normal(size=(5500, 16))
    told = np.where(np.arange(5500) < 3000, y, (y + 1) % 10)
    learner.partial_fit(X[:5000], told[:5000])
    assert learner.score(X[5000:], told[5000:]) > 0.9
