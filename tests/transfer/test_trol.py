"""TROL, against Multi-KT followed by Passive-Aggressive steps."""

import numpy as np
import pytest

from everlearn import TROL, LeastSquaresSVM, MultiKT, PassiveAggressive, load, save
from everlearn.errors import InvalidParameter, LostDefiniteness
from tests.transfer.oracles import rbf, two_classes


@pytest.fixture
def task(rng):
    X, signs = two_classes(rng, 50, gap=0.8)
    return X, signs, 0.5 * rng.normal(size=(3, 6))


def test_it_continues_from_multi_kt_by_passive_aggressive_steps(task):
    X, signs, W = task
    learner = TROL(
        prior_models=list(W), batch_C=3.0, online=PassiveAggressive(fit_intercept=False)
    ).fit(X, signs)
    first = MultiKT(prior_models=list(W), C=3.0).fit(X[:6], signs[:6])
    np.testing.assert_allclose(learner.beta_, first.beta_, atol=1e-9)
    w = W.T @ first.beta_ + X[:6].T @ first.dual_coef_
    for x, y in zip(X[6:], signs[6:], strict=True):
        loss = max(0.0, 1.0 - y * (w @ x + first.intercept_))
        w = w + min(1.0, loss / (x @ x)) * y * x
    np.testing.assert_allclose(learner.margin(X), X @ w + first.intercept_, rtol=1e-9, atol=1e-11)


def test_during_the_warm_up_it_is_multi_kt(task):
    X, signs, W = task
    learner = TROL(prior_models=list(W))
    for t in range(2, 6):
        learner.fit(X[:t], signs[:t])
        expected = MultiKT(prior_models=list(W)).fit(X[:t], signs[:t])
        np.testing.assert_allclose(learner.margin(X), expected.margin(X), rtol=1e-8, atol=1e-10)
        assert learner.waiting_for_ == f"{6 - t} more example{'s' * (t < 5)}"
    assert TROL(prior_models=list(W)).fit(X, signs).waiting_for_ is None


def test_rbf_form_keeps_the_gamma_of_the_warm_up(task):
    X, signs, W = task
    learner = TROL(
        prior_models=list(W), online=PassiveAggressive(kernel="rbf", fit_intercept=False)
    ).fit(X, signs)
    first = MultiKT(prior_models=list(W), kernel="rbf").fit(X[:6], signs[:6])
    assert learner.gamma_ == pytest.approx(first.gamma_, rel=1e-12)
    start, K = first.margin(X), rbf(X, X, first.gamma_)
    added = np.zeros(50)
    for t in range(6, 50):
        loss = max(0.0, 1.0 - signs[t] * (start[t] + added @ K[:, t]))
        added[t] = signs[t] * min(1.0, loss)
    np.testing.assert_allclose(learner.margin(X), start + K @ added, rtol=1e-9, atol=1e-11)


def test_precomputed_form_equals_the_rbf_one(task):
    X, signs, W = task
    K = rbf(X, X, 1 / 5.0)
    # With a precomputed kernel a prior model has a weight for each column.
    over_columns = 0.2 * W @ X.T
    by_matrix = TROL(
        prior_models=list(over_columns), online=PassiveAggressive(kernel="precomputed")
    ).fit(K, signs)
    as_functions = [lambda rows, c=c: rbf(rows, X, 1 / 5.0) @ c for c in over_columns]
    by_kernel = TROL(
        prior_models=as_functions, online=PassiveAggressive(kernel="rbf", gamma=1 / 5.0)
    ).fit(X, signs)
    np.testing.assert_allclose(by_matrix.margin(K), by_kernel.margin(X), rtol=1e-6, atol=1e-8)


def test_waits_for_the_other_label_and_says_so(task, caplog):
    X, signs, W = task
    positives, negatives = X[signs > 0], X[signs < 0]
    learner = TROL(prior_models=list(W), positive="yes")
    for x in negatives[:20]:
        learner.learn_one(x, "no")
    assert learner.waiting_for_ == "an example of another label than 'no'"
    assert "waiting for the other one" in caplog.text
    assert learner.predict(X[:3]).tolist() == ["no"] * 3
    assert len(learner._core.warm_up) <= 10
    learner.learn_one(positives[0], "yes")
    assert learner.waiting_for_ is None
    for x in positives[1:20]:
        learner.learn_one(x, "yes")
    assert set(learner.predict(X).tolist()) == {"yes", "no"}


def test_a_matrix_that_is_not_a_kernel_is_refused_and_changes_nothing(task):
    X, signs, _ = task
    K = 10 * rbf(X, X, 1 / 5.0)
    learner = TROL(online=PassiveAggressive(kernel="precomputed")).fit(K[:3], signs[:3])
    before = learner.margin(K)
    for teach in (
        lambda: learner.partial_fit(-K[3:6], signs[3:6]),
        lambda: learner.learn_one(-K[3], signs[3]),
    ):
        with pytest.raises(LostDefiniteness, match="rows and columns"):
            teach()
    np.testing.assert_array_equal(learner.margin(K), before)
    assert learner.n_examples_ == 3
    assert learner.waiting_for_ == "3 more examples"


def test_waiting_is_the_same_in_a_batch_and_one_by_one(task):
    X, signs, W = task
    order = np.argsort(signs, kind="stable")
    batch = TROL(prior_models=list(W)).fit(X[order], signs[order])
    one_by_one = TROL(prior_models=list(W))
    for x, sign in zip(X[order], signs[order], strict=True):
        one_by_one.learn_one(x, sign)
    np.testing.assert_allclose(one_by_one.margin(X), batch.margin(X), rtol=1e-9, atol=1e-12)


def test_a_saved_warm_up_resumes(task, tmp_path):
    X, signs, W = task
    learner = TROL(prior_models=list(W)).fit(X[:4], signs[:4])
    save(learner, tmp_path / "warm_up")
    loaded = load(tmp_path / "warm_up")
    assert loaded.waiting_for_ == "2 more examples"
    for each in (learner, loaded):
        each.partial_fit(X[4:], signs[4:])
    np.testing.assert_allclose(loaded.margin(X), learner.margin(X), rtol=1e-12)
    assert loaded.mistakes_ == learner.mistakes_


def test_without_priors_it_starts_from_a_least_squares_svm(task):
    X, signs, _ = task
    learner = TROL().fit(X[:6], signs[:6])
    expected = LeastSquaresSVM().fit(X[:6], signs[:6])
    np.testing.assert_allclose(learner.margin(X), expected.margin(X), rtol=1e-9, atol=1e-12)
    assert learner.beta_.shape == (0,)


@pytest.mark.parametrize(
    "wrong", [{"n_first": 1}, {"n_first": 6.0}, {"batch_C": 0.0}, {"penalty": "none"}]
)
def test_parameters_out_of_range_raise_a_named_error(task, wrong):
    X, signs, _ = task
    with pytest.raises(InvalidParameter, match=next(iter(wrong))):
        TROL(**wrong).fit(X, signs)
