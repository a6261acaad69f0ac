"""Inconsistent files are refused when they are loaded, not when they are used."""

import numpy as np
import pytest

from everlearn import RobustStreamingPCA, StreamingPCA


@pytest.mark.parametrize(
    "pca",
    [
        StreamingPCA(n_components=3),
        StreamingPCA(n_components=3, keep_coefficients=True),
        RobustStreamingPCA(n_components=3, seed_images=50),
        RobustStreamingPCA(n_components=3, seed_images=10),
    ],
    ids=["plain", "coefficients", "waiting", "started"],
)
def test_arrays_of_another_shape_are_refused(rng, pca):
    arrays, notes = pca.fit(rng.standard_normal((30, 8)))._state()
    for name, array in arrays.items():
        longer = np.concatenate([array, np.zeros((*array.shape[:-1], 1), array.dtype)], axis=-1)
        fresh = type(pca)(**pca.get_params(deep=False))
        with pytest.raises(ValueError, match=r"has shape .*, expected"):
            fresh._restore(arrays | {name: longer}, notes)
