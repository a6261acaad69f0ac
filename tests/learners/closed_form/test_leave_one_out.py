"""Scores without an example equal those of statistics that never had it."""

import numpy as np
import pytest

from everlearn.learners.closed_form.leave_one_out import LearnedRows, LeastSquaresPath
from everlearn.statistics.moments import Moments


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


def ridge_by_normal_equations(X, slots, weights, n_slots, lam):
    """Weighted ridge regression onto indicators with a free intercept, solved as one system."""
    Z = np.column_stack([X, np.ones(len(X))])
    penalty = lam * np.eye(Z.shape[1])
    penalty[-1, -1] = 0.0
    Y = np.eye(n_slots)[slots]
    W = np.linalg.solve(Z.T @ (weights[:, None] * Z) + penalty, Z.T @ (weights[:, None] * Y))
    return lambda x: np.append(x, 1.0) @ W


@pytest.mark.parametrize("lam", [0.1, 30.0])
@pytest.mark.parametrize("recoding", [0.0, 0.7])
def test_least_squares_leave_one_out_equals_retraining(taught, lam, recoding):
    found = LeastSquaresPath(moments_of(taught.X, taught.slots, taught.weights), taught).scores(
        lam, recoding
    )
    for i in range(len(taught)):
        rest = np.delete(np.arange(len(taught)), i)
        X, slots, weights = taught.X[rest], taught.slots[rest], taught.weights[rest]
        expected = ridge_by_normal_equations(X, slots, weights, 4, lam)(taught.X[i])
        counts = np.bincount(slots, weights, 4)
        known = counts > 0
        expected[known] *= (weights.sum() / counts[known]) ** recoding
        assert np.allclose(found[i, known], expected[known], rtol=1e-8, atol=1e-9)
        assert np.all(np.isneginf(found[i, ~known]))


def test_factors_and_eigenvectors_give_the_same_scores(taught, monkeypatch):
    moments = moments_of(taught.X, taught.slots, taught.weights)
    by_eigenvectors = LeastSquaresPath(moments, taught).scores(2.0)
    monkeypatch.setattr("everlearn.learners.closed_form.leave_one_out.MANY_FEATURES", 0)
    by_factors = LeastSquaresPath(moments, taught).scores(2.0)
    assert np.allclose(by_factors, by_eigenvectors, rtol=1e-8, atol=1e-9)
