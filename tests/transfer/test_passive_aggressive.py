"""Passive-Aggressive, against the published rules and scikit-learn."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import SGDClassifier

from everlearn import LeastSquaresSVM, PassiveAggressive, StreamingScaler, StreamPipeline
from everlearn.errors import InvalidLabel, InvalidParameter, TooManyExamples, TooManyLabels
from tests.transfer.oracles import (
    kernel_passive_aggressive,
    mean_pairwise_squared_distance,
    passive_aggressive,
    rbf,
    two_classes,
)


@pytest.mark.parametrize("variant", ["pa", "pa1", "pa2"])
@pytest.mark.parametrize("C", [0.01, 1.0])
def test_weights_follow_the_published_rules(rng, variant, C):
    X, signs = two_classes(rng, 80, gap=0.5)
    learner = PassiveAggressive(C=C, variant=variant, fit_intercept=False).fit(X, signs)
    w, mistakes = passive_aggressive(X, signs, C, variant)
    np.testing.assert_allclose(learner.coef_, w, rtol=1e-12, atol=1e-14)
    assert learner.mistakes_ == mistakes
    assert learner.n_examples_ == 80


@pytest.mark.parametrize("variant", ["pa1", "pa2"])
@pytest.mark.parametrize("C", [0.03, 1.0])
def test_weights_equal_scikit_learns(rng, variant, C):
    X, signs = two_classes(rng, 60, gap=0.5)
    theirs = SGDClassifier(
        loss="hinge", penalty=None, learning_rate=variant, eta0=C, fit_intercept=False
    )
    for x, sign in zip(X, signs, strict=True):
        theirs.partial_fit(x[None], [sign], classes=[-1.0, 1.0])
    learner = PassiveAggressive(C=C, variant=variant, fit_intercept=False).fit(X, signs)
    np.testing.assert_allclose(learner.coef_, theirs.coef_[0], rtol=1e-10, atol=1e-13)


def test_the_intercept_is_the_weight_of_a_constant_feature(rng):
    X, signs = two_classes(rng, 50)
    learner = PassiveAggressive().fit(X, signs)
    w, _ = passive_aggressive(np.hstack([X, np.ones((50, 1))]), signs)
    np.testing.assert_allclose(np.append(learner.coef_, learner.intercept_), w, rtol=1e-12)


def test_starts_from_any_hypothesis(rng):
    X, signs = two_classes(rng, 40)
    first = rng.normal(size=6)
    w, mistakes = passive_aggressive(X, signs, w=first)
    for start in (first, lambda rows: rows @ first, (first, 0.0)):
        learner = PassiveAggressive(start=start, fit_intercept=False).fit(X, signs)
        np.testing.assert_allclose(learner.margin(X), X @ w, rtol=1e-10, atol=1e-12)
        assert learner.mistakes_ == mistakes


def test_a_fitted_learner_is_a_start(rng):
    X, signs = two_classes(rng, 40)
    first = LeastSquaresSVM().fit(X[:10], signs[:10])
    learner = PassiveAggressive(start=first, fit_intercept=False).fit(X[10:], signs[10:])
    offset = first.intercept_
    w = first.coef_
    for x, y in zip(X[10:], signs[10:], strict=True):
        loss = max(0.0, 1.0 - y * (w @ x + offset))
        w = w + min(1.0, loss / (x @ x)) * y * x
    np.testing.assert_allclose(learner.margin(X), X @ w + offset, rtol=1e-10)


def test_rbf_form_equals_the_dual_over_the_kernel_matrix(rng):
    X, signs = two_classes(rng, 50)
    K = rbf(X, X, 1 / 7.0)
    coefficients = kernel_passive_aggressive(K, signs)
    learner = PassiveAggressive(kernel="rbf", gamma=1 / 7.0, fit_intercept=False).fit(X, signs)
    X_new = rng.normal(size=(20, 6))
    np.testing.assert_allclose(
        learner.margin(X_new), rbf(X_new, X, 1 / 7.0) @ coefficients, rtol=1e-9, atol=1e-12
    )


def test_precomputed_form_equals_the_rbf_one(rng):
    X, signs = two_classes(rng, 30)
    X_new = rng.normal(size=(10, 6))
    K, K_new = rbf(X, X, 1 / 5.0), rbf(X_new, X, 1 / 5.0)
    by_kernel = PassiveAggressive(kernel="rbf", gamma=1 / 5.0).fit(X, signs)
    by_matrix = PassiveAggressive(kernel="precomputed").fit(K, signs)
    np.testing.assert_allclose(by_matrix.margin(K_new), by_kernel.margin(X_new), rtol=1e-9)
    with pytest.raises(TooManyExamples, match="30 columns"):
        by_matrix.learn_one(K[0], 1.0)


def test_gamma_is_one_over_the_mean_squared_distance_of_the_first_ten(rng):
    X, signs = two_classes(rng, 30)
    expected = mean_pairwise_squared_distance(X[:10])
    learner = PassiveAggressive(kernel="rbf").fit(X, signs)
    assert learner.gamma_ == pytest.approx(1 / expected, rel=1e-12)
    given_it = PassiveAggressive(kernel="rbf", gamma=1 / expected).fit(X, signs)
    np.testing.assert_allclose(learner.margin(X), given_it.margin(X), rtol=1e-9)


@pytest.mark.parametrize("drop", ["oldest", "smallest"])
def test_a_budget_bounds_the_support_vectors(rng, drop):
    X, signs = two_classes(rng, 200, gap=0.3)
    learner = PassiveAggressive(
        kernel="rbf", gamma=1 / 5.0, budget=15, drop=drop, fit_intercept=False
    )
    kept = []
    for x, sign in zip(X, signs, strict=True):
        margin = sum(c * np.exp(-((x - s) ** 2).sum() / 5.0) for c, s in kept)
        gamma = min(1.0, max(0.0, 1.0 - sign * margin))
        if gamma > 0:
            if len(kept) == 15:
                sizes = [abs(c) for c, _ in kept]
                kept.pop(0 if drop == "oldest" else int(np.argmin(sizes)))
            kept.append((gamma * sign, x))
        learner.learn_one(x, sign)
    assert len(kept) == 15
    X_new = rng.normal(size=(20, 6))
    expected = rbf(X_new, [s for _, s in kept], 1 / 5.0) @ [c for c, _ in kept]
    np.testing.assert_allclose(learner.margin(X_new), expected, rtol=1e-9, atol=1e-12)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 5), st.integers(0, 1000), st.sampled_from([0.05, 0.3, 2.0]))
def test_a_weight_counts_as_copies_in_a_row(weight, seed, C):
    rng = np.random.default_rng(seed)
    X, signs = two_classes(rng, 12)
    weights = rng.integers(1, weight + 1, size=12)
    weighted = PassiveAggressive(C=C).partial_fit(X, signs, sample_weight=weights)
    copied = PassiveAggressive(C=C).fit(X.repeat(weights, axis=0), signs.repeat(weights))
    np.testing.assert_allclose(weighted.margin(X), copied.margin(X), rtol=1e-8, atol=1e-10)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.sampled_from(["linear", "rbf"]))
def test_which_label_comes_first_does_not_matter(seed, kernel):
    rng = np.random.default_rng(seed)
    X, signs = two_classes(rng, 20)
    batch = PassiveAggressive(kernel=kernel).fit(X, signs)
    one_by_one = PassiveAggressive(kernel=kernel)
    for x, sign in zip(X, signs, strict=True):
        one_by_one.learn_one(x, sign)
    np.testing.assert_array_equal(one_by_one.margin(X), batch.margin(X))


def test_positive_chooses_the_sign_of_the_margin_and_not_the_answers(rng):
    X, signs = two_classes(rng, 40)
    labels = np.where(signs > 0, "zebra", "ant")
    usual = PassiveAggressive().fit(X, labels)
    swapped = PassiveAggressive(positive="ant").fit(X, labels)
    assert (usual.positive_, swapped.positive_) == ("zebra", "ant")
    np.testing.assert_array_equal(swapped.margin(X), -usual.margin(X))
    np.testing.assert_array_equal(swapped.decision_function(X), usual.decision_function(X))
    np.testing.assert_array_equal(swapped.predict(X), usual.predict(X))


def test_a_third_label_is_refused_and_changes_nothing(rng):
    X, signs = two_classes(rng, 20)
    learner = PassiveAggressive().fit(X, np.where(signs > 0, "a", "b"))
    before = learner.margin(X)
    for teach in (
        lambda: learner.learn_one(X[0], "c"),
        lambda: learner.partial_fit(X[:2], ["a", "c"]),
    ):
        with pytest.raises(TooManyLabels, match="'a', 'b', 'c'"):
            teach()
    np.testing.assert_array_equal(learner.margin(X), before)
    assert learner.classes_.tolist() == ["a", "b"]
    assert learner.n_examples_ == 20


def test_positive_must_be_one_of_the_two_labels(rng):
    X, _ = two_classes(rng, 4)
    with pytest.raises(InvalidLabel, match="positive is 'c'"):
        PassiveAggressive(positive="c").fit(X, ["a", "b", "a", "b"])


def test_zero_vectors_teach_nothing_without_an_intercept(rng):
    X, signs = two_classes(rng, 10)
    learner = PassiveAggressive(fit_intercept=False).fit(X, signs)
    before = learner.coef_.copy()
    learner.learn_one(np.zeros(6), 1.0)
    np.testing.assert_array_equal(learner.coef_, before)
    assert learner.mistakes_ >= 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"C": 0.0},
        {"C": np.inf},
        {"variant": "pa3"},
        {"kernel": "cubic"},
        {"gamma": -1.0},
        {"budget": 0},
        {"budget": 2.5},
        {"drop": "newest"},
    ],
)
def test_parameters_out_of_range_raise_a_named_error(rng, wrong):
    X, signs = two_classes(rng, 4)
    with pytest.raises(InvalidParameter, match=next(iter(wrong))):
        PassiveAggressive(**wrong).fit(X, signs)


def test_features_far_from_zero_are_warned_of_and_a_scaler_helps(rng):
    centres = 0.35 * rng.normal(size=(2, 64))
    y = rng.integers(0, 2, 2000)
    X = centres[y] + rng.normal(size=(2000, 64)) + 1e3
    with pytest.warns(UserWarning, match="StreamingScaler before this learner"):
        far = PassiveAggressive().partial_fit(X[:1000], y[:1000])
    scaled = StreamPipeline([("scale", StreamingScaler()), ("learn", PassiveAggressive())])
    scaled.partial_fit(X[:1000], y[:1000])
    assert far.score(X[1000:], y[1000:]) < 0.7
    assert scaled.score(X[1000:], y[1000:]) > 0.9
