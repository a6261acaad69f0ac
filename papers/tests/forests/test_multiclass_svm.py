"""The multiclass SVM by gradient, beside scikit-learn's solver of the same loss."""

import numpy as np
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


def test_it_comes_near_the_optimum_of_coordinate_descent():
    X, y = load_digits(return_X_y=True)
    X = scale(X)[:600]
    y = y[:600]
    regularization = 1e-2
    ours = MulticlassSVM(regularization, passes=400).fit(X, y)
    # scikit-learn's Crammer-Singer problem is ½ ‖W‖² + C Σ hinge.
    solver = LinearSVC(
        multi_class="crammer_singer",
        C=1.0 / (regularization * len(y)),
        intercept_scaling=1.0,
        max_iter=20_000,
        random_state=0,
    ).fit(X, y)
    best = np.column_stack([solver.coef_, solver.intercept_])
    rows = np.column_stack([X, np.ones(len(X))])
    assert loss(ours.W_, rows, y, regularization) < 1.1 * loss(best, rows, y, regularization)
    assert (ours.predict(X) == solver.predict(X)).mean() > 0.97
