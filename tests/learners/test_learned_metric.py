"""A learned metric against its definition."""

import numpy as np
import pytest
from scipy.optimize import check_grad

import everlearn
from everlearn import NearestClassMean
from everlearn.errors import NotForgettable, NotMergeable
from everlearn.learners.learned_metric import _loss, learned_metric


def noisy(rng, n_classes=6, per_class=20, n_noise=30):
    """Classes differ in three features; thirty others have larger variance and no information."""
    y = np.repeat(np.arange(n_classes), per_class)
    signal = 3.0 * rng.standard_normal((n_classes, 3))[y] + rng.standard_normal((len(y), 3))
    return np.column_stack([signal, 5.0 * rng.standard_normal((len(y), n_noise))]), y


def naive_loss(W, X, y, share, means):
    total = 0.0
    for x, label, weight in zip(X, y, share, strict=True):
        scores = np.array([-0.5 * np.sum((W @ (x - mean)) ** 2) for mean in means])
        total -= weight * (scores[label] - np.log(np.exp(scores).sum()))
    return total


def test_the_loss_is_the_one_of_the_definition(rng):
    X, y = rng.standard_normal((20, 5)), np.arange(20) % 3
    means = np.stack([X[y == k].mean(axis=0) for k in range(3)])
    share = rng.dirichlet(np.ones(20))
    W = 0.5 * rng.standard_normal((2, 5))
    assert _loss(W, X, y, share, means)[0] == pytest.approx(naive_loss(W, X, y, share, means))
    error = check_grad(
        lambda flat: _loss(flat.reshape(2, 5), X, y, share, means)[0],
        lambda flat: _loss(flat.reshape(2, 5), X, y, share, means)[1],
        W.ravel(),
    )
    assert error < 1e-5


def test_it_tells_how_its_optimisation_ended(rng):
    X, y = noisy(rng, n_classes=3, per_class=40, n_noise=4)
    means = np.stack([X[y == k].mean(axis=0) for k in range(3)])
    share = np.full(len(y), 1.0 / len(y))

    cut, before, late = (
        learned_metric(X, y, None, means, 5, most_steps=steps) for steps in (3, 2, 1000)
    )
    assert (cut.steps, cut.converged) == (3, False)
    assert cut.loss == pytest.approx(naive_loss(cut.W, X, y, share, means))
    assert cut.change == pytest.approx(before.loss - cut.loss)
    assert late.converged
    assert 3 < late.steps < 1000
    # Its gradient is that of a minimum, and no further step would be taken.
    gradient = _loss(late.W, X - X.mean(axis=0), y, share, means - X.mean(axis=0))[1]
    assert np.abs(gradient).max() < 1e-3
    assert late.loss < cut.loss


def test_it_ignores_noisy_features(rng):
    X, y = noisy(rng, per_class=200)
    first = np.arange(len(y)) % 2 == 0
    plain, learned = (
        NearestClassMean(metric=metric, rank=5).fit(X[first], y[first])
        for metric in ("euclidean", "learned")
    )
    assert learned.score(X[~first], y[~first]) > plain.score(X[~first], y[~first]) + 0.05


def test_later_classes_are_added_without_learning_the_metric_again(rng):
    X, y = noisy(rng)
    learner = NearestClassMean(metric="learned", rank=5).fit(X[y < 4], y[y < 4])
    before = learner.projection_.copy()
    learner.partial_fit(X[y >= 4], y[y >= 4])
    np.testing.assert_array_equal(learner.projection_, before)
    means = np.stack([X[y == k].mean(axis=0) for k in range(6)])
    distances = ((X[:, None] - means) @ before.T) ** 2
    np.testing.assert_array_equal(learner.predict(X), distances.sum(axis=2).argmin(axis=1))


def test_it_waits_for_a_batch_of_several_classes(rng):
    learner = NearestClassMean(metric="learned")
    learner.learn_one([0.0, 0.0], "cup").learn_one([4.0, 4.0], "chair")
    assert learner.projection_ is None
    assert learner.predict_one([1.0, 0.0]) == "cup"
    learner.partial_fit([[0.0, 1.0], [4.0, 5.0], [5.0, 4.0]], ["cup", "chair", "chair"])
    assert learner.projection_ is not None
    assert learner.predict_one([1.0, 0.0]) == "cup"


def test_unsupported_operations_raise_a_named_error(rng, tmp_path):
    X, y = noisy(rng)
    learner = NearestClassMean(metric="learned").fit(X, y)
    with pytest.raises(NotForgettable, match="metric was learned"):
        learner.forget(X[:1], y[:1])
    with pytest.raises(NotForgettable, match="metric was learned"):
        learner.forget_class(0)
    with pytest.raises(NotMergeable, match="learned its own metric"):
        learner.merge(NearestClassMean(metric="learned").fit(X, y))
    everlearn.save(learner, tmp_path / "learner")
    np.testing.assert_array_equal(
        everlearn.load(tmp_path / "learner").predict(X), learner.predict(X)
    )
