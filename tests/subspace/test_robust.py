"""RobustStreamingPCA: the examples of the paper, repair, and bad input."""

import numpy as np
import pytest
from everlearn_papers.subspace.sequences import changing_scene
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import check_estimator

import everlearn
from everlearn import RobustStreamingPCA, StreamingPCA
from everlearn.errors import (
    InvalidParameter,
    InvalidWeight,
    NotFinite,
    NothingVisible,
    NotMergeable,
    WrongShape,
    WrongWidth,
)

from .oracles import batch_pca, subspace_distance


def low_rank(rng, n_images=80, n_features=60, rank=3, noise=0.1):
    """Images with three strong directions and a little noise."""
    mixing = np.linalg.qr(rng.normal(size=(n_features, rank)))[0].T
    strength = np.array([50.0, 40.0, 30.0])[:rank]
    return (
        100.0
        + rng.normal(size=(n_images, rank)) * strength @ mixing
        + noise * rng.normal(size=(n_images, n_features))
    )


def with_outliers(X, rng, share=0.1):
    mask = rng.random(X.shape) < share
    return np.where(mask, rng.uniform(150, 255, X.shape), X), mask


def angle(first, second):
    return np.degrees(np.arccos(min(1.0, abs(float(first @ second)))))


@pytest.mark.parametrize("shuffled", [False, True])
def test_two_dimensional_example(shuffled):
    """Fig. 1: 41 points on a line, the second coordinate of five of them far off, 100 draws.

    A quarter of the draws in the order from left to right.
    """
    robust, plain, found, false = [], [], [], []
    for seed in range(0, 100, 1 if shuffled else 4):
        rng = np.random.default_rng(seed)
        along = np.linspace(-1, 1, 41)
        clean = 20 + np.column_stack([10 * along, 6 * along]) + rng.normal(scale=0.3, size=(41, 2))
        bad = rng.choice(41, 5, replace=False)
        X = clean.copy()
        X[bad, 1] += rng.choice([-1, 1], 5) * 12 * rng.uniform(0.8, 1.2, 5)
        order = rng.permutation(41) if shuffled else np.arange(41)
        axis = StreamingPCA(n_components=1).fit(clean).components_[0]
        pca = RobustStreamingPCA(n_components=1).fit(X[order])
        robust.append(angle(axis, pca.components_[0]))
        plain.append(angle(axis, StreamingPCA(n_components=1).fit(X[order]).components_[0]))
        flagged = np.flatnonzero(pca.outliers(X)[0].any(axis=1))
        found.append(len(np.intersect1d(flagged, bad)))
        false.append(len(np.setdiff1d(flagged, bad)))
    assert np.median(robust) <= 0.1 * np.median(plain)
    assert np.mean(found) > 4
    assert np.mean(false) < 0.5


@pytest.fixture(scope="module")
def scene():
    return changing_scene(shape=(40, 50), random_state=3)


def flat(images):
    return images.reshape(len(images), -1)


def truth_error(scene, mean, components):
    difference = flat(scene.truth) - mean
    return ((difference - difference @ components.T @ components) ** 2).mean()


def best_error(scene, n_components):
    mean, components, _ = batch_pca(flat(scene.truth), n_components)
    return truth_error(scene, mean, components)


def clean_and_spread(scene):
    """Unoccluded images, and all others in a fixed random order."""
    clean = np.flatnonzero(~scene.occluded.any(axis=(1, 2)))
    seed = np.unique([clean[np.abs(clean - place).argmin()] for place in range(0, 100, 6)])
    rest = np.random.default_rng(0).permutation(np.setdiff1d(np.arange(100), seed))
    return seed, rest


def test_known_outliers_cost_almost_nothing(scene):
    seed, rest = clean_and_spread(scene)
    X, mask = flat(scene.images), flat(scene.occluded)
    pca = RobustStreamingPCA(n_components=5, image_shape=scene.shape).start(X[seed])
    pca.partial_fit(X[rest], mask=mask[rest])
    assert truth_error(scene, pca.mean_, pca.components_) < 1.2 * best_error(scene, 5)


def test_missing_pixels_from_the_very_first_image(scene):
    """Without a seed, missing pixels of the first images are filled in from each other."""
    order = np.random.default_rng(0).permutation(100)
    X = np.where(scene.occluded, np.nan, scene.images)
    pca = RobustStreamingPCA(n_components=5, image_shape=scene.shape).fit(flat(X)[order])
    assert truth_error(scene, pca.mean_, pca.components_) < 1.2 * best_error(scene, 5)


