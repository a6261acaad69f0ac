"""The paper's robust batch PCA, and the choice of the seed images.

``robust_batch_pca`` is expectation-maximisation with reweighting after Skočaj, Bischof and
Leonardis (2002): every pixel is blended with its reconstruction according to its residual e,

    w = (c² / (c² + e²))²,     x̂ = w x + (1 − w) y        (Geman-McClure weights)

the components are computed from the blended images, and the scale c is lowered from the largest
residuals to a few times the typical one. ``choose_seed`` picks the images it explains best, evenly
spread over the sequence, as seed of the incremental method.
"""

import numpy as np
from numpy.typing import NDArray

from everlearn.arrays import Array, Mask
from everlearn.subspace.seeding import BatchFit, batch_pca, complete_batch, typical_size

# The scale c: initial quantile of |e|, factor per round, lower limit in typical residuals.
FIRST_QUANTILE = 0.99
SINKING = 0.8
LAST_SCALES = 2.5
BATCH_ROUNDS = 30


def robust_batch_pca(X: Array, n_components: int, *, missing: Mask | None = None) -> BatchFit:
    """PCA of images with outlying pixels, by reweighting; missing pixels have weight zero.

    ``completed`` of the result holds the reconstructions.
    """
    if missing is None:
        missing = np.zeros(X.shape, dtype=bool)
    observed = complete_batch(X, missing, n_components, scale=0.0).completed
    fit = batch_pca(observed, n_components)
    size = np.abs(observed - fit.completed)
    scale = float(np.quantile(size, FIRST_QUANTILE))
    for _ in range(BATCH_ROUNDS):
        typical = typical_size(size[~missing], fit.mean)
        scale = max(SINKING * scale, LAST_SCALES * typical)
        weights = np.where(missing, 0.0, 1.0 / (1.0 + (size / scale) ** 2) ** 2)
        fit = batch_pca(weights * observed + (1.0 - weights) * fit.completed, n_components)
        size = np.abs(observed - fit.completed)
    return fit


def choose_seed(errors: Array, n_images: int, *, n_bins: int = 8) -> NDArray[np.intp]:
    """Indices of the seed images: lowest error, spread evenly over the sequence.

    The sequence is divided into ``n_bins`` bins; the best image of each is taken, then the second
    best of each, and so on until there are ``n_images``.
    """
    bins = np.array_split(np.arange(len(errors)), min(n_bins, n_images, len(errors)))
    ranked = [images[np.argsort(errors[images], kind="stable")] for images in bins]
    by_rank = [
        sorted((r[rank] for r in ranked if rank < len(r)), key=lambda image: errors[image])
        for rank in range(max(len(images) for images in ranked))
    ]
    order = [image for images in by_rank for image in images]
    return np.sort(np.array(order[:n_images], dtype=np.intp))
