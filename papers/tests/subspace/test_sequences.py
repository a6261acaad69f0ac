"""The scenes and their ground truth."""

import numpy as np
import pytest
from everlearn_papers.subspace.sequences import (
    OCCLUDERS,
    PHOTOGRAPHS,
    changing_scene,
    occluder_patch,
)

from everlearn.errors import InvalidParameter


@pytest.mark.parametrize("occluder", OCCLUDERS)
def test_images_differ_from_the_ground_truth_only_behind_the_occluder(occluder):
    scene = changing_scene(n_images=20, shape=(30, 40), occluder=occluder, occluder_side=0.4)
    assert np.array_equal(scene.images[~scene.occluded], scene.truth[~scene.occluded])
    assert np.abs(scene.images - scene.truth)[scene.occluded].mean() > 10
    sizes = scene.occluded.sum(axis=(1, 2))
    assert sorted(set(sizes.tolist())) == [0, 12 * 12]
    assert (sizes > 0).sum() == 16


@pytest.mark.parametrize("photograph", PHOTOGRAPHS)
def test_illumination_grows_and_the_shadow_moves(photograph):
    scene = changing_scene(photograph=photograph, n_images=10, shape=(30, 40), noise=0.0)
    lit = changing_scene(
        photograph=photograph, n_images=10, shape=(30, 40), noise=0.0, shadow_depth=0.0
    )
    assert np.all(np.diff(lit.truth.mean(axis=(1, 2))) > 0)
    darkest = (scene.truth / lit.truth).mean(axis=1).argmin(axis=1)
    assert darkest[0] == 0
    assert darkest[-1] == 39
    assert np.all(np.diff(darkest) > 0)
    assert 0 <= scene.truth.min() < scene.truth.max() <= 255


def test_the_same_seed_gives_the_same_scene():
    first, second, other = (changing_scene(n_images=4, random_state=s) for s in (1, 1, 2))
    assert np.array_equal(first.images, second.images)
    assert not np.array_equal(first.images, other.images)


def test_noise_has_the_requested_standard_deviation():
    quiet, noisy = (changing_scene(n_images=10, noise=s).truth for s in (0.0, 3.0))
    np.testing.assert_allclose((noisy - quiet).std(), 3.0, rtol=0.02)


def test_unknown_kinds_are_refused():
    with pytest.raises(InvalidParameter, match="occluder is one of"):
        changing_scene(occluder="cloud")
    with pytest.raises(InvalidParameter, match="occluder is one of"):
        occluder_patch("cloud", 4, np.random.default_rng(0))
    with pytest.raises(InvalidParameter, match="photograph is one of"):
        changing_scene(photograph="cat.jpg")