def test_a_good_seed_finds_the_outliers(scene):
    seed, rest = clean_and_spread(scene)
    X, mask = flat(scene.images), flat(scene.occluded)
    pca = RobustStreamingPCA(n_components=5, image_shape=scene.shape).start(X[seed])
    pca.partial_fit(X[rest])
    assert truth_error(scene, pca.mean_, pca.components_) < 1.5 * best_error(scene, 5)
    found, scores = pca.outliers(X)
    changed = mask & (np.abs(X - flat(scene.truth)) > pca.threshold_)
    assert (found & mask).sum() / found.sum() >= 0.95
    assert (found & changed).sum() / changed.sum() >= 0.95
    assert np.array_equal(found, scores > 1)
    repaired = pca.restore(X)
    assert np.mean((repaired - flat(scene.truth)) ** 2) < 0.02 * np.mean(
        (X - flat(scene.truth)) ** 2
    )
    assert np.array_equal(repaired[~found], X[~found])


def test_the_stream_itself_gives_a_good_start(scene):
    order = np.random.default_rng(1).permutation(100)
    X = flat(scene.images)[order]
    robust = RobustStreamingPCA(n_components=5, image_shape=scene.shape).fit(X)
    plain = StreamingPCA(n_components=5).fit(X)
    best = best_error(scene, 5)
    assert truth_error(scene, robust.mean_, robust.components_) < 2.0 * best
    assert truth_error(scene, plain.mean_, plain.components_) > 10.0 * best


def test_a_seed_from_one_end_makes_the_rest_an_outlier(scene):
    """As the paper says of a seed that does not cover the sequence."""
    clean = np.flatnonzero(~scene.occluded.any(axis=(1, 2)))[:4]
    rest = np.random.default_rng(0).permutation(np.setdiff1d(np.arange(100), clean))
    X = flat(scene.images)
    pca = RobustStreamingPCA(n_components=5, image_shape=scene.shape).start(X[clean])
    pca.partial_fit(X[rest])
    mean, components, _ = batch_pca(X, 5)
    error = truth_error(scene, pca.mean_, pca.components_)
    assert error > truth_error(scene, mean, components)


def test_clean_images_give_the_subspace_of_plain_pca(rng):
    X = low_rank(rng)
    robust = RobustStreamingPCA(n_components=3).fit(X)
    _, components, _ = batch_pca(X, 3)
    assert subspace_distance(components, robust.components_) < 0.01
    assert robust.n_rejected_ == 0
    assert robust.outliers(X)[0].mean() < 1e-3


def test_coefficients_come_from_the_inliers(rng):
    X = low_rank(rng)
    pca = RobustStreamingPCA(n_components=3).fit(X)
    spoiled, mask = with_outliers(X[:20], rng)
    expected = StreamingPCA(n_components=3, guard=80).fit(X)
    straight = (X[:20] - pca.mean_) @ pca.components_.T
    np.testing.assert_allclose(pca.transform(spoiled), straight, atol=1.0)
    np.testing.assert_allclose(pca.transform(spoiled, mask=mask), straight, atol=1.0)
    assert np.abs(expected.transform(spoiled) - expected.transform(X[:20])).max() > 30
    missing = np.where(mask, np.nan, X[:20])
    np.testing.assert_allclose(pca.restore(missing), X[:20], atol=1.5)
    np.testing.assert_allclose(pca.transform_one(missing[0]), pca.transform(missing)[0])
    assert pca.reconstruction_error(missing).max() < 0.05


def test_answers_do_not_depend_on_other_rows(rng):
    X = low_rank(rng)
    pca = RobustStreamingPCA(n_components=3).fit(X)
    spoiled, _ = with_outliers(X, rng)
    together = pca.restore(spoiled)
    for i in (0, 7, 41):
        assert np.array_equal(pca.restore(spoiled[i : i + 1])[0], together[i])


def test_an_image_that_is_all_outliers_is_not_learned(rng):
    X = low_rank(rng)
    pca = RobustStreamingPCA(n_components=3).fit(X)
    before = pca.components_.copy()
    pca.partial_fit(np.vstack([rng.uniform(0, 255, size=60), X[0]]))
    assert pca.accepted_.tolist() == [False, True]
    assert (pca.n_rejected_, pca.n_samples_seen_) == (1, 81)
    pca.learn_one(rng.uniform(0, 255, size=60))
    assert pca.accepted_.tolist() == [False]
    assert subspace_distance(before, pca.components_) < 0.01


def test_all_pixels_missing_is_refused_and_changes_nothing(rng):
    X = low_rank(rng)
    pca = RobustStreamingPCA(n_components=3).fit(X)
    before, notes = pca._state()
    for ask in (pca.partial_fit, pca.transform, pca.restore, pca.outliers):
        with pytest.raises(NothingVisible, match="row 1 has no visible pixel"):
            ask(np.vstack([X[0], np.full(60, np.nan)]))
    with pytest.raises(NothingVisible):
        pca.learn_one(X[0], mask=np.ones(60, dtype=bool))
    after, notes_after = pca._state()
    assert all(np.array_equal(before[key], after[key]) for key in before)
    assert notes["n_images"] == notes_after["n_images"]


