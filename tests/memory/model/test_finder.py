"""Separation of names and background against scikit-learn's ridge regression."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from everlearn import RecursiveRLSC
from everlearn.memory.model.background import Sums
from everlearn.memory.model.finder import PROPOSER_WEIGHT, FindHead


def unit_rows(rng: np.random.Generator, count: int, width: int = 7) -> np.ndarray:
    rows = rng.normal(size=(count, width))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture
def taught():
    rng = np.random.default_rng(0)
    return unit_rows(rng, 9), np.array([1] * 6 + [2] * 3), unit_rows(rng, 5)


def head_of(X: np.ndarray, y: np.ndarray, B: np.ndarray) -> FindHead:
    learner = RecursiveRLSC().partial_fit(X, y)
    return FindHead(learner, 1.0, Sums(len(B), B.sum(axis=0), np.triu(B.T @ B)))


def test_weights_are_those_of_ridge_regression_with_background_as_one_more_class(taught) -> None:
    X, y, B = taught
    head = head_of(X, y, B)
    targets = np.eye(3)[np.append(y - 1, [2] * len(B))]
    ridge = Ridge(alpha=1.0, fit_intercept=False).fit(np.vstack([X, B]), targets)
    recoding = np.sqrt(14 / np.array([6, 3, 5]))
    assert np.allclose(head.weights, recoding[:, None] * ridge.coef_)
    names, background = head.scores(X)
    assert np.allclose(np.column_stack([names, background]), X @ head.weights.T)


def test_taught_examples_have_confidence_one_on_average(taught) -> None:
    """Whatever the number of examples; the proposal score is added."""
    X, y, B = taught
    for count in (1, 6):
        kept = np.append(np.arange(count), [6, 7, 8])
        head = head_of(X[kept], y[kept], B)
        scores, _ = head.scores(X[kept][:count])
        certain = head.confidence(scores, np.ones(count))
        assert certain[:, 0].mean() == pytest.approx(1.0)
        half = head.confidence(scores, np.full(count, 0.5))
        assert np.allclose(certain - half, PROPOSER_WEIGHT * np.log(2.0))


def test_vectors_of_zeros_are_finite(taught) -> None:
    X, y, B = taught
    head = head_of(np.vstack([X, np.zeros((1, 7))]), np.append(y, 3), B)
    scores, _ = head.scores(X)
    assert np.isfinite(head.confidence(scores, np.full(len(X), 0.3))).all()
