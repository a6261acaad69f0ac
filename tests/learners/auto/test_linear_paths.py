"""Leave-one-out scores in slices equal those of statistics that never had the example."""

import numpy as np
import pytest

from everlearn.learners.auto.linear_paths import (
    DiscriminantScores,
    FrozenMoments,
    LeastSquaresScores,
)
from everlearn.learners.closed_form.leave_one_out import LearnedRows, LeastSquaresPath
from everlearn.statistics.moments import Moments
from everlearn.statistics.slices import finished

# Everything at once, and in the smallest pieces there are.
PIECES = (np.inf, 1.0)


@pytest.fixture
def taught(rng):
    centres = 3.0 * rng.normal(size=(4, 6))
    slots = np.r_[rng.integers(0, 3, 40), 3].astype(np.intp)  # the last class has one example
    X = 100.0 + centres[slots] + rng.normal(size=(41, 6))
    weights = rng.uniform(0.5, 2.0, 41)
    return LearnedRows(X, slots, weights)


def moments_of(X, slots, weights):
    moments = Moments(X.shape[1])
    moments.add(X, slots, weights)
    return moments


def total_of(frozen, piece):
    total = frozen.scatter.copy()
    finished(frozen.add_between(total, piece))
    return total


@pytest.mark.parametrize("piece", PIECES)
@pytest.mark.parametrize("first", [None, 4])
def test_least_squares_of_the_first_features(taught, first, piece):
    """As by eigenvectors (``LeastSquaresPath``), with the other features never there."""
    short = LearnedRows(taught.X[:, :first], taught.slots, taught.weights)
    expected = LeastSquaresPath(moments_of(short.X, short.slots, short.weights), short).scores(2.0)
    frozen = FrozenMoments(moments_of(taught.X, taught.slots, taught.weights))
    scores = LeastSquaresScores(frozen, total_of(frozen, piece), taught, piece, first)
    assert np.allclose(finished(scores.at(2.0)), expected, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("piece", PIECES)
@pytest.mark.parametrize("ridge", [0.5, 20.0, np.inf])
def test_discriminant_leave_one_out_equals_retraining(taught, ridge, piece):
    frozen = FrozenMoments(moments_of(taught.X, taught.slots, taught.weights))
    found = finished(DiscriminantScores(frozen, taught, piece).at(ridge))
    for i in range(len(taught)):
        rest = np.delete(np.arange(len(taught)), i)
        fresh = moments_of(taught.X[rest], taught.slots[rest], taught.weights[rest])
        B = np.eye(6) if np.isinf(ridge) else fresh.scatter() + ridge * np.eye(6)
        gaps = taught.X[i] - fresh.means
        expected = -0.5 * np.einsum("ij,ij->i", gaps, np.linalg.solve(B, gaps.T).T)
        known = np.zeros(4, dtype=bool)
        known[: fresh.n_slots] = fresh.counts > 0
        ours, theirs = found[i, known], expected[known[: fresh.n_slots]]
        assert np.allclose(ours - ours[0], theirs - theirs[0], rtol=1e-8, atol=1e-8)
        assert np.all(np.isneginf(found[i, ~known]))


def test_frozen_moments_do_not_change(taught):
    moments = moments_of(taught.X, taught.slots, taught.weights)
    frozen = FrozenMoments(moments)
    before = frozen.scatter.copy(), frozen.means.copy(), frozen.counts.copy(), frozen.mean.copy()
    for x, slot in zip(taught.X, taught.slots, strict=True):
        moments.add_one(x + 1.0, int(slot))
    moments.upper_scatter()
    after = frozen.scatter, frozen.means, frozen.counts, frozen.mean
    assert all(np.array_equal(old, new) for old, new in zip(before, after, strict=True))


@pytest.mark.parametrize("n", [1, 100, 129, 131, 140, 300])
def test_frozen_moments_in_an_array_of_yours_are_complete_later(rng, n):
    """Rows that wait, and a buffer that has entered some rows of the scatter."""
    moments, d = Moments(200), 200
    X = rng.normal(size=(n, d))
    for x in X:
        moments.add_one(x, 0)
    frozen = FrozenMoments(moments, np.full((d, d), 7.0))
    means = moments.means.copy()
    for x in rng.normal(size=(200, d)):
        moments.add_one(x, 0)
    finished(frozen.complete(1.0))
    upper = np.triu_indices(d)
    expected = np.cov(X.T, bias=True)[upper] * n
    np.testing.assert_allclose(frozen.scatter[upper], expected, rtol=1e-12, atol=1e-9)
    assert np.array_equal(frozen.means, means)
    finished(frozen.complete(1.0))
    np.testing.assert_allclose(frozen.scatter[upper], expected, rtol=1e-12, atol=1e-9)
