"""Least-squares SVMs against their definition."""

import warnings

import numpy as np
import pytest
from everlearn_papers.forests.lssvm import IncrementalLSSVM, _solution, _system_inverse, _targets
from scipy.optimize import minimize
from sklearn.utils.estimator_checks import check_estimator

from everlearn import check_learner


def blobs(rng, n_classes=5, per_class=12):
    y = np.repeat(np.arange(n_classes), per_class)
    return 2.0 * rng.standard_normal((n_classes, 4))[y] + rng.standard_normal((len(y), 4)), y


def test_it_minimises_its_objective(rng):
    """Regularised towards a prior, weighted: the closed form is where the gradient vanishes."""
    X, y = blobs(rng, n_classes=2)
    prior, weights, C = rng.standard_normal((4, 2)), rng.random(len(y)) + 0.5, 0.7
    Y = _targets(y, 2)
    A, b = _solution(_system_inverse(X, weights, C), Y - X @ prior)
    ours = np.append((prior + X.T @ A).ravel(), b)

    def objective(flat):
        W, b = flat[:8].reshape(4, 2), flat[8:]
        errors = weights[:, None] * (X @ W + b - Y) ** 2
        return 0.5 * np.sum((W - prior) ** 2) + 0.5 * C * errors.sum()

    best = minimize(objective, np.zeros(10), tol=1e-10)
    assert objective(ours) == pytest.approx(best.fun, rel=1e-6)
    np.testing.assert_allclose(ours, best.x, atol=1e-4)


def test_predictions_for_what_is_left_out(rng):
    X, y = blobs(rng, n_classes=3)
    Y = _targets(y, 3)
    inverse = _system_inverse(X, np.ones(len(y)), 1.0)
    closed = Y - _solution(inverse, Y)[0] / inverse.diagonal()[:-1, None]
    for i in range(0, len(y), 5):
        rest = np.arange(len(y)) != i
        A, b = _solution(_system_inverse(X[rest], np.ones(rest.sum()), 1.0), Y[rest])
        np.testing.assert_allclose(closed[i], X[i] @ X[rest].T @ A + b, atol=1e-9)


def test_a_new_class_is_learned_and_old_hyperplanes_hardly_change(rng):
    X, y = blobs(rng)
    learner = IncrementalLSSVM().fit(X[y < 3], y[y < 3])
    before = learner.W_.copy()
    learner.partial_fit(X[y >= 3], y[y >= 3])
    assert learner.score(X, y) > 0.75
    anew = IncrementalLSSVM().fit(X, y)
    moved = np.linalg.norm(learner.W_[:, :3] - before)
    assert moved < np.linalg.norm(anew.W_[:, :3] - before)
    assert learner.classes_.tolist() == [0, 1, 2, 3, 4]


def test_a_prior_helps_a_class_like_an_old_one(rng):
    """A new class beside an old one, five examples: the combination leans on the old hyperplane."""
    X, y = blobs(rng, n_classes=3, per_class=40)
    learner = IncrementalLSSVM(C=0.01).fit(X, y)
    twin = X[y == 0][:5] + 0.1
    learner.partial_fit(twin, np.full(5, 3))
    similarity = [
        learner.W_[:, 3] @ learner.W_[:, k] / np.linalg.norm(learner.W_[:, k]) for k in range(3)
    ]
    assert np.argmax(similarity) == 0


@pytest.mark.filterwarnings("ignore:A column-vector y")
def test_it_keeps_the_contract():
    check_learner(IncrementalLSSVM())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(IncrementalLSSVM(), on_fail=None, on_skip=None)
    assert not [r["check_name"] for r in results if r["status"] not in ("passed", "skipped")]
