"""Multi-KT, against retraining and its published objective."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from everlearn import LeastSquaresSVM, MultiKT, PassiveAggressive
from everlearn.errors import InvalidParameter, InvalidPrior, WrongWidth
from tests.transfer.oracles import (
    least_squares_svm,
    multi_kt_leave_one_out,
    rbf,
    two_classes,
)


@pytest.fixture
def task(rng):
    X, signs = two_classes(rng, 14)
    return X, signs, rng.normal(size=(3, 6))


@pytest.mark.parametrize("penalty", ["ridge", "ball"])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_leave_one_out_equals_retraining_with_the_same_weights(task, penalty, kernel):
    X, signs, W = task
    learner = MultiKT(prior_models=list(W), C=3.0, kernel=kernel, gamma=1 / 6.0, penalty=penalty)
    learner.fit(X, signs)
    K = X @ X.T if kernel == "linear" else rbf(X, X, 1 / 6.0)
    expected = multi_kt_leave_one_out(K, signs, X @ W.T, learner.beta_, 3.0)
    np.testing.assert_allclose(learner.leave_one_out_, expected, rtol=0, atol=1e-10)
    assert np.abs(learner.beta_).max() > 0.01


@pytest.mark.parametrize("penalty", ["ridge", "ball"])
def test_the_weights_minimise_the_leave_one_out_loss(task, rng, penalty):
    X, signs, W = task

    def objective(beta):
        loo = multi_kt_leave_one_out(X @ X.T, signs, X @ W.T, beta, 1.0)
        cost = 0.5 * 3.0 * np.sqrt(3) * beta @ beta if penalty == "ridge" else 0.0
        return np.maximum(0.0, 1.0 - signs * loo).sum() + cost

    beta = MultiKT(prior_models=list(W), penalty=penalty).fit(X, signs).beta_
    best = objective(beta)
    for size in (1e-4, 1e-2, 0.3):
        for direction in rng.normal(size=(10, 3)):
            other = beta + size * direction
            if penalty == "ball":
                other /= max(1.0, np.linalg.norm(other))
            assert objective(other) >= best - 1e-9


def test_margin_is_the_sum_of_priors_and_examples(task, rng):
    X, signs, W = task
    learner = MultiKT(prior_models=list(W), C=3.0).fit(X, signs)
    alpha, b = least_squares_svm(X @ X.T, signs - X @ W.T @ learner.beta_, 3.0)
    X_new = rng.normal(size=(9, 6))
    expected = X_new @ (W.T @ learner.beta_ + X.T @ alpha) + b
    np.testing.assert_allclose(learner.margin(X_new), expected, rtol=1e-9)


def test_without_priors_it_is_a_least_squares_svm(task):
    X, signs, _ = task
    for priors in ([], ()):
        learner = MultiKT(prior_models=priors, C=2.0).fit(X, signs)
        expected = LeastSquaresSVM(C=2.0).fit(X, signs).margin(X)
        np.testing.assert_allclose(learner.margin(X), expected, rtol=1e-10)
        assert learner.beta_.shape == (0,)


def test_biases_of_priors_cancel(task):
    X, signs, W = task
    plain = MultiKT(prior_models=list(W)).fit(X, signs)
    biased = MultiKT(prior_models=[(w, b) for w, b in zip(W, (5.0, -3.0, 0.7), strict=True)])
    np.testing.assert_allclose(biased.fit(X, signs).margin(X), plain.margin(X), atol=1e-6)


def test_a_good_prior_gets_weight_and_a_bad_one_does_not(rng):
    truth = rng.normal(size=30)
    X = rng.normal(size=(200, 30))
    signs = np.sign(X @ truth)
    first = [*np.flatnonzero(signs > 0)[:3], *np.flatnonzero(signs < 0)[:3]]
    noise = rng.normal(size=30)
    learner = MultiKT(prior_models=[truth, noise, -truth]).fit(X[first], signs[first])
    without_prior = LeastSquaresSVM().fit(X[first], signs[first])
    helped, unhelped = (np.mean(each.predict(X) == signs) for each in (learner, without_prior))
    assert helped > unhelped + 0.15
    assert learner.beta_[0] > 0 > learner.beta_[2]
    assert abs(learner.beta_[1]) < 0.5 * learner.beta_[0]


def test_every_form_of_prior_model_gives_the_same_result(task):
    X, signs, W = task
    fitted = LogisticRegression().fit(X, signs)
    ours = PassiveAggressive(positive=-1).fit(X, signs)
    as_vectors = [
        W[0],
        (fitted.coef_[0], fitted.intercept_[0]),
        (ours.coef_, ours.intercept_),
    ]
    as_estimators = [W[0].tolist(), fitted, ours]
    as_functions = [
        lambda X: X @ W[0],
        fitted.decision_function,
        lambda X: ours.margin(X)[:, None],
    ]
    expected = MultiKT(prior_models=as_vectors).fit(X, signs).margin(X)
    for priors in (as_estimators, as_functions):
        np.testing.assert_allclose(
            MultiKT(prior_models=priors).fit(X, signs).margin(X), expected, rtol=1e-7, atol=1e-9
        )


def test_a_clone_keeps_fitted_priors(task):
    X, signs, _ = task
    learner = MultiKT(prior_models=[PassiveAggressive().fit(X, signs)])
    again = clone(learner.fit(X, signs))
    assert not hasattr(again, "registry_")
    np.testing.assert_array_equal(again.fit(X, signs).margin(X), learner.margin(X))


@pytest.mark.parametrize(
    ("prior", "complaint"),
    [
        (np.ones(5), "is for 5 features, the examples have 6"),
        (lambda X: np.full(len(X), np.nan), "NaN or infinity"),
        (lambda X: X[:, :2], r"shape \(14, 2\)"),
        (lambda X: X[:3, 0], r"shape \(3,\)"),
        ("mug", "is a str"),
        (None, "is a NoneType"),
    ],
)
def test_an_invalid_prior_is_refused_and_changes_nothing(task, prior, complaint):
    X, signs, W = task
    learner = MultiKT(prior_models=[W[0], prior])
    with pytest.raises(InvalidPrior, match=complaint):
        learner.fit(X, signs)
    assert not hasattr(learner, "registry_")


def test_a_fitted_prior_of_another_width_is_refused(task):
    X, signs, _ = task
    narrow = PassiveAggressive().fit(X[:, :4], signs)
    with pytest.raises(InvalidPrior, match="is for 4 features"):
        MultiKT(prior_models=[narrow]).fit(X, signs)
    with pytest.raises(WrongWidth):
        narrow.margin(X)


@pytest.mark.parametrize("wrong", [{"prior_models": 3}, {"penalty": "lasso"}, {"ridge": -1.0}])
def test_parameters_out_of_range_raise_a_named_error(task, wrong):
    X, signs, _ = task
    with pytest.raises((InvalidParameter, InvalidPrior), match=next(iter(wrong))):
        MultiKT(**wrong).fit(X, signs)
