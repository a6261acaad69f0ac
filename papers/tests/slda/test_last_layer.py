"""Fine-tuning's two rates, and how they are chosen."""

import numpy as np
from everlearn_papers.slda.last_layer import BATCH, EPOCHS, LastLayer, best_setting
from everlearn_papers.slda.start import begun

from everlearn.learners.softmax import Descent, SoftmaxLayer
from everlearn.streams.examples import Examples


def blobs(rng, n: int) -> Examples:
    y = np.arange(n) % 4
    return Examples(rng.normal(size=(n, 6)) + 3.0 * np.eye(6)[y], y)


def test_the_first_batch_has_its_own_rate(rng):
    data = blobs(rng, 60)
    classes = np.arange(4)
    layer = LastLayer(0.1, 0.001)
    layer.partial_fit(data.X[:40], data.y[:40], classes)
    layer.partial_fit(data.X[40:], data.y[40:], classes)
    naive = SoftmaxLayer(6)
    naive.grow(4)
    generator = np.random.default_rng(0)
    X = data.X.astype(np.float32)
    for epoch in range(EPOCHS):
        rate = 0.1 * 0.1 ** ((epoch >= 15) + (epoch >= 30))
        naive.sweep(X[:40], data.y[:40], Descent(rate, 0.9, 1e-4, BATCH), generator)
    for x, label in zip(X[40:], data.y[40:], strict=True):
        naive.sweep(x[None], np.array([label]), Descent(0.001, 0.9, 1e-4, 1))
    np.testing.assert_array_equal(layer.decision_function(data.X), naive.scores(X))


def test_a_setting_is_chosen_by_the_mean_over_checkpoints_of_the_classes_seen(rng):
    """A learner that is right at first and wrong at the end against one that is the reverse."""
    data = blobs(rng, 120)
    order = np.argsort(data.y, kind="stable")
    seen_by: dict[str, set[int]] = {"early": set(), "late": set(), "always": set()}

    class Knows:
        def __init__(self, when: str) -> None:
            self.when, self.n = when, 0

        def partial_fit(self, X, y, classes=None):
            self.n += len(y)
            return self

        def predict(self, X):
            seen_by[self.when] |= set(X[:, :4].argmax(axis=1).tolist())
            right = self.when == "always" or (self.n < 60) == (self.when == "early")
            return X[:, :4].argmax(axis=1) if right else np.full(len(X), -1)

    best = best_setting(("early", "always", "late"), Knows, data, order, base=30, every=30)
    assert best == "always"
    first = best_setting(("early",), Knows, data, order, base=30, every=30, n_classes=2)
    assert first == "early"
    assert seen_by["early"] >= {0, 1}


def test_ones_and_the_bases_own_covariance_are_not_the_same_start(rng):
    """With the estimate of the first batch, which the stream then adds to."""
    data = blobs(rng, 40)
    ones = begun((np.ones((6, 6)), 0), "plastic").partial_fit(data.X, data.y)
    base = begun(None, "plastic").partial_fit(data.X, data.y)
    trace = np.trace(base.covariance_)
    np.testing.assert_allclose(np.trace(ones.covariance_), trace)  # shrinkage keeps it
    assert np.abs(ones.covariance_ - base.covariance_).max() > 1e-3
