"""Statistics of an earlier position, against copies."""

import numpy as np
import pytest

from everlearn import RecursiveRLSC
from everlearn.memory.insight.influence import Ridge
from everlearn.memory.model.frozen import FrozenMeans, FrozenRidge
from everlearn.statistics.slices import finished

WIDTH = 6


@pytest.fixture
def taught(rng):
    """A learner taught eight classes in no order, after some were forgotten, and examples."""
    X = rng.normal(size=(60, WIDTH))
    y = np.concatenate([rng.permutation(8), rng.integers(0, 8, 52)])
    learner = RecursiveRLSC(regularization=0.3, recoding=0.5).fit(X, y)
    gone = y == 3
    return learner.forget(X[gone], y[gone]), X[~gone], y[~gone]


def test_means_are_those_of_the_beginning_whatever_is_learned(rng, taught):
    learner, _, _ = taught
    frozen = FrozenMeans(learner)
    means = learner.moments_.means[learner.registry_.order].copy()
    counts = learner.moments_.counts[learner.registry_.order].copy()
    for size in (1, 1, 7, 30):
        X, y = rng.normal(size=(size, WIDTH)), rng.integers(0, 12, size)
        learner.partial_fit(X, y)
        frozen.learned(X, y)
        for part in (slice(0, 3), slice(3, 7), slice(None)):
            np.testing.assert_allclose(frozen[part], means[part], rtol=1e-12, atol=1e-13)
        np.testing.assert_array_equal(frozen.counts, counts)
        np.testing.assert_allclose(finished(frozen.squares(20.0)), (means**2).sum(axis=1))
    assert frozen.is_of(learner)
    assert not frozen.is_of(RecursiveRLSC().fit(rng.normal(size=(4, WIDTH)), [0, 1, 2, 3]))


def test_ridge_regression_is_that_of_the_beginning_in_pieces_too(rng, taught):
    learner, X, y = taught
    before = Ridge(learner)
    rows, places = X[:20], np.searchsorted(learner.classes_, y[:20])
    expected = before.leave_one_out(rows, places)
    noise = learner.temperature_
    means = FrozenMeans(learner)
    frozen = FrozenRidge(learner, means)
    for size in (1, 40):
        more, names = rng.normal(size=(size, WIDTH)), rng.integers(0, 9, size)
        learner.partial_fit(more, names)
        means.learned(more, names)
        for piece in (np.inf, 100.0):
            assert finished(frozen.noise(piece)) == pytest.approx(noise, rel=1e-10)
            solved, fits = finished(frozen.solved_and_fits(rows, piece))
            fits *= frozen.counts
            scores = frozen.leave_one_out_solved(rows, places, solved, fits)
            np.testing.assert_allclose(scores, expected, rtol=1e-9, atol=1e-12)
