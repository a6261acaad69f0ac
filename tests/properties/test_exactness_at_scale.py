"""The same algebra on streams as long as real ones; tolerances are those the README states."""

import numpy as np
import pytest
from sklearn.base import clone

from everlearn import NearestClassMean, RecursiveRLSC, StreamingLDA

LEARNERS = [NearestClassMean(), StreamingLDA(), RecursiveRLSC(), RecursiveRLSC(fit_intercept=True)]


@pytest.fixture(scope="module")
def stream():
    rng = np.random.default_rng(7)
    y = rng.integers(0, 50, 10_000)
    mixing = rng.normal(size=(64, 64)) / 8
    X = rng.normal(size=(50, 64))[y] + rng.normal(size=(10_000, 64)) @ mixing
    return X, y, X[:200] + 0.1 * rng.normal(size=(200, 64))


def gap(ours, theirs, X):
    a, b = ours.decision_function(X), theirs.decision_function(X)
    return np.abs(a - b).max() / np.abs(b).max()


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
def test_batch_loop_shuffled_and_64_merged_shards_agree(learner, stream):
    X, y, X_new = stream
    rng = np.random.default_rng(8)
    batch = clone(learner).fit(X, y)
    loop = clone(learner)
    for index, (x, label) in enumerate(zip(X, y.tolist(), strict=True)):
        loop.learn_one(x, label)
        if index % 7 == 0:
            loop.predict_one(x)
    order = rng.permutation(len(y))
    shuffled = clone(learner).fit(X[order], y[order])
    merged = clone(learner)
    for shard in np.array_split(rng.permutation(len(y)), 64):
        merged.merge(clone(learner).fit(X[shard], y[shard]))
    for other in (loop, shuffled, merged):
        assert gap(other, batch, X_new) < 1e-9


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
def test_forgetting_half_of_ten_thousand_equals_never_having_seen_them(learner, stream):
    X, y, X_new = stream
    gone = np.random.default_rng(9).permutation(len(y))[:5000]
    kept = np.setdiff1d(np.arange(len(y)), gone)
    forgetful = clone(learner).fit(X, y)
    forgetful.predict_one(X[0])
    for some in np.array_split(gone, 500):
        forgetful.forget(X[some], y[some])
        forgetful.predict_one(X[0])
    assert gap(forgetful, clone(learner).fit(X[kept], y[kept]), X_new) < 1e-8
