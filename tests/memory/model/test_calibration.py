"""Calibrated probabilities: temperatures against held-out examples and a grid search."""

import numpy as np
import pytest
from scipy.special import log_softmax

from everlearn import FixedCovarianceLDA, NearestClassMean, RecursiveRLSC, StreamingLDA
from everlearn.arrays import softmax
from everlearn.memory.model.calibration import (
    FOLDS,
    PRIOR_EXAMPLES,
    WIDEST,
    folds,
    scores_by_class,
    temperature,
)


def gaussians(rng, n, spread):
    """Three classes that overlap, in ten dimensions."""
    names = rng.integers(0, 3, n)
    centres = np.random.default_rng(3).normal(size=(3, 10))
    return centres[names] + spread * rng.normal(size=(n, 10)), names


@pytest.mark.parametrize(
    "learner", [NearestClassMean(), StreamingLDA(shrinkage=0.01), RecursiveRLSC()]
)
def test_confidence_equals_accuracy_on_new_examples(rng, learner):
    X, names = gaussians(rng, 300, 1.5)
    learner.fit(X, names)
    T = temperature(learner, X, names)
    new, truth = gaussians(rng, 4000, 1.5)
    shares = softmax(scores_by_class(learner, new) / T)
    right = learner.classes_[shares.argmax(axis=1)] == truth
    assert 0.5 < right.mean() < 0.95
    assert shares.max(axis=1).mean() == pytest.approx(right.mean(), abs=0.04)


def test_forgetting_and_retraining_give_the_same_temperature(rng):
    """Examples held out by forgetting or by not teaching have the same scores, hence the same T."""
    X, names = gaussians(rng, 90, 1.5)
    learner = NearestClassMean().fit(X, names)

    held_out = [
        (NearestClassMean().fit(X[~fold], names[~fold]).decision_function(X[fold]), names[fold])
        for fold in folds(names, FOLDS)
    ]

    def cost(log_ratio):
        surprise = 0.5 * PRIOR_EXAMPLES * log_ratio**2 / np.log(WIDEST)
        for scores, own in held_out:
            logs = log_softmax(scores / np.exp(log_ratio), axis=1)
            surprise -= logs[np.arange(len(own)), own].sum()
        return surprise

    grid = np.linspace(-3, 3, 3001)
    best = np.exp(grid[np.argmin([cost(value) for value in grid])])
    assert temperature(learner, X, names) == pytest.approx(best, rel=0.01)


def test_a_learner_that_cannot_forget_is_calibrated_too(rng):
    X, names = gaussians(rng, 200, 1.5)
    learner = FixedCovarianceLDA(shrinkage=0.01).fit(X, names)
    T = temperature(learner, X, names)
    new, truth = gaussians(rng, 2000, 1.5)
    shares = softmax(scores_by_class(learner, new) / T)
    right = learner.classes_[shares.argmax(axis=1)] == truth
    assert shares.max(axis=1).mean() == pytest.approx(right.mean(), abs=0.06)


def test_calibration_leaves_the_learner_as_it_was(rng):
    X, names = gaussians(rng, 60, 1.0)
    learner = RecursiveRLSC().fit(X, names)
    before = {key: value.copy() for key, value in learner._state()[0].items()}
    temperature(learner, X, names)
    after = learner._state()[0]
    assert all(np.array_equal(before[key], after[key]) for key in before)


def test_single_examples_give_no_calibration(rng):
    X = rng.normal(size=(3, 4))
    learner = NearestClassMean().fit(X, [0, 1, 2])
    assert temperature(learner, X, np.array([0, 1, 2])) == 1.0


def test_folds_hold_out_every_example_once_and_never_a_whole_class(rng):
    names = np.array([0] * 2 + [1] + [2] * 7)
    parts = folds(names, FOLDS)
    assert len(parts) == FOLDS
    assert np.array_equal(np.sum(parts, axis=0), (names != 1).astype(int))
    for fold in parts:
        assert set(names[~fold]) == {0, 1, 2}


def test_scores_of_two_classes_have_two_columns(rng):
    X, names = rng.normal(size=(20, 3)), np.arange(20) % 2
    learner = NearestClassMean().fit(X, names)
    shares = softmax(scores_by_class(learner, X) / 1.0)
    assert np.allclose(shares, learner.predict_proba(X))
