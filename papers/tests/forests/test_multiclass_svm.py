"""The multiclass SVM by gradient, beside scikit-learn's solver of the same loss."""

import numpy as np
import pytest
from everlearn_papers.forests.multiclass_svm import MulticlassSVM
from sklearn.datasets import load_digits
from sklearn.preprocessing import scale
from sklearn.svm import LinearSVC


def loss(W, X, y, regularization):
    """λ/2 ‖W‖² + the mean hinge, written out."""
    scores = X @ W.T
    own = scores[np.arange(len(y)), y]
    scores[np.arange(len(y)), y] -= 1.0
    hinge = np.maximum(0.0, 1.0 + scores.max(axis=1) - own)
    return 0.5 * regularization * np.sum(W**2) + hinge.mean()


def digits():
    X, y = load_digits(return_X_y=True)
    return scale(X)[:600], y[:600]


def solved(X, y, regularization):
    """Coordinate descent, and its weights: scikit-learn solves ½ ‖W‖² + C Σ hinge."""
    solver = LinearSVC(
        multi_class="crammer_singer",
        C=1.0 / (regularization * len(y)),
        intercept_scaling=1.0,
        max_iter=20_000,
        random_state=0,
    ).fit(X, y)
    return solver, np.column_stack([solver.coef_, solver.intercept_])


def test_it_comes_near_the_optimum_of_coordinate_descent():
    X, y = digits()
    regularization = 1e-2
    ours = MulticlassSVM(regularization, passes=400).fit(X, y)
    solver, best = solved(X, y, regularization)
    rows = np.column_stack([X, np.ones(len(X))])
    assert loss(ours.W_, rows, y, regularization) < 1.1 * loss(best, rows, y, regularization)
    assert (ours.predict(X) == solver.predict(X)).mean() > 0.97


@pytest.mark.parametrize("regularization", [0.01, 1.0])
def test_its_duality_gap_contains_the_optimum_and_closes(regularization):
    X, y = digits()
    rows = np.column_stack([X, np.ones(len(X))])
    minimum = loss(solved(X, y, regularization)[1], rows, y, regularization)
    gaps = []
    for passes in (1, 20, 200):
        ours = MulticlassSVM(regularization, passes=passes).fit(X, y)
        reached = loss(ours.W_, rows, y, regularization)
        assert ours.objective_ == pytest.approx(reached, rel=1e-5)
        assert ours.bound_ < minimum < reached
        assert ours.gap_ == pytest.approx((reached - ours.bound_) / reached, rel=1e-4)
        gaps.append(ours.gap_)
    assert gaps[0] > gaps[1] > 2 * gaps[2]
