"""StreamingPCA against batch PCA, against the published steps, and against bad input."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.decomposition import PCA, IncrementalPCA
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import check_estimator

import everlearn
from everlearn import StreamingPCA
from everlearn.errors import (
    InvalidParameter,
    InvalidWeight,
    NotFinite,
    NotMergeable,
    WrongShape,
    WrongWidth,
)

from .oracles import batch_pca, published_incremental_pca, subspace_distance

# The weight of an image is multiplied by 0.9 with every further one.
FADING = np.log(0.5) / np.log(0.9)


def faint_tail(rng, n_images=60, n_features=40):
    """Images whose directions fade quickly, as those of real images do, far from the origin."""
    mixing = np.linalg.qr(rng.normal(size=(n_features, n_features)))[0]
    return 100.0 + rng.normal(size=(n_images, n_features)) * 0.7 ** np.arange(n_features) @ mixing


@pytest.mark.parametrize("guard", [0, 3])
@pytest.mark.parametrize(("n_images", "n_features"), [(20, 50), (50, 20), (2, 5)])
def test_without_a_cut_the_subspace_is_that_of_batch_pca(rng, n_images, n_features, guard):
    X = 10.0 + rng.normal(size=(n_images, n_features))
    pca = StreamingPCA(n_components=None, guard=guard)
    for x in X:
        pca.learn_one(x)
    mean, components, scatter = batch_pca(X)
    assert subspace_distance(components, pca.components_) < 1e-8
    np.testing.assert_allclose(pca.mean_, mean, atol=1e-12)
    np.testing.assert_allclose(pca.explained_variance_, scatter / (n_images - 1), rtol=1e-8)
    signs = np.sign(np.sum(components * pca.components_, axis=1))
    np.testing.assert_allclose(pca.components_, signs[:, None] * components, atol=1e-7)


def test_attributes_and_methods_agree_with_scikit_learn(rng):
    X = faint_tail(rng)
    ours, theirs = StreamingPCA(n_components=None).fit(X), PCA().fit(X)
    # Eigenvalues of a scatter matrix are right to rounding of its largest, not of each.
    np.testing.assert_allclose(
        ours.explained_variance_ratio_, theirs.explained_variance_ratio_, atol=1e-14
    )
    np.testing.assert_allclose(ours.inverse_transform(ours.transform(X)), X, atol=1e-9)
    six = StreamingPCA(n_components=6, guard=60).fit(X)
    theirs = PCA(6, svd_solver="full").fit(X)
    np.testing.assert_allclose(six.components_, theirs.components_, atol=1e-9)
    np.testing.assert_allclose(six.transform(X), theirs.transform(X), atol=1e-9)
    np.testing.assert_allclose(six.noise_variance_, theirs.noise_variance_, rtol=1e-9)
    error = ((theirs.inverse_transform(theirs.transform(X)) - X) ** 2).mean(axis=1)
    np.testing.assert_allclose(six.reconstruction_error(X), error, atol=1e-12)


@pytest.mark.parametrize("n_components", [1, 4, 9])
def test_without_guard_it_is_the_published_algorithm(rng, n_components):
    X = faint_tail(rng)
    pca = StreamingPCA(n_components=n_components, guard=0, keep_coefficients=True).fit(X)
    mean, components, coefficients = published_incremental_pca(X, n_components)
    signs = np.sign(np.sum(components * pca.components_, axis=1))
    np.testing.assert_allclose(pca.mean_, mean, atol=1e-11)
    np.testing.assert_allclose(pca.components_, signs[:, None] * components, atol=1e-8)
    np.testing.assert_allclose(pca.coefficients_, signs * coefficients, atol=1e-8)


def test_guard_brings_the_subspace_closer_to_batch(rng):
    X = rng.normal(size=(300, 60)) * 0.95 ** np.arange(60)
    batch = PCA(8).fit(X)
    best = ((X - batch.inverse_transform(batch.transform(X))) ** 2).mean()
    excess = [
        StreamingPCA(n_components=8, guard=guard).fit(X).reconstruction_error(X).mean() / best - 1
        for guard in (0, 4, 12)
    ]
    assert excess[0] > 1.5 * excess[1] > 2.0 * excess[2] > 0


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    splits=st.lists(st.integers(1, 15), min_size=1, max_size=8),
    n_components=st.sampled_from([1, 3, 7, 0.8, None]),
    guard=st.integers(0, 5),
)
def test_blocks_equal_rows_one_by_one(seed, splits, n_components, guard):
    rng = np.random.default_rng(seed)
    X = faint_tail(rng, n_images=sum(splits), n_features=12)
    settings_ = {"n_components": n_components, "guard": guard, "keep_coefficients": True}
    one_by_one, in_blocks = StreamingPCA(**settings_), StreamingPCA(**settings_)
    for x in X:
        one_by_one.learn_one(x)
    for block in np.split(X, np.cumsum(splits)[:-1]):
        in_blocks.partial_fit(block)
    np.testing.assert_allclose(in_blocks.mean_, one_by_one.mean_, atol=1e-10)
    reconstructions = [pca.inverse_transform(pca.coefficients_) for pca in (one_by_one, in_blocks)]
    np.testing.assert_allclose(*reconstructions, atol=1e-6)


def test_deferred_coefficients_are_the_projections_where_nothing_is_cut(rng):
    X = faint_tail(rng, n_images=90, n_features=10)
    pca = StreamingPCA(n_components=10, guard=0, keep_coefficients=True)
    for stop, x in enumerate(X, start=1):
        pca.learn_one(x)
        if stop in (1, 2, 17, 18, 90):
            np.testing.assert_allclose(pca.coefficients_, pca.transform(X[:stop]), atol=1e-10)


def test_keeping_coefficients_does_not_change_the_subspace(rng):
    X = faint_tail(rng)
    plain = StreamingPCA(n_components=5).fit(X)
    keeping = StreamingPCA(n_components=5, keep_coefficients=True).fit(X)
    assert np.array_equal(plain.components_, keeping.components_)
    with pytest.raises(AttributeError, match="keep_coefficients=True"):
        _ = plain.coefficients_


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_whole_weights_count_as_repetitions(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(12, 6))
    weights = rng.integers(0, 4, size=12).astype(float)
    weights[0] = 1.0
    weighted = StreamingPCA(n_components=None).fit(X, sample_weight=weights)
    mean, components, _ = batch_pca(np.repeat(X, weights.astype(int), axis=0))
    np.testing.assert_allclose(weighted.mean_, mean, atol=1e-12)
    assert weighted.rank_ == len(components)
    assert subspace_distance(components, weighted.components_) < 1e-8


def test_forgetting_is_a_geometric_weight(rng):
    X = faint_tail(rng, n_images=30, n_features=8)
    pca = StreamingPCA(n_components=None, half_life=FADING).fit(X)
    weights = 0.9 ** np.arange(29, -1, -1)
    mean, components, scatter = batch_pca(X, weights=weights)
    np.testing.assert_allclose(pca.mean_, mean, rtol=1e-12)
    assert subspace_distance(components[:3], pca.components_[:3]) < 1e-8
    freedom = weights.sum() - (weights**2).sum() / weights.sum()
    np.testing.assert_allclose(pca.explained_variance_, scatter / freedom, rtol=1e-8)


def test_forgetting_follows_a_change_of_scene(rng):
    before, after = np.eye(10)[:2], np.eye(10)[5:7]
    X = np.vstack([rng.normal(size=(200, 2)) @ before, rng.normal(size=(60, 2)) @ after])
    forgetful = StreamingPCA(n_components=2, half_life=FADING).fit(X)
    faithful = StreamingPCA(n_components=2).fit(X)
    assert subspace_distance(after, forgetful.components_) < 0.1
    assert subspace_distance(before, faithful.components_) < 0.2


def test_energy_share_keeps_as_many_directions_as_batch_pca(rng):
    X = faint_tail(rng)
    for share in (0.5, 0.9, 0.99):
        ours = StreamingPCA(n_components=share).fit(X)
        theirs = PCA(share).fit(X)
        assert ours.n_components_ == theirs.n_components_
        assert ours.transform(X).shape == theirs.transform(X).shape


def test_residual_threshold_adds_only_significant_directions(rng):
    loud = rng.normal(size=(100, 3)) * 10 @ np.eye(3, 20)
    X = loud + rng.normal(size=(100, 20)) * 0.01
    pca = StreamingPCA(n_components=None, residual_threshold=0.1).fit(X)
    assert 3 <= pca.rank_ <= 5
    assert pca.reconstruction_error(X).max() < 0.1**2
    assert StreamingPCA(n_components=None).fit(X).rank_ == 20


@pytest.mark.parametrize("keep_coefficients", [False, True])
def test_merge_without_a_cut_equals_one_stream(rng, keep_coefficients):
    X = faint_tail(rng, n_images=40, n_features=15)
    X[25:] += 3.0
    settings_ = {"n_components": None, "keep_coefficients": keep_coefficients}
    merged = StreamingPCA(**settings_).fit(X[:25]).merge(StreamingPCA(**settings_).fit(X[25:]))
    mean, _components, scatter = batch_pca(X)
    np.testing.assert_allclose(merged.mean_, mean, rtol=1e-12)
    np.testing.assert_allclose(merged.explained_variance_, scatter / 39, rtol=1e-6)
    assert merged.n_samples_seen_ == 40
    if keep_coefficients:
        np.testing.assert_allclose(merged.coefficients_, merged.transform(X), atol=1e-9)


def test_merge_of_cut_eigenspaces_is_close_to_one_stream(rng):
    X = faint_tail(rng, n_images=200)
    merged = (
        StreamingPCA(n_components=5).fit(X[:120]).merge(StreamingPCA(n_components=5).fit(X[120:]))
    )
    batch = PCA(5).fit(X)
    best = ((X - batch.inverse_transform(batch.transform(X))) ** 2).mean()
    assert best <= merged.reconstruction_error(X).mean() < 1.01 * best
    assert merged.eigenspace_.width <= 5 + 2 * merged.guard


def test_merge_refuses_what_it_cannot_add(rng):
    pca = StreamingPCA(n_components=2).fit(rng.normal(size=(5, 4)))
    with pytest.raises(NotMergeable, match="4 features, the other 3"):
        pca.merge(StreamingPCA(n_components=2).fit(rng.normal(size=(5, 3))))
    with pytest.raises(NotMergeable, match="n_components differs"):
        pca.merge(StreamingPCA(n_components=3).fit(rng.normal(size=(5, 4))))
    with pytest.raises(NotMergeable, match="itself"):
        pca.merge(pca)
    with pytest.raises(NotMergeable, match="its own kind"):
        pca.merge(PCA())
    into_empty = StreamingPCA(n_components=2).merge(pca)
    np.testing.assert_allclose(into_empty.components_, pca.components_, atol=1e-12)


def test_orthonormal_after_many_updates_as_published(rng):
    pca = StreamingPCA(n_components=6, guard=0)
    for _ in range(30):
        pca.partial_fit(1e3 + rng.normal(size=(500, 16)))
    np.testing.assert_allclose(pca.components_ @ pca.components_.T, np.eye(6), atol=1e-12)


def test_memory_does_not_grow_with_the_stream(rng):
    pca = StreamingPCA(n_components=4).fit(rng.normal(size=(50, 30)))
    arrays, _ = pca._state()
    size = sum(array.nbytes for array in arrays.values())
    pca.partial_fit(rng.normal(size=(800, 30)))
    arrays, _ = pca._state()
    assert sum(array.nbytes for array in arrays.values()) <= 2 * size
    assert pca.eigenspace_.width < 4 + 2 * pca.guard


def test_steady_axes_never_move_while_nothing_is_cut(rng):
    X = faint_tail(rng, n_images=30, n_features=12)
    pca = StreamingPCA(n_components=12, axes="steady").fit(X[:8])
    early = pca.transform(X[:8])
    assert np.ptp(early, axis=0).max() > 1
    pca.partial_fit(X[8:])
    np.testing.assert_allclose(pca.transform(X[:8]), early, atol=1e-9)


def test_steady_axes_move_less_than_principal_ones(rng):
    X = faint_tail(rng, n_images=150)
    moved = {}
    for axes in ("principal", "steady"):
        pca = StreamingPCA(n_components=4, guard=4, axes=axes).fit(X[:40])
        early = pca.transform(X[:40])
        pca.partial_fit(X[40:])
        moved[axes] = np.abs(pca.transform(X[:40]) - early).mean()
    assert moved["steady"] < 0.5 * moved["principal"]


def test_steady_and_principal_axes_span_the_same(rng):
    X = faint_tail(rng, n_images=150)
    steady = StreamingPCA(n_components=4, axes="steady", keep_coefficients=True).fit(X)
    principal = StreamingPCA(n_components=4, keep_coefficients=True).fit(X)
    np.testing.assert_allclose(
        steady.inverse_transform(steady.transform(X)),
        principal.inverse_transform(principal.transform(X)),
        atol=1e-9,
    )
    np.testing.assert_allclose(
        steady.inverse_transform(steady.coefficients_),
        principal.inverse_transform(principal.coefficients_),
        atol=1e-9,
    )
    np.testing.assert_array_equal(steady.components_, principal.components_)


# Bad and odd input.


def test_one_image_is_its_own_mean():
    pca = StreamingPCA(n_components=3).fit([[1.0, 2.0, 3.0, 4.0]])
    assert pca.rank_ == 0
    np.testing.assert_array_equal(pca.mean_, [1, 2, 3, 4])
    np.testing.assert_array_equal(pca.transform([[9.0, 9, 9, 9]]), np.zeros((1, 3)))
    np.testing.assert_array_equal(pca.inverse_transform([[0.0, 0, 0]]), [[1, 2, 3, 4]])


def test_fewer_images_than_components_where_incremental_pca_refuses(rng):
    X = rng.normal(size=(3, 8))
    with pytest.raises(ValueError, match="n_components=5"):
        IncrementalPCA(5).partial_fit(X)
    pca = StreamingPCA(n_components=5).partial_fit(X)
    assert (pca.rank_, pca.n_components_) == (2, 5)
    np.testing.assert_allclose(pca.inverse_transform(pca.transform(X)), X, atol=1e-12)


def test_constant_images_add_no_direction():
    pca = StreamingPCA(n_components=2).fit(np.full((20, 9), 7.7))
    assert pca.rank_ == 0
    assert np.all(pca.explained_variance_ratio_ == 0)
    np.testing.assert_allclose(pca.reconstruction_error(np.full((1, 9), 7.7)), 0, atol=1e-25)


def test_an_image_equal_to_the_mean_only_shrinks_the_variance(rng):
    X = faint_tail(rng, n_images=20, n_features=6)
    pca = StreamingPCA(n_components=3).fit(X)
    components, variance = pca.components_.copy(), pca.explained_variance_.copy()
    pca.learn_one(pca.mean_.copy())
    assert subspace_distance(components, pca.components_) < 1e-10
    np.testing.assert_allclose(pca.explained_variance_, variance * 19 / 20, rtol=1e-9)


@pytest.mark.parametrize("n_components", [2, None])
def test_repeated_images_stay_orthonormal(n_components):
    X = np.array([[1.0, 2, 3], [4, 4, 4]]) * 1e6
    pca = StreamingPCA(n_components=n_components)
    for _ in range(50):
        pca.partial_fit(X)
    assert pca.rank_ == 1
    np.testing.assert_allclose(np.linalg.norm(pca.components_[0]), 1.0)


def test_nan_names_the_robust_form_and_changes_nothing(rng):
    pca = StreamingPCA(n_components=2).fit(rng.normal(size=(5, 4)))
    before, notes = pca._state()
    before = {key: value.copy() for key, value in before.items()}
    for learn in (pca.partial_fit, lambda X: pca.learn_one(X[1]), pca.fit, pca.transform):
        with pytest.raises(NotFinite, match="RobustStreamingPCA"):
            learn(np.array([[1.0, 2, 3, 4], [1, np.nan, 3, 4]]))
    after, notes_after = pca._state()
    assert notes_after == notes
    assert all(np.array_equal(before[key], after[key]) for key in before)


def test_wrong_sizes_are_refused(rng):
    pca = StreamingPCA(n_components=2).fit(rng.normal(size=(5, 4)))
    with pytest.raises(WrongWidth, match="4 features"):
        pca.partial_fit(np.ones((2, 5)))
    with pytest.raises(WrongWidth, match="got 3 features"):
        pca.learn_one(np.ones(3))
    with pytest.raises(WrongWidth, match="got 5 coefficients"):
        pca.inverse_transform(np.ones((2, 5)))
    with pytest.raises(WrongShape):
        pca.partial_fit(np.ones((0, 4)))
    with pytest.raises(InvalidWeight):
        pca.partial_fit(np.ones((1, 4)), sample_weight=[-1.0])
    assert pca.n_samples_seen_ == 5


@pytest.mark.parametrize(
    "parameters",
    [
        {"n_components": 0},
        {"n_components": 1.5},
        {"n_components": "mle"},
        {"n_components": True},
        {"guard": -1},
        {"guard": 1.5},
        {"half_life": 0.0},
        {"half_life": -1.0},
        {"residual_threshold": -1.0},
        {"residual_threshold": float("nan")},
        {"axes": "turning"},
    ],
)
def test_parameters_out_of_range(parameters):
    with pytest.raises(InvalidParameter, match=next(iter(parameters))):
        StreamingPCA(**parameters).fit(np.eye(3))


def test_nothing_can_be_asked_before_the_first_image():
    with pytest.raises(NotFittedError):
        StreamingPCA().transform([[1.0]])
    assert not hasattr(StreamingPCA(), "components_")


@pytest.mark.parametrize("parameters", [{}, {"n_components": None}, {"n_components": 0.9}])
def test_scikit_learn_contract(parameters):
    results = check_estimator(StreamingPCA(**parameters), on_fail=None, on_skip=None)
    failed = [result["check_name"] for result in results if result["status"] == "failed"]
    assert not failed


def test_scikit_learn_contract_of_steady_axes():
    """Steady axes depend on the order of the first images, which one check shuffles."""
    results = check_estimator(StreamingPCA(axes="steady"), on_fail=None, on_skip=None)
    failed = [result["check_name"] for result in results if result["status"] == "failed"]
    assert failed == ["check_sample_weight_equivalence_on_dense_data"]


def test_names_of_columns_and_pandas_output(rng):
    pca = StreamingPCA(n_components=2).set_output(transform="pandas")
    frame = pca.fit_transform(rng.normal(size=(6, 4)))
    assert list(frame.columns) == ["streamingpca0", "streamingpca1"]
    assert list(pca.get_feature_names_out()) == list(frame.columns)


@pytest.mark.parametrize(
    "parameters",
    [{}, {"keep_coefficients": True, "n_components": 0.9}, {"n_components": 4, "axes": "steady"}],
)
def test_a_saved_eigenspace_continues_identically(rng, tmp_path, parameters):
    X = faint_tail(rng)
    pca = StreamingPCA(**parameters).fit(X[:33])
    everlearn.save(pca, tmp_path / "pca")
    loaded = everlearn.load(tmp_path / "pca")
    assert np.array_equal(loaded.components_, pca.components_)
    pca.partial_fit(X[33:])
    loaded.partial_fit(X[33:])
    assert np.array_equal(loaded.components_, pca.components_)
    assert np.array_equal(loaded.explained_variance_ratio_, pca.explained_variance_ratio_)
    assert np.array_equal(loaded.transform(X), pca.transform(X))
    if pca.keep_coefficients:
        assert np.array_equal(loaded.coefficients_, pca.coefficients_)


def test_an_untaught_eigenspace_can_be_saved(tmp_path):
    everlearn.save(StreamingPCA(n_components=3), tmp_path / "pca")
    assert everlearn.load(tmp_path / "pca").get_params()["n_components"] == 3


def excess_over_batch(X, order, guard, n_components=30):
    """Squared reconstruction error above batch PCA: re-projected images, kept coefficients."""
    ours = StreamingPCA(n_components=n_components, guard=guard, keep_coefficients=True)
    ours.fit(X[order])
    centred = X - X.mean(axis=0)
    best = np.linalg.eigvalsh(centred @ centred.T)[:-n_components].sum() / X.shape[1]
    kept = ours.inverse_transform(ours.coefficients_)
    return (
        ours.reconstruction_error(X).sum() / best - 1,
        ((kept - X[order]) ** 2).mean(axis=1).sum() / best - 1,
    )


@pytest.mark.data("coil20.npz")
def test_coil_is_close_to_batch_pca(data_pack):
    """A sixteenth of the pixels and one k; benchmarks/subspace_coil.py measures all of it."""
    pack = data_pack("coil20.npz")
    views = pack["angle_deg"] % 10 == 0
    X = pack["images"][views][:, ::4, ::4].reshape(720, -1).astype(float)
    projected, kept = excess_over_batch(X, np.arange(720), guard=0)
    assert 0 < projected < 0.05
    assert projected < kept < 0.13
    projected, kept = excess_over_batch(X, np.arange(720), guard=8)
    assert 0 < projected < 0.015
    assert projected < kept < 0.05
