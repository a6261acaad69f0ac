"""ExStream against a naive version, and invariants of its prototypes."""

import numpy as np
import pytest
from scipy.spatial.distance import pdist, squareform

from everlearn import ExStream, StreamingScaler, StreamPipeline, load, save
from everlearn.errors import InvalidParameter, NotFinite, NotForgettable, NotMergeable
from everlearn.learners.softmax import Descent, SoftmaxLayer


@pytest.fixture
def stream(rng):
    y = rng.integers(0, 3, 60)
    return rng.normal(size=(60, 4)) + 2.0 * y[:, None], y


def naive_prototypes(X, y, b):
    """The buffers after a stream: {class: [(vector, count), …]}."""
    buffers = {}
    for x, label in zip(X, y, strict=True):
        own = buffers.setdefault(label, [])
        own.append((x.astype(float), 1))
        if len(own) > b:
            distances = squareform(pdist(np.array([vector for vector, _ in own])))
            np.fill_diagonal(distances, np.inf)
            i, j = sorted(np.unravel_index(distances.argmin(), distances.shape))
            (u, c), (v, d) = own[i], own[j]
            own[i] = ((c * u + d * v) / (c + d), c + d)
            del own[j]
    return buffers


def test_prototypes_are_those_of_the_naive_buffers(stream):
    X, y = stream
    learner = ExStream(n_prototypes=4).fit(X, y)
    for label, expected in naive_prototypes(X, y, 4).items():
        own = learner._owners == learner.registry_.slot(label)
        np.testing.assert_allclose(
            learner._prototypes[own], [vector for vector, _ in expected], atol=1e-5
        )
        assert learner._counts[own].tolist() == [count for _, count in expected]


def test_merging_keeps_the_mean_and_number_of_examples(stream):
    X, y = stream
    learner = ExStream(n_prototypes=2).fit(X, y)
    for label in range(3):
        own = learner._owners == learner.registry_.slot(label)
        assert own.sum() == 2
        assert learner._counts[own].sum() == np.sum(y == label)
        mean = np.average(learner._prototypes[own], axis=0, weights=learner._counts[own])
        np.testing.assert_allclose(mean, X[y == label].mean(axis=0), atol=1e-4)


def test_the_gradient_is_that_of_the_loss(rng):
    X, slots = rng.normal(size=(6, 3)).astype(np.float32), np.array([0, 1, 2, 1, 0, 2])
    layer = SoftmaxLayer(3)
    layer.grow(3)
    layer.weights[:] = start = rng.normal(size=(3, 4)).astype(np.float32)
    decay = 0.1

    def loss(weights):
        scores = X @ weights[:, :-1].T + weights[:, -1]
        likelihood = scores[np.arange(6), slots] - np.log(np.exp(scores).sum(axis=1))
        return -likelihood.mean() + 0.5 * decay * np.sum(weights[:, :-1] ** 2)

    layer.sweep(X, slots, Descent(1.0, 0.0, decay, 6))
    step = 1e-3
    for index in np.ndindex(3, 4):
        shift = np.zeros((3, 4))
        shift[index] = step
        slope = (loss(start + shift) - loss(start - shift)) / (2 * step)
        assert start[index] - layer.weights[index] == pytest.approx(slope, abs=1e-3)


def test_old_classes_survive_new_ones(rng):
    centres = 4.0 * rng.normal(size=(5, 8))
    y = np.repeat(np.arange(5), 40)
    X = centres[y] + rng.normal(size=(200, 8))
    learner = ExStream(n_prototypes=5, learning_rate=0.05).partial_fit(X, y)
    assert learner.score(X, y) > 0.95


def test_a_loaded_learner_continues_identically(stream, tmp_path):
    X, y = stream
    learner = ExStream(n_prototypes=3).fit(X[:40], y[:40])
    save(learner, tmp_path / "model")
    again = load(tmp_path / "model")
    learner.partial_fit(X[40:], y[40:])
    again.partial_fit(X[40:], y[40:])
    np.testing.assert_array_equal(learner.coef_, again.coef_)
    np.testing.assert_array_equal(learner.intercept_, again.intercept_)


def test_unsupported_operations_raise_a_named_error(stream):
    X, y = stream
    learner = ExStream().fit(X, y)
    with pytest.raises(NotForgettable):
        learner.forget(X[:1], y[:1])
    with pytest.raises(NotMergeable):
        learner.merge(ExStream().fit(X, y))
    for wrong in ({"n_prototypes": 0}, {"momentum": 1.0}, {"learning_rate": 0.0}):
        with pytest.raises(InvalidParameter):
            ExStream(**wrong).fit(X, y)


@pytest.mark.parametrize("size", [1e16, 1e20, 1e150])
def test_features_beyond_single_precision_are_refused(stream, size):
    X, y = stream
    learner = ExStream(n_prototypes=3).fit(X, y)
    before = learner.decision_function(X)
    for teach in (
        lambda: learner.partial_fit(size * X, y),
        lambda: learner.learn_one(size * X[0], y[0]),
    ):
        with pytest.raises(NotFinite, match="scale the features"):
            teach()
    np.testing.assert_array_equal(learner.decision_function(X), before)
    assert np.all(
        np.isfinite(ExStream(n_prototypes=3).fit(1e14 * X, y).decision_function(1e14 * X))
    )


def test_features_far_from_zero_are_warned_of_and_a_scaler_helps(rng):
    y = rng.integers(0, 3, 150)
    X = 3.0 * np.eye(5)[y] + rng.normal(size=(150, 5)) + 1e3
    with pytest.warns(UserWarning, match="StreamingScaler before this learner"):
        far = ExStream().fit(X[:100], y[:100])
    scaled = StreamPipeline([("scale", StreamingScaler()), ("learn", ExStream())])
    scaled.partial_fit(X[:100], y[:100])
    assert far.score(X[100:], y[100:]) < 0.6
    assert scaled.score(X[100:], y[100:]) > 0.8
