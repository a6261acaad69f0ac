"""Kernel ridge regression against random features and against retraining."""

import numpy as np
import pytest

from everlearn import RandomFeatures
from everlearn.learners.auto.arc_cosine import KernelPath, arc_cosine, kernel_squares
from everlearn.learners.closed_form.leave_one_out import LearnedRows
from everlearn.statistics.moments import Moments
from everlearn.statistics.slices import finished

# Everything at once, and in the smallest pieces there are.
PIECES = (np.inf, 1.0)


def examples(rng, n=40, d=6, k=4):
    slots = np.arange(n) % k
    return rng.normal(size=(k, d))[slots] + rng.normal(size=(n, d)), slots


def naive(X, slots, weights, X_new, ridge, k):
    """Centred kernel ridge regression, solved as one saddle point system."""
    n = len(X)
    system = np.ones((n + 1, n + 1))
    system[:n, :n] = arc_cosine(X, X) + np.diag(ridge / weights)
    system[n, n] = 0.0
    solved = np.linalg.solve(system, np.vstack([np.eye(k)[slots], np.zeros(k)]))
    return arc_cosine(X_new, X) @ solved[:n] + solved[n]


def test_the_kernel_is_the_limit_of_many_random_features(rng):
    X, _ = examples(rng)
    features = RandomFeatures(n_components=200_000).fit_transform(X[:6])
    np.testing.assert_allclose(features @ features.T, arc_cosine(X[:6], X[:6]), rtol=0.05, atol=0.1)


@pytest.mark.parametrize("piece", PIECES)
@pytest.mark.parametrize("weighted", [False, True])
def test_leave_one_out_scores_equal_retraining(rng, weighted, piece):
    X, slots = examples(rng)
    weights = rng.uniform(1.0, 3.0, len(X)) if weighted else np.ones(len(X))
    moments = Moments(6)
    moments.add(X, slots, weights)
    asked = np.array([0, 7, 21])
    path = KernelPath(moments.counts, LearnedRows(X, slots, weights), asked, np.ones(3), piece)
    finished(path.begin())
    found = finished(path.scores(0.7))
    for row, i in enumerate(asked):
        left = weights.copy()
        left[i] -= 1.0
        kept = left > 1e-9
        expected = naive(X[kept], slots[kept], left[kept], X[i : i + 1], 0.7, 4)[0]
        np.testing.assert_allclose(found[row], expected, rtol=1e-8, atol=1e-10)


def test_adding_an_example_equals_solving_again(rng):
    X, slots = examples(rng)
    whole = finished(kernel_squares(LearnedRows(X, slots, np.ones(40)), 4, 0.5, 0.3))
    few = LearnedRows(X[:30], slots[:30], np.ones(30))
    grown = finished(kernel_squares(few, 4, 0.5, 0.3))
    for x, slot in zip(X[30:], slots[30:], strict=True):
        grown.extend(x, int(slot))
    ridge = grown.ridge
    new = rng.normal(size=(5, 6))
    counts = np.bincount(slots)
    scale = (40 / counts) ** 0.3
    expected = naive(X, slots, np.ones(40), new, ridge, 4) * scale
    np.testing.assert_allclose(grown.scores(new), expected, rtol=1e-8, atol=1e-10)
    ridge = whole.ridge
    expected = naive(X, slots, np.ones(40), new, ridge, 4) * scale
    np.testing.assert_allclose(whole.scores(new), expected, rtol=1e-8, atol=1e-10)


def test_the_regularization_is_relative_to_the_variance_of_the_features(rng):
    """Against features 100,000 wide; an example of weight two is two of them."""
    X, slots = examples(rng, n=12)
    weights = np.resize([1.0, 2.0, 3.0], 12)
    found = finished(kernel_squares(LearnedRows(X, slots, weights), 4, 0.5, 0.0)).ridge
    features = RandomFeatures(n_components=100_000).fit_transform(X)
    centred = features - np.average(features, axis=0, weights=weights)
    variance = float(weights @ np.sum(centred**2, axis=1))
    assert found == pytest.approx(0.5 * variance / 6, rel=0.02)
    repeated = LearnedRows(
        *(a.repeat(weights.astype(int), axis=0) for a in (X, slots)), np.ones(24)
    )
    again = finished(kernel_squares(repeated, 4, 0.5, 0.0))
    assert again.ridge == pytest.approx(found, rel=1e-10)


@pytest.mark.parametrize("piece", PIECES)
@pytest.mark.parametrize("last", [0.5, 2.0])
def test_a_solution_from_a_path_equals_a_direct_one(rng, last, piece):
    """Whether its factor is the one that is at hand or another one."""
    X, slots = examples(rng)
    rows, new = LearnedRows(X, slots, np.resize([1.0, 2.0], 40)), rng.normal(size=(5, 6))
    counts = np.bincount(slots, rows.weights)
    path = KernelPath(counts, rows, np.array([3, 0, 17]), np.ones(3), piece)
    finished(path.begin())
    for regularization in (7.0, last):
        finished(path.scores(regularization * (path.total_variance / 6)))
    expected = finished(kernel_squares(rows, 4, 0.5, 0.25)).scores(new)
    found = finished(path.squares(0.5, 0.25)).scores(new)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10)
