"""Random features against the kernels they approximate."""

import numpy as np
import pytest
from sklearn.base import clone

from everlearn import (
    AutoClassifier,
    PowerNormalizer,
    RandomFeatures,
    RecursiveRLSC,
    StreamPipeline,
    load,
    save,
)
from everlearn.arrays import unit_rows
from everlearn.errors import InvalidParameter, NotMergeable, WrongWidth
from everlearn.streams.orderings import class_iid, iid


def arc_cosine_kernel(X, Y):
    """Order 1: (sin θ + (π − θ) cos θ) ‖x‖ ‖y‖ / π (Cho and Saul 2009, Eq. 6)."""
    lengths = np.outer(np.linalg.norm(X, axis=1), np.linalg.norm(Y, axis=1))
    cosine = np.clip(X @ Y.T / lengths, -1, 1)
    angle = np.arccos(cosine)
    return lengths * (np.sin(angle) + (np.pi - angle) * cosine) / np.pi


def test_relu_features_are_those_of_the_arc_cosine_kernel(rng):
    X = unit_rows(rng.normal(size=(20, 5)))
    features = RandomFeatures(n_components=60_000).fit_transform(X)
    assert np.allclose(features @ features.T, arc_cosine_kernel(X, X), atol=0.04)


def test_fourier_features_are_those_of_the_gaussian_kernel(rng):
    X = rng.normal(size=(20, 5))
    features = RandomFeatures(n_components=60_000, kind="fourier", gamma=0.3).fit_transform(X)
    squares = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    assert np.allclose(features @ features.T, np.exp(-0.3 * squares), atol=0.02)


def test_the_first_features_of_a_wider_map_are_those_of_a_narrower_one(rng):
    X = rng.normal(size=(4, 7))
    narrow = RandomFeatures(n_components=300, random_state=5).fit_transform(X) * np.sqrt(300)
    wide = RandomFeatures(n_components=1000, random_state=5).fit_transform(X) * np.sqrt(1000)
    assert np.allclose(wide[:, :300], narrow, rtol=1e-13)
    other = RandomFeatures(n_components=300, random_state=6).fit_transform(X)
    assert not np.allclose(other * np.sqrt(300), narrow)


def test_features_of_a_seed_never_change():
    """Written down once: a file made with this seed must find the same features on any machine."""
    features = RandomFeatures(n_components=3, kind="fourier", random_state=1).fit_transform(
        [[1.0, 2.0]]
    )
    assert features[0].tolist() == pytest.approx(
        [-0.5480881890227364, -0.7153849434094699, 0.34555356735183573], rel=1e-12
    )


def test_power_and_length():
    X = [[4.0, -9.0], [0.0, 0.0]]
    assert PowerNormalizer(unit_length=False).fit_transform(X).tolist() == [[2.0, -3.0], [0, 0]]
    assert np.allclose(PowerNormalizer().fit_transform(X)[0], np.array([2, -3]) / np.sqrt(13))
    assert PowerNormalizer(power=1, unit_length=False).fit_transform(X).tolist() == X


@pytest.mark.parametrize(
    "transformer",
    [
        PowerNormalizer(power=0),
        PowerNormalizer(power=2),
        RandomFeatures(n_components=0),
        RandomFeatures(kind="sine"),
        RandomFeatures(kind="fourier", gamma=0),
        RandomFeatures(random_state=-1),
    ],
)
def test_bad_parameters_raise_a_named_error(transformer):
    with pytest.raises(InvalidParameter):
        transformer.fit([[1.0, 2.0]])


def wide_learner(seed=0):
    wide = RandomFeatures(n_components=60, random_state=seed)
    steps = [("root", PowerNormalizer()), ("wide", wide), ("learn", RecursiveRLSC())]
    return StreamPipeline(steps)


@pytest.fixture
def stream(rng):
    y = rng.integers(0, 4, 1300)
    return rng.normal(size=(4, 6))[y] + rng.normal(size=(1300, 6)), y


def test_a_large_batch_in_blocks_is_the_same_as_rows_one_by_one(stream):
    X, y = stream
    whole, single = wide_learner().fit(X, y), wide_learner()
    for x, label in zip(X, y, strict=True):
        single.learn_one(x, label)
    scale = np.abs(whole.decision_function(X)).max()
    gap = np.abs(whole.decision_function(X) - single.decision_function(X)).max()
    assert gap < 1e-9 * scale


def test_sixty_four_shards_merged_and_half_forgotten(stream):
    X, y = stream
    parts = [wide_learner().partial_fit(X[i::64], y[i::64]) for i in range(64)]
    merged = wide_learner()
    for part in parts:
        merged.merge(part)
    once = wide_learner().fit(X, y).decision_function(X)
    assert np.abs(merged.decision_function(X) - once).max() < 1e-8 * np.abs(once).max()
    merged.forget(X[:650], y[:650])
    rest = wide_learner().fit(X[650:], y[650:]).decision_function(X)
    assert np.abs(merged.decision_function(X) - rest).max() < 1e-8 * np.abs(rest).max()
    with pytest.raises(NotMergeable, match="wide"):
        merged.merge(wide_learner(seed=1).fit(X, y))


@pytest.mark.parametrize("ordering", [iid, class_iid])
@pytest.mark.parametrize("learner", [RecursiveRLSC(), AutoClassifier(sample_size=100)])
def test_any_order_gives_the_same_answers(stream, learner, ordering):
    X, y = stream
    as_it_came = wide_learner().set_params(learn=clone(learner)).fit(X, y).decision_function(X)
    ordered = wide_learner().set_params(learn=clone(learner))
    for part in np.array_split(ordering(y, 1), 5):
        ordered.partial_fit(X[part], y[part])
    gap = np.abs(ordered.decision_function(X) - as_it_came).max()
    assert gap < 1e-8 * np.abs(as_it_came).max()


def test_a_refused_block_changes_nothing(stream):
    X, y = stream
    learner = wide_learner().fit(X, y)
    before = learner.decision_function(X)
    worse = X.copy()
    worse[-1, 0] = np.nan
    for bad in ((worse, y), (X, y[:-1]), (X, [*y[:-1], None])):
        with pytest.raises(ValueError):  # noqa: PT011
            learner.partial_fit(*bad)
    with pytest.raises(WrongWidth):
        learner.partial_fit(X[:, :5], y)
    assert np.array_equal(learner.decision_function(X), before)


def test_a_file_holds_the_seed_and_not_the_weights(stream, tmp_path):
    X, y = stream
    steps = [("wide", RandomFeatures(n_components=500)), ("learn", RecursiveRLSC())]
    learner = StreamPipeline(steps).fit(X, y)
    save(learner, tmp_path / "wide")
    again = load(tmp_path / "wide")
    assert np.array_equal(again.decision_function(X), learner.decision_function(X))
    assert (tmp_path / "wide").stat().st_size < 1.2 * 8 * 500**2
