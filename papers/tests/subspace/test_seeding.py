"""The paper's robust batch PCA, and the choice of a seed."""

import numpy as np
from everlearn_papers.subspace.seeding import choose_seed, robust_batch_pca
from sklearn.decomposition import PCA

from everlearn.subspace.seeding import batch_pca
from tests.subspace.oracles import subspace_distance


def images(rng, n_images=60, n_features=80):
    mixing = np.linalg.qr(rng.normal(size=(n_features, 3)))[0].T
    clean = 50 + rng.normal(size=(n_images, 3)) * [40, 30, 20] @ mixing
    return clean + 0.05 * rng.normal(size=clean.shape)


def test_robust_batch_is_far_better_than_batch(rng):
    X = images(rng)
    spoiled = X.copy()
    spoiled[rng.random(X.shape) < 0.03] += 40.0
    components = PCA(3).fit(X).components_
    robust = robust_batch_pca(spoiled, 3)
    plain = batch_pca(spoiled, 3)
    assert subspace_distance(components, robust.components) < 0.02
    assert subspace_distance(components, plain.components) > 0.2


def test_seed_is_clean_and_spread():
    errors = np.full(80, 9.0)
    clean = [1, 7, 12, 25, 26, 27, 28, 33, 45, 51, 66, 72]
    errors[clean] = np.linspace(1, 2, len(clean))
    seed = choose_seed(errors, 8)
    assert len(np.unique(seed // 10)) == 8
    assert set(seed) <= set(clean)
    everything = choose_seed(errors, 200)
    assert np.array_equal(everything, np.arange(80))
