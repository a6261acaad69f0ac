"""Order, merging, forgetting and batching, for streams that hypothesis makes up."""

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from everlearn import NearestClassMean, RecursiveRLSC, StreamingLDA

EXACT_LEARNERS = [
    NearestClassMean(),
    StreamingLDA(),
    RecursiveRLSC(regularization=0.5, recoding=0.7),
    RecursiveRLSC(regularization=0.5, recoding=0.3, fit_intercept=True),
    RecursiveRLSC(regularization=0.5, weighting="rebalance"),
]

every_learner = pytest.mark.parametrize("learner", EXACT_LEARNERS, ids=repr)
few = settings(max_examples=25, deadline=None)


@st.composite
def streams(draw, min_size=2, max_size=30):
    """Examples of up to five classes, with offsets, scales, duplicates and lonely classes.

    Scales stay where the regularised matrices have condition numbers up to about 1e5: beyond, equal
    statistics still give equal answers, but to as many digits fewer as the condition number has.
    """
    seed = draw(st.integers(0, 2**32 - 1))
    n = draw(st.integers(min_size, max_size))
    d = draw(st.integers(1, 6))
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * draw(st.sampled_from([1.0, 1e-3, 30.0]))
    X += draw(st.sampled_from([0.0, 10.0]))
    if draw(st.booleans()):
        X[rng.integers(0, n, n // 2)] = X[0]
    y = np.array(list("abcde"))[rng.integers(0, draw(st.integers(2, 5)), n)]
    return X, y, rng


def scores(learner, X):
    rows = np.ascontiguousarray(X, dtype=float)
    return learner._scores(rows)[:, learner.registry_.order]


def assert_same(ours, theirs, X, tolerance=1e-9):
    assert ours.classes_.tolist() == theirs.classes_.tolist()
    if len(ours.classes_) == 1:
        return  # a single class has no rival: its score is zero plus rounding
    a, b = scores(ours, X), scores(theirs, X)
    # Differences of features far from zero lose the digits of their offset: an offset of 10,000
    # deviations leaves 1e-12 of a deviation, of which classes of two or three examples lose more.
    tolerance *= max(1.0, np.abs(X.mean(axis=0)).max() / (1e3 * (X.std(axis=0).max() or 1.0)))
    size, square = np.abs(b).max(), 1.0 + np.abs(X).max() ** 2
    if size < 1e-9 * square:  # all classes at one point: scores are zero plus rounding of squares
        size = square
    np.testing.assert_allclose(a / size, b / size, rtol=0, atol=tolerance)


@every_learner
@given(stream=streams())
@few
def test_batch_equals_loop(learner, stream):
    X, y, _ = stream
    loop = clone(learner)
    for x, label in zip(X, y.tolist(), strict=True):
        loop.learn_one(x, label)
        loop.predict_one(x)
    assert_same(loop, clone(learner).fit(X, y), X)


@every_learner
@given(stream=streams())
@few
def test_order_does_not_matter(learner, stream):
    X, y, rng = stream
    order = rng.permutation(len(y))
    assert_same(clone(learner).fit(X[order], y[order]), clone(learner).fit(X, y), X)


@every_learner
@given(stream=streams(min_size=4), n_shards=st.integers(1, 8))
@few
def test_merged_shards_equal_the_whole(learner, stream, n_shards):
    X, y, rng = stream
    merged = clone(learner)
    owner = rng.integers(0, n_shards, len(y))
    for shard in range(n_shards):
        if np.any(owner == shard):
            merged.merge(clone(learner).fit(X[owner == shard], y[owner == shard]))
    assert_same(merged, clone(learner).fit(X, y), X)


@every_learner
@given(stream=streams(min_size=4), n_out=st.integers(1, 3))
@few
def test_unmerging_a_shard_equals_never_having_merged_it(learner, stream, n_out):
    X, y, rng = stream
    out = np.zeros(len(y), dtype=bool)
    out[rng.permutation(len(y))[:n_out]] = True
    merged = clone(learner).fit(X[~out], y[~out]).merge(clone(learner).fit(X[out], y[out]))
    assert_same(
        merged.unmerge(clone(learner).fit(X[out], y[out])),
        clone(learner).fit(X[~out], y[~out]),
        X,
        tolerance=1e-8,
    )


@every_learner
@given(stream=streams(min_size=3))
@few
def test_forgetting_equals_never_having_learned(learner, stream):
    X, y, rng = stream
    gone = rng.random(len(y)) < 0.5
    gone[0] = False
    kept = clone(learner).fit(X[~gone], y[~gone])
    forgetful = clone(learner).fit(X, y)
    forgetful.predict_one(X[0])
    for x, label in zip(X[gone], y[gone], strict=True):
        forgetful.forget(x[None], [label])
        forgetful.predict_one(x)
    assert_same(forgetful, kept, X, tolerance=1e-8)


@every_learner
@given(stream=streams())
@few
def test_weights_are_repetitions(learner, stream):
    X, y, rng = stream
    weights = rng.integers(0, 4, len(y))
    weights[0] = 1
    weighted = clone(learner).fit(X, y, sample_weight=weights)
    repeated = clone(learner).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    assert_same(weighted, repeated, X)


@every_learner
@given(stream=streams(), cut=st.floats(0.0, 1.0))
@few
def test_forget_undoes_learn_at_any_point_of_the_stream(learner, stream, cut):
    X, y, _ = stream
    at = max(1, int(cut * len(y)))
    straight = clone(learner).fit(X[:at], y[:at])
    wandering = copy.deepcopy(straight)
    for x, label in zip(X[at:], y[at:], strict=True):
        wandering.learn_one(x, str(label))
        wandering.forget(x[None], [label])
    assert_same(wandering, straight, X, tolerance=1e-8)
