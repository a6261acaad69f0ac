"""The paper's batch method, and its choice of the images to start from.

``robust_batch_pca`` is an expectation-maximisation with
reweighting after Skočaj, Bischof and Leonardis (2002): every pixel is blended with its
reconstruction by how well it fits,

    w = (c² / (c² + e²))²,     x̂ = w x + (1 − w) y        (Geman-McClure weights)

the components are computed from the blended images, and the scale c is lowered from the largest
residuals to a few times the typical one. ``choose_seed`` picks the images it explains best, evenly
spread over the sequence, for those who want to start from a chosen few.
"""

import numpy as np
from numpy.typing import NDArray

from everlearn.arrays import Array, Mask
from everlearn.subspace.seeding import BatchFit, batch_pca, complete_batch, typical_size

# The scale c: where it starts (quantile of |e|), by how much it sinks a round, where it stays.
FIRST_QUANTILE = 0.99
SINKING = 0.8
LAST_SCALES = 2.5
BATCH_ROUNDS = 30


def robust_batch_pca(X: Array, n_components: int, *, missing: Mask | None = None) -> BatchFit:
    """PCA of images some pixels of which are outliers, by reweighting; missing ones weigh nothing.

    Its ``completed`` images are the reconstructions.
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
    """Which images to start from: those with the lowest error, spread evenly over the sequence.

    The sequence is cut into ``n_bins`` stretches; the best image of each is taken, then the
    second best of each, and so on until there are ``n_images``.
    """
    stretches = np.array_split(np.arange(len(errors)), min(n_bins, n_images, len(errors)))
    ranked = [stretch[np.argsort(errors[stretch], kind="stable")] for stretch in stretches]
    turns = [
        sorted((s[turn] for s in ranked if turn < len(s)), key=lambda image: errors[image])
        for turn in range(max(len(stretch) for stretch in ranked))
    ]
    order = [image for turn in turns for image in turn]
    return np.sort(np.array(order[:n_images], dtype=np.intp))