def test_wrong_input_is_refused(rng):
    X = low_rank(rng)
    pca = RobustStreamingPCA(n_components=3).fit(X)
    with pytest.raises(WrongWidth):
        pca.partial_fit(np.ones((2, 59)))
    with pytest.raises(NotFinite):
        pca.partial_fit(np.full((1, 60), np.inf))
    with pytest.raises(WrongShape, match="mask is bool of shape"):
        pca.partial_fit(X, mask=np.zeros((2, 60), dtype=bool))
    with pytest.raises(WrongShape, match="mask is float64"):
        pca.partial_fit(X, mask=np.zeros(X.shape))
    with pytest.raises(WrongShape, match="one vector"):
        pca.learn_one(X)
    with pytest.raises(WrongShape, match="does not have the 60 pixels"):
        RobustStreamingPCA(image_shape=(7, 9)).fit(X)
    with pytest.raises(NotFittedError):
        RobustStreamingPCA().restore(X)


@pytest.mark.parametrize(
    "parameters",
    [
        {"n_components": None},
        {"n_components": 0.5},
        {"threshold": -1.0},
        {"threshold_factor": 0.0},
        {"n_hypotheses": 0},
        {"window": 0.0},
        {"most_outliers": 1.5},
        {"seed_images": 0},
        {"smoothing": 3},
        {"guard": -1},
    ],
)
def test_parameters_out_of_range(parameters):
    with pytest.raises(InvalidParameter, match=next(iter(parameters))):
        RobustStreamingPCA(**parameters).fit(np.eye(5))


@pytest.mark.parametrize("n_images", [1, 2, 3, 7])
def test_fewer_images_than_components(rng, n_images):
    X = low_rank(rng)[:n_images]
    pca = RobustStreamingPCA(n_components=10).fit(X)
    assert pca.n_samples_seen_ == n_images
    assert pca.transform(X).shape == (n_images, 10)
    assert np.isfinite(pca.restore(X)).all()


def test_constant_images_and_the_mean_itself():
    X = np.full((60, 12), 7.0)
    pca = RobustStreamingPCA(n_components=2).fit(X)
    assert pca.rank_ == 0
    np.testing.assert_allclose(pca.restore(X[:1]), X[:1])
    pca.learn_one(pca.mean_.copy())
    assert pca.accepted_.all()
    spoiled = X[0].copy()
    spoiled[5] = 200.0
    np.testing.assert_allclose(pca.restore(spoiled[None]), X[:1])


def test_images_are_buffered_until_the_start_but_answered_immediately(rng):
    X = low_rank(rng)
    pca = RobustStreamingPCA(n_components=3, seed_images=30)
    for x in X[:29]:
        pca.learn_one(x)
    assert not pca.started_
    assert len(pca.waiting_) == pca.n_samples_seen_ == 29
    early = pca.components_
    pca.learn_one(X[29])
    assert pca.started_
    assert len(pca.waiting_) == 0
    assert subspace_distance(early, pca.components_) < 0.05
    pca.partial_fit(X[30:])
    assert pca.n_samples_seen_ == 80


def test_one_by_one_equals_a_block(rng):
    X, _ = with_outliers(low_rank(rng), rng, share=0.05)
    block = RobustStreamingPCA(n_components=3, seed_images=30).fit(X)
    single = RobustStreamingPCA(n_components=3, seed_images=30)
    for x in X:
        single.learn_one(x)
    assert np.array_equal(single.components_, block.components_)
    assert single.threshold_ == block.threshold_


def test_merge_adds_the_images_of_the_other(rng):
    X = low_rank(rng, n_images=160)
    first, second = (RobustStreamingPCA(n_components=3).fit(part) for part in (X[:90], X[90:]))
    first.merge(second)
    _, components, _ = batch_pca(X, 3)
    assert first.n_samples_seen_ == 160
    assert subspace_distance(components, first.components_) < 0.02
    waiting = RobustStreamingPCA(n_components=3).fit(X[:10])
    waiting.merge(second)
    assert waiting.started_
    assert waiting.n_samples_seen_ == 80
    both = RobustStreamingPCA(n_components=3).fit(X[:30])
    both.merge(RobustStreamingPCA(n_components=3).fit(X[30:60]))
    one_stream = RobustStreamingPCA(n_components=3).fit(X[:60])
    assert np.array_equal(both.components_, one_stream.components_)
    second.merge(RobustStreamingPCA(n_components=3).fit(X[:10]))
    assert second.n_samples_seen_ == 80
    with pytest.raises(NotMergeable):
        first.merge(StreamingPCA(n_components=3).fit(X))


