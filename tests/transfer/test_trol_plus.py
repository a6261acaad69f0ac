"""TROL+, against Passive-Aggressive on augmented features."""

import numpy as np
import pytest

from everlearn import TROL, MultiKT, PassiveAggressive, TROLPlus
from tests.transfer.oracles import passive_aggressive, rbf, two_classes


@pytest.fixture
def task(rng):
    X, signs = two_classes(rng, 50, gap=0.8)
    return X, signs, 0.5 * rng.normal(size=(3, 6))


def test_primal_is_passive_aggressive_on_one_more_feature(task):
    X, signs, W = task
    learner = TROLPlus(prior_models=list(W), online=PassiveAggressive(fit_intercept=False)).fit(
        X, signs
    )
    first = MultiKT(prior_models=list(W)).fit(X[:6], signs[:6])
    v = np.clip(first.margin(X), -1.0, 1.0)
    augmented = np.column_stack([X, v])
    w, _ = passive_aggressive(augmented[6:], signs[6:], w=np.append(np.zeros(6), 1.0))
    np.testing.assert_allclose(learner.margin(X), augmented @ w, rtol=1e-9, atol=1e-11)
    assert learner.source_weights_[0] == pytest.approx(w[-1], rel=1e-9)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_primal_equals_the_dual_of_equation_12(task, kernel):
    X, signs, W = task
    settings = {"kernel": kernel, "gamma": 1 / 6.0}
    learner = TROLPlus(
        prior_models=list(W), online=PassiveAggressive(fit_intercept=False, **settings)
    ).fit(X, signs)
    v = np.clip(
        MultiKT(prior_models=list(W), **settings).fit(X[:6], signs[:6]).margin(X), -1.0, 1.0
    )
    K = X @ X.T if kernel == "linear" else rbf(X, X, 1 / 6.0)
    both = K + np.outer(v, v)
    added = np.zeros(50)
    for t in range(6, 50):
        margin = v[t] + added @ both[:, t]
        added[t] = signs[t] * min(1.0, max(0.0, 1.0 - signs[t] * margin) / both[t, t])
    np.testing.assert_allclose(learner.margin(X), v + both @ added, rtol=1e-9, atol=1e-11)


def test_one_feature_for_each_prior_begins_as_their_mean(task):
    X, signs, W = task
    biases = (0.3, -0.2, 0.0)
    priors = list(zip(W, biases, strict=True))
    learner = TROLPlus(
        prior_models=priors,
        sources="each",
        positive=1,
        online=PassiveAggressive(fit_intercept=False),
    )
    v = np.clip(X @ W.T + np.array(biases), -1.0, 1.0)
    learner.learn_one(X[0], 1)
    features = np.column_stack([X, v / np.sqrt(3)])
    first = np.append(np.zeros(6), np.full(3, 1 / np.sqrt(3)))
    np.testing.assert_allclose(features @ first, v.mean(axis=1), rtol=1e-12)
    for x, sign in zip(X[1:], signs[1:], strict=True):
        learner.learn_one(x, sign)
    w, mistakes = passive_aggressive(features, signs, w=first)
    np.testing.assert_allclose(learner.margin(X), features @ w, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(learner.source_weights_, w[6:], rtol=1e-9)
    assert learner.mistakes_ in (mistakes, mistakes + 1)


def test_features_as_printed_in_equation_13_are_not_scaled(task):
    X, signs, W = task
    learner = TROLPlus(
        prior_models=list(zip(W, (0.3, -0.2, 0.0), strict=True)),
        sources="each",
        scale_sources=False,
        prior_intercepts=False,
        online=PassiveAggressive(fit_intercept=False),
        positive=1,
    ).fit(X, signs)
    features = np.column_stack([X, np.clip(X @ W.T, -1.0, 1.0)])
    w, mistakes = passive_aggressive(features, signs, w=np.append(np.zeros(6), np.full(3, 1 / 3)))
    np.testing.assert_allclose(learner.margin(X), features @ w, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(learner.source_weights_, w[6:], rtol=1e-9)
    assert learner.mistakes_ == mistakes


@pytest.mark.parametrize("first", [1, -1])
def test_priors_refer_to_the_positive_label_whichever_comes_first(task, first):
    X, signs, W = task
    X, signs = X[int(first == -1) :], signs[int(first == -1) :].astype(int)
    assert signs[0] == first
    learner = TROLPlus(
        prior_models=[W[0]],
        sources="each",
        positive=1,
        online=PassiveAggressive(fit_intercept=False),
    )
    learner.learn_one(X[0], first)
    features = np.column_stack([X, np.clip(X @ W[0], -1, 1)])
    w, _ = passive_aggressive(features[:1], signs[:1], w=np.append(np.zeros(6), 1.0))
    np.testing.assert_allclose(learner.margin(X), features @ w, rtol=1e-9, atol=1e-12)


def test_it_starts_with_the_clipped_margins_of_trol(task):
    X, signs, W = task
    plus = TROLPlus(prior_models=list(W)).fit(X[:6], signs[:6])
    plain = TROL(prior_models=list(W)).fit(X[:6], signs[:6])
    np.testing.assert_allclose(
        plus.margin(X), np.clip(plain.margin(X), -1.0, 1.0), rtol=1e-12, atol=1e-14
    )


def test_a_wrong_prior_loses_its_weight(rng):
    X, signs = two_classes(rng, 300, gap=2.0)
    wrong = TROLPlus(prior_models=[-np.eye(6)[0]], sources="each").fit(X, signs)
    right = TROLPlus(prior_models=[np.eye(6)[0]], sources="each").fit(X, signs)
    assert wrong.source_weights_[0] < 0.3 < 0.9 < right.source_weights_[0]
    assert np.mean(wrong.predict(X) == signs) > 0.9
