"""Least squares SVM, against the whole linear system and retraining."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from everlearn import LeastSquaresSVM
from everlearn.errors import LostDefiniteness, NeverLearned, NotForgettable, TooManyExamples
from tests.transfer.oracles import least_squares_svm, rbf, two_classes


@pytest.mark.parametrize("kernel", ["linear", "rbf", "precomputed"])
@pytest.mark.parametrize("C", [0.1, 100.0])
def test_leave_one_out_equals_retraining(rng, kernel, C):
    X, signs = two_classes(rng, 25)
    K = X @ X.T if kernel == "linear" else rbf(X, X, 1 / 6.0)
    learner = LeastSquaresSVM(C=C, kernel=kernel, gamma=1 / 6.0)
    learner.fit(K if kernel == "precomputed" else X, signs)
    expected = []
    for i in range(25):
        rest = np.delete(np.arange(25), i)
        alpha, b = least_squares_svm(K[np.ix_(rest, rest)], signs[rest], C)
        expected.append(K[i, rest] @ alpha + b)
    np.testing.assert_allclose(learner.leave_one_out_, expected, rtol=0, atol=1e-10)


def test_solves_the_whole_saddle_point_system_with_weights(rng):
    X, signs = two_classes(rng, 20)
    weights = rng.uniform(0.2, 3.0, 20)
    learner = LeastSquaresSVM(C=2.0).fit(X, signs, weights)
    alpha, b = least_squares_svm(X @ X.T, signs, 2.0, weights)
    np.testing.assert_allclose(learner.dual_coef_, alpha, rtol=1e-9)
    assert learner.intercept_ == pytest.approx(b, rel=1e-9)


def test_the_linear_form_is_ridge_regression_on_signs(rng):
    X, signs = two_classes(rng, 40)
    learner = LeastSquaresSVM(C=5.0).fit(X, signs)
    ridge = Ridge(alpha=1 / 5.0).fit(X, signs)
    np.testing.assert_allclose(learner.coef_, ridge.coef_, rtol=1e-9)
    assert learner.intercept_ == pytest.approx(ridge.intercept_, rel=1e-9)


def test_a_single_example_and_a_single_label_are_defined(rng):
    X, _ = two_classes(rng, 8)
    one = LeastSquaresSVM().fit(X[:1], ["cup"])
    assert one.leave_one_out_.tolist() == [0.0]
    assert one.predict(X).tolist() == ["cup"] * 8
    same = LeastSquaresSVM().fit(X, ["cup"] * 8)
    np.testing.assert_allclose(same.margin(X), 1.0, rtol=1e-12)


def test_the_number_of_examples_is_limited(rng):
    X, signs = two_classes(rng, 12)
    learner = LeastSquaresSVM(max_examples=10).fit(X[:10], signs[:10])
    before = learner.margin(X)
    with pytest.raises(TooManyExamples, match="max_examples=10"):
        learner.partial_fit(X[10:], signs[10:])
    np.testing.assert_array_equal(learner.margin(X), before)


def test_forgets_only_what_it_learned(rng):
    X, signs = two_classes(rng, 12)
    learner = LeastSquaresSVM().partial_fit(X, signs, sample_weight=np.full(12, 2.0))
    with pytest.raises(NeverLearned, match="row 1"):
        learner.forget(X[:2], [signs[0], -signs[1]])
    learner.forget(X, signs, sample_weight=np.full(12, 0.5))
    expected = LeastSquaresSVM().fit(X, signs, np.full(12, 1.5))
    np.testing.assert_allclose(learner.margin(X), expected.margin(X), rtol=1e-12)


def test_a_matrix_that_is_not_a_kernel_is_refused(rng):
    X, signs = two_classes(rng, 6)
    K = rbf(X, X, 1 / 5.0)
    learner = LeastSquaresSVM(kernel="precomputed")
    with pytest.raises(LostDefiniteness, match="eigenvalue"):
        learner.fit(K[::-1] * 10, signs)
    assert not hasattr(learner, "registry_")
    with pytest.raises(NotForgettable, match="fit again"):
        learner.fit(K, signs).forget(K[:1], signs[:1])
