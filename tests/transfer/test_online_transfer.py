import numpy as np
import pytest

from everlearn import MultiKT, OnlineTransfer, PassiveAggressive, load, save
from everlearn.errors import CannotSave, InvalidParameter, InvalidPrior
from tests.transfer.oracles import normalised, online_transfer, two_classes


@pytest.fixture
def task(rng):
    X, signs = two_classes(rng, 60, gap=0.8)
    return X, signs, 0.5 * rng.normal(size=(3, 6)), np.array([0.2, -0.4, 0.1])


def asked_then_taught(learner, X, signs):
    margins = []
    for x, sign in zip(X, signs, strict=True):
        margins.append(learner.margin(x[None])[0] if hasattr(learner, "labels_") else np.nan)
        learner.learn_one(x, sign)
    return np.array(margins)


@pytest.mark.parametrize("per_source", [False, True])
def test_follows_the_published_mixture(task, per_source):
    X, signs, W, biases = task
    sources = [lambda x, w=w, b=b: w @ x + b for w, b in zip(W, biases, strict=True)]
    if not per_source:
        each = sources
        sources = [lambda x: np.mean([h(x) for h in each])]
    expected, history = online_transfer(X, signs, sources)
    learner = OnlineTransfer(
        priors=list(zip(W, biases, strict=True)),
        per_source=per_source,
        intercept=False,
        positive=1,
    )
    margins = asked_then_taught(learner, X, signs)
    np.testing.assert_allclose(margins[1:], expected[1:], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(learner.weight_history_, history, rtol=1e-9)
    np.testing.assert_allclose(learner.weights_.sum(), 1.0, rtol=1e-12)


def test_transfer_mixes_with_multi_kt_of_the_first_examples(task):
    X, signs, W, _ = task
    learner = OnlineTransfer(priors=list(W), transfer=True, n_first=6, intercept=False)
    learner.fit(X[:6], signs[:6])
    source = MultiKT(priors=list(W)).fit(X[:6], signs[:6])
    own = PassiveAggressive(intercept=False).fit(X[:6], signs[:6])
    np.testing.assert_allclose(learner.beta_, source.beta_, atol=1e-9)
    expected = [
        normalised(a) + normalised(b) - 1.0
        for a, b in zip(source.margin(X), own.margin(X), strict=True)
    ]
    np.testing.assert_allclose(learner.margin(X), expected, rtol=1e-9, atol=1e-12)


def test_history_keeps_the_latest_weights(task, monkeypatch):
    X, signs, W, _ = task
    full = OnlineTransfer(priors=list(W), per_source=True).fit(X, signs).weight_history_
    monkeypatch.setattr("everlearn.transfer.online_transfer.HISTORY", 7)
    short = OnlineTransfer(priors=list(W), per_source=True).fit(X, signs)
    np.testing.assert_array_equal(short.weight_history_, full[-7:])


def test_a_right_prior_gains_weight_and_a_wrong_one_loses_it(rng):
    X, signs = two_classes(rng, 60, gap=0.3)
    knows = 5 * np.eye(6)[0]
    right = OnlineTransfer(priors=[lambda X: np.sign(X[:, 0])], intercept=False)
    wrong = OnlineTransfer(priors=[-knows], intercept=False)
    assert right.fit(X, np.sign(X[:, 0])).weights_[0] > 0.9
    assert wrong.fit(X, signs).weights_[0] < 0.1


def test_a_prior_that_fails_later_changes_nothing(task):
    X, signs, W, _ = task
    broken = [False]

    def moody(rows):
        return np.full(len(rows), np.nan) if broken[0] else rows @ W[0]

    learner = OnlineTransfer(priors=[moody]).fit(X, signs)
    before, history = learner.margin(X), learner.weight_history_
    broken[0] = True
    for teach in (
        lambda: learner.partial_fit(X[:3], signs[:3]),
        lambda: learner.learn_one(X[0], signs[0]),
        lambda: learner.margin(X),
    ):
        with pytest.raises(InvalidPrior, match="prior 0 answered NaN"):
            teach()
    broken[0] = False
    np.testing.assert_array_equal(learner.margin(X), before)
    np.testing.assert_array_equal(learner.weight_history_, history)


def test_two_ways_to_use_priors_exclude_each_other(task):
    X, signs, W, _ = task
    with pytest.raises(InvalidParameter, match="per_source and transfer"):
        OnlineTransfer(priors=list(W), per_source=True, transfer=True).fit(X, signs)


def test_priors_are_saved_inside_unless_they_are_code(task, tmp_path):
    X, signs, W, _ = task
    inner = MultiKT(priors=[W[0]]).fit(X[:10], signs[:10])
    learner = OnlineTransfer(priors=[W[1], (W[2], 0.3), inner]).fit(X, signs)
    save(learner, tmp_path / "mixed")
    loaded = load(tmp_path / "mixed")
    np.testing.assert_allclose(loaded.margin(X), learner.margin(X), rtol=1e-12)
    np.testing.assert_array_equal(loaded.weight_history_, learner.weight_history_)
    learner = OnlineTransfer(priors=[W[1], lambda X: X[:, 0]]).fit(X, signs)
    with pytest.raises(CannotSave, match=r"priors\.1 is a function"):
        save(learner, tmp_path / "code")
