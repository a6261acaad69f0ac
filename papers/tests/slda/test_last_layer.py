"""Fine-tuning's two rates, and how they are chosen."""

import numpy as np
from everlearn_papers.slda.last_layer import (
    BATCH,
    EPOCHS,
    LARGEST_BASE_RATE,
    LastLayer,
    fine_tuning_rates,
    held_out,
)
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


def test_settings_are_chosen_by_mean_accuracy_over_checkpoints_on_seen_classes(rng):
    """One learner is right at first and wrong at the end, the other the reverse."""
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

    worth = {when: held_out(Knows(when), data, order, base=30, every=30) for when in seen_by}
    assert worth["always"] == 1.0
    assert max(worth["early"], worth["late"]) < 1.0
    held_out(Knows("early"), data, order, base=30, every=30, n_classes=2)
    assert seen_by["early"] >= {0, 1}


def test_a_base_trained_by_an_earlier_candidate_is_copied(rng):
    data = blobs(rng, 60)
    classes, bases = np.arange(4), {}
    steps = [(slice(0, 40),), (slice(40, 60),)]

    def taught(*how):
        layer = LastLayer(*how)
        for (part,) in steps:
            layer.partial_fit(data.X[part], data.y[part], classes)
        return layer.decision_function(data.X)

    taught(0.1, 0.01, 0, bases)
    shared = taught(0.1, 0.001, 0, bases)
    assert list(bases) == [0.1]
    np.testing.assert_array_equal(shared, taught(0.1, 0.001, 0))


def test_fine_tuning_takes_the_best_pair_of_rates_and_extends_the_grid(rng):
    data = blobs(rng, 240)
    order = rng.permutation(240)
    found, steps = fine_tuning_rates(data, order, every=48, seed=0)
    pair = LastLayer(found.best, steps.best)
    assert held_out(pair, data, order, base=48, every=48) == max(found.tried.values())
    assert min(found.tried) < found.best
    assert found.best < max(found.tried) or found.best == LARGEST_BASE_RATE
    assert steps.at_end or steps.best == 0.0 or steps.best < max(steps.tried)


def test_starting_from_ones_differs_from_starting_from_the_base_covariance(rng):
    """With the estimate of the first batch, which the stream then adds to."""
    data = blobs(rng, 40)
    ones = begun((np.ones((6, 6)), 0), "plastic").partial_fit(data.X, data.y)
    base = begun(None, "plastic").partial_fit(data.X, data.y)
    trace = np.trace(base.covariance_)
    np.testing.assert_allclose(np.trace(ones.covariance_), trace)  # shrinkage keeps it
    assert np.abs(ones.covariance_ - base.covariance_).max() > 1e-3


def test_a_hit_is_the_right_class_among_the_first_k_answers(rng):
    """Also when a rate is chosen: second answers count only for the second measure."""

    class Second:
        """Ranks a wrong class first and the right one second."""

        classes_ = np.arange(4)

        def partial_fit(self, X, y, classes=None):
            return self

        def predict(self, X):
            return self.decision_function(X).argmax(axis=1)

        def decision_function(self, X):
            right = X[:, :4].argmax(axis=1)
            return 2.0 * np.eye(4)[(right + 1) % 4] + np.eye(4)[right]

    data = blobs(rng, 120)
    data = Examples(np.eye(6)[data.y], data.y)
    order = np.argsort(data.y, kind="stable")
    assert held_out(Second(), data, order, base=30, every=30) == 0.0
    assert held_out(Second(), data, order, base=30, every=30, top=2) == 1.0