@pytest.mark.parametrize("n_images", [20, 70])
def test_a_loaded_one_continues_identically(rng, tmp_path, n_images):
    X, _ = with_outliers(low_rank(rng), rng, share=0.05)
    X[3, :5] = np.nan
    pca = RobustStreamingPCA(n_components=3).fit(X[:n_images])
    everlearn.save(pca, tmp_path / "pca")
    loaded = everlearn.load(tmp_path / "pca")
    assert np.array_equal(loaded.restore(X), pca.restore(X))
    pca.partial_fit(X[n_images:])
    loaded.partial_fit(X[n_images:])
    assert np.array_equal(loaded.components_, pca.components_)
    assert loaded.threshold_ == pca.threshold_


@pytest.mark.parametrize("parameters", [{}, {"n_components": 2, "seed_images": 10}])
def test_scikit_learn_contract(parameters):
    results = check_estimator(RobustStreamingPCA(**parameters), on_fail=None, on_skip=None)
    failed = [result["check_name"] for result in results if result["status"] == "failed"]
    assert not failed


def weighted_problem(n=70):
    rng = np.random.default_rng(5)
    images = rng.normal(size=(n, 3)) @ rng.normal(size=(3, 40)) + 0.01 * rng.normal(size=(n, 40))
    occluded = images.copy()
    for row in range(0, n, 5):
        occluded[row, rng.integers(0, 40, 4)] += 30.0
    return images, occluded, rng.uniform(0.2, 3.0, n)


def test_weights_count_as_in_plain_pca_where_nothing_is_an_outlier():
    images, _, weights = weighted_problem()
    pca = RobustStreamingPCA(n_components=3, seed_images=20, threshold=50.0)
    pca.fit(images[:30], weights=weights[:30]).partial_fit(images[30:], weights=weights[30:])
    plain = StreamingPCA(n_components=3).fit(images, sample_weight=weights)
    np.testing.assert_allclose(pca.mean_, plain.mean_, atol=1e-8)
    np.testing.assert_allclose(pca.explained_variance_, plain.explained_variance_, rtol=1e-6)
    unweighted = RobustStreamingPCA(n_components=3, seed_images=20, threshold=50.0).fit(images)
    assert np.abs(unweighted.mean_ - pca.mean_).max() > 1e-3


def test_an_image_of_weight_zero_is_ignored():
    _, occluded, weights = weighted_problem()
    weights[::3] = 0.0
    pca = RobustStreamingPCA(n_components=3, seed_images=20).fit(occluded, weights=weights)
    shown = RobustStreamingPCA(n_components=3, seed_images=20)
    shown.fit(occluded[weights > 0], weights=weights[weights > 0])
    np.testing.assert_allclose(pca.mean_, shown.mean_)
    assert not pca.accepted_[::3].any()
    assert pca.accepted_[weights > 0].tolist() == shown.accepted_.tolist()


def test_kept_coefficients_are_those_of_the_restored_images():
    images, occluded, weights = weighted_problem()
    pca = RobustStreamingPCA(n_components=3, seed_images=20, keep_coefficients=True)
    early = pca.fit(occluded[:15], weights=weights[:15])  # all of them still wait
    assert early.coefficients_.shape == (15, 3)
    pca.partial_fit(occluded[15:], weights=weights[15:])
    assert pca.accepted_.all()
    again = pca.inverse_transform(pca.coefficients_)
    np.testing.assert_allclose(again, images, atol=0.2)  # the images without their outliers
    with pytest.raises(AttributeError, match="keep_coefficients"):
        RobustStreamingPCA(n_components=3).fit(images).coefficients_  # noqa: B018


def test_weights_and_coefficients_survive_a_file_while_images_wait(tmp_path):
    _, occluded, weights = weighted_problem()
    pca = RobustStreamingPCA(n_components=3, seed_images=40, keep_coefficients=True)
    pca.fit(occluded[:30], weights=weights[:30])
    everlearn.save(pca, tmp_path / "pca")
    loaded = everlearn.load(tmp_path / "pca")
    for one in (pca, loaded):
        one.partial_fit(occluded[30:], weights=weights[30:])
    assert np.array_equal(pca.components_, loaded.components_)
    assert np.array_equal(pca.coefficients_, loaded.coefficients_)


def test_invalid_weights_are_refused_before_learning():
    images, _, _ = weighted_problem()
    pca = RobustStreamingPCA(n_components=3)
    with pytest.raises(InvalidWeight):
        pca.fit(images, weights=-np.ones(len(images)))
    assert not hasattr(pca, "n_features_in_")
