"""The start: batch PCA with missing pixels, and a robust start."""

import numpy as np
from sklearn.decomposition import PCA

from everlearn.subspace.projection import RobustProjector, random_subsets
from everlearn.subspace.seeding import (
    batch_pca,
    complete_batch,
    robust_start,
)

from .oracles import subspace_distance


def images(rng, n_images=60, n_features=80):
    mixing = np.linalg.qr(rng.normal(size=(n_features, 3)))[0].T
    clean = 50 + rng.normal(size=(n_images, 3)) * [40, 30, 20] @ mixing
    return clean + 0.05 * rng.normal(size=clean.shape)


def test_batch_pca_is_pca(rng):
    X = images(rng)
    ours, theirs = batch_pca(X, 3), PCA(3).fit(X)
    assert subspace_distance(theirs.components_, ours.components) < 1e-9
    np.testing.assert_allclose(ours.variances, theirs.explained_variance_)
    reconstructed = theirs.inverse_transform(theirs.transform(X))
    np.testing.assert_allclose(ours.completed, reconstructed, atol=1e-9)


def test_missing_pixels_are_restored(rng):
    X = images(rng)
    missing = rng.random(X.shape) < 0.3
    fit = complete_batch(np.where(missing, 0.0, X), missing, 3, scale=0.05)
    assert np.array_equal(fit.completed[~missing], X[~missing])
    assert np.abs(fit.completed - X)[missing].max() < 0.5
    assert np.abs(X.mean(axis=0) - X)[missing].max() > 10


def projector_for(mean, components, variances, scale):
    return RobustProjector(
        mean,
        components,
        variances,
        scale=scale,
        threshold=8 * scale,
        subsets=random_subsets(len(mean), len(components), 24, None, 0.4, 0),
    )


def test_missing_pixels_are_filled_from_other_images(rng):
    X = images(rng)
    spoiled = X.copy()
    outliers = rng.random(X.shape) < 0.05
    spoiled[outliers] += 40.0
    none, nobody = np.zeros(X.shape, dtype=bool), np.zeros(len(X), dtype=bool)
    seed = robust_start(spoiled, none, nobody, 3, projector_for)
    assert (seed.outliers & outliers).sum() > 0.9 * outliers.sum()
    assert (seed.outliers & ~outliers).sum() < 0.02 * outliers.sum()
    assert np.abs(seed.completed - X)[seed.outliers].max() < 5.0


def test_the_scale_is_that_of_unseen_images(rng):
    X = rng.normal(size=(12, 200))
    none, nobody = np.zeros(X.shape, dtype=bool), np.zeros(len(X), dtype=bool)
    seed = robust_start(X, none, nobody, 8, projector_for)
    seen = np.median(np.abs(X - batch_pca(X, 8).completed)) * 1.4826
    assert 0.85 < seed.scale < 1.2
    assert seen < 0.7 * seed.scale


def test_trusted_images_are_only_completed(rng):
    X = images(rng)
    missing = rng.random(X.shape) < 0.1
    odd = np.where(missing, 0.0, X)
    odd[5, 7] = 255.0
    missing[5, 7] = False
    everyone = np.ones(len(X), dtype=bool)
    seed = robust_start(odd, missing, everyone, 3, projector_for)
    assert np.array_equal(seed.outliers, missing)
    assert seed.completed[5, 7] == 255.0
