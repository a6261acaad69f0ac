"""OTL, M-OTL and TR-OTL, against the published update rules."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from everlearn import (
    LeastSquaresSVM,
    MultiKT,
    OnlineTransfer,
    PassiveAggressive,
    TROLPlus,
    load,
    save,
)
from everlearn.errors import CannotSave, InvalidParameter, InvalidPrior
from tests.transfer.oracles import normalised, online_transfer, two_classes


@pytest.fixture
def task(rng):
    X, signs = two_classes(rng, 60, gap=0.8)
    return X, signs, 0.5 * rng.normal(size=(3, 6)), np.array([0.2, -0.4, 0.1])


def prequential_margins(learner, X, signs):
    margins = []
    for x, sign in zip(X, signs, strict=True):
        margins.append(learner.margin(x[None])[0] if hasattr(learner, "registry_") else np.nan)
        learner.learn_one(x, sign)
    return np.array(margins)


@pytest.mark.parametrize("which", ["mean", "each"])
def test_follows_the_published_mixture(task, which):
    X, signs, W, biases = task
    sources = [lambda x, w=w, b=b: w @ x + b for w, b in zip(W, biases, strict=True)]
    if which == "mean":
        each = sources
        sources = [lambda x: np.mean([h(x) for h in each])]
    expected, history = online_transfer(X, signs, sources)
    learner = OnlineTransfer(
        prior_models=list(zip(W, biases, strict=True)),
        sources=which,
        positive=1,
        online=PassiveAggressive(fit_intercept=False),
    )
    margins = prequential_margins(learner, X, signs)
    np.testing.assert_allclose(margins[1:], expected[1:], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(learner.weight_history_, history, rtol=1e-9)
    np.testing.assert_allclose(learner.weights_.sum(), 1.0, rtol=1e-12)


def test_tr_otl_mixes_with_multi_kt_of_the_first_examples(task):
    X, signs, W, _ = task
    learner = OnlineTransfer(
        prior_models=list(W),
        sources="multi_kt",
        n_first=6,
        online=PassiveAggressive(fit_intercept=False),
    )
    learner.fit(X[:6], signs[:6])
    source = MultiKT(prior_models=list(W)).fit(X[:6], signs[:6])
    own = PassiveAggressive(fit_intercept=False).fit(X[:6], signs[:6])
    np.testing.assert_allclose(learner.beta_, source.beta_, atol=1e-9)
    expected = [
        normalised(a) + normalised(b) - 1.0
        for a, b in zip(source.margin(X), own.margin(X), strict=True)
    ]
    np.testing.assert_allclose(learner.margin(X), expected, rtol=1e-9, atol=1e-12)


def test_history_keeps_the_latest_weights(task, monkeypatch):
    X, signs, W, _ = task
    full = OnlineTransfer(prior_models=list(W), sources="each").fit(X, signs).weight_history_
    monkeypatch.setattr("everlearn.transfer.online_transfer.HISTORY", 7)
    short = OnlineTransfer(prior_models=list(W), sources="each").fit(X, signs)
    np.testing.assert_array_equal(short.weight_history_, full[-7:])


def test_a_right_prior_gains_weight_and_a_wrong_one_loses_it(rng):
    X, signs = two_classes(rng, 60, gap=0.3)
    truth = 5 * np.eye(6)[0]
    right = OnlineTransfer(
        prior_models=[lambda X: np.sign(X[:, 0])], online=PassiveAggressive(fit_intercept=False)
    )
    wrong = OnlineTransfer(prior_models=[-truth], online=PassiveAggressive(fit_intercept=False))
    assert right.fit(X, np.sign(X[:, 0])).weights_[0] > 0.9
    assert wrong.fit(X, signs).weights_[0] < 0.1


def test_a_prior_that_fails_later_changes_nothing(task):
    X, signs, W, _ = task
    broken = [False]

    def failing(rows):
        return np.full(len(rows), np.nan) if broken[0] else rows @ W[0]

    learner = OnlineTransfer(prior_models=[failing]).fit(X, signs)
    before, history = learner.margin(X), learner.weight_history_
    broken[0] = True
    for teach in (
        lambda: learner.partial_fit(X[:3], signs[:3]),
        lambda: learner.learn_one(X[0], signs[0]),
        lambda: learner.margin(X),
    ):
        with pytest.raises(InvalidPrior, match="prior 0 returned NaN"):
            teach()
    broken[0] = False
    np.testing.assert_array_equal(learner.margin(X), before)
    np.testing.assert_array_equal(learner.weight_history_, history)


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"sources": "both"}, "sources must be .mean., .each. or .multi_kt."),
        ({"online": MultiKT()}, "online must be a PassiveAggressive, not a MultiKT"),
        ({"online": PassiveAggressive(start=np.ones(6))}, "start"),
        ({"online": PassiveAggressive(positive=1)}, "positive"),
        ({"online": PassiveAggressive(C=-1.0)}, "C must be a number above 0"),
    ],
)
def test_parameters_out_of_range_raise_a_named_error(task, wrong, complaint):
    X, signs, W, _ = task
    with pytest.raises(InvalidParameter, match=complaint):
        OnlineTransfer(prior_models=list(W), **wrong).fit(X, signs)


@pytest.mark.parametrize("which", ["mean", "each"])
def test_without_intercepts_prior_models_are_their_weights(task, which):
    X, signs, W, biases = task
    fitted = LogisticRegression().fit(X[:20], signs[:20])
    ours = LeastSquaresSVM(positive=-1).fit(X[20:30], signs[20:30])
    models = [(W[0], biases[0]), W[1], fitted, ours]
    as_vectors = [W[0], W[1], fitted.coef_[0], ours.coef_]
    without = OnlineTransfer(prior_models=models, sources=which, prior_intercepts=False)
    expected = OnlineTransfer(prior_models=as_vectors, sources=which)
    np.testing.assert_allclose(
        without.fit(X, signs).margin(X), expected.fit(X, signs).margin(X), rtol=1e-9, atol=1e-11
    )
    with_them = OnlineTransfer(prior_models=models, sources=which).fit(X, signs)
    assert np.abs(with_them.margin(X) - without.margin(X)).max() > 1e-3


def test_a_model_with_unknown_intercept_cannot_omit_it(task):
    X, signs, W, _ = task
    moving = TROLPlus(prior_models=[W[0]]).fit(X, signs)
    with pytest.raises(InvalidPrior, match="a TROLPlus, which has no intercept_"):
        OnlineTransfer(prior_models=[moving], prior_intercepts=False).fit(X, signs)


def test_priors_are_saved_inside_unless_they_are_code(task, tmp_path):
    X, signs, W, _ = task
    inner = MultiKT(prior_models=[W[0]]).fit(X[:10], signs[:10])
    learner = OnlineTransfer(prior_models=[W[1], (W[2], 0.3), inner]).fit(X, signs)
    save(learner, tmp_path / "mixed")
    loaded = load(tmp_path / "mixed")
    np.testing.assert_allclose(loaded.margin(X), learner.margin(X), rtol=1e-12)
    np.testing.assert_array_equal(loaded.weight_history_, learner.weight_history_)
    learner = OnlineTransfer(prior_models=[W[1], lambda X: X[:, 0]]).fit(X, signs)
    with pytest.raises(CannotSave, match=r"prior_models\.1 is a function"):
        save(learner, tmp_path / "code")
