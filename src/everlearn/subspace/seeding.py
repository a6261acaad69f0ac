"""A robust start: an eigenspace from a handful of images of which some are occluded.

Skočaj and Leonardis (2002), Sec. 4-5: the incremental method stands or falls with its first
eigenspace. It should come from images that are clean, and spread over the whole sequence.

``robust_batch_pca`` is an expectation-maximisation with reweighting (Skočaj, Bischof and Leonardis
2002): each pixel's value is blended with its reconstruction by how well it fits,

    w = c² / (c² + e²)²·c²  (Geman-McClure),     x̂ = w x + (1 − w) y,

the components are computed from the blended images, and so on; missing pixels have w = 0.
``choose_seed`` then takes the images with the lowest error, evenly spread over the sequence.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

# From the median of |e| to the standard deviation of a Gaussian.
MEDIAN_TO_SIGMA = 1.4826


@dataclass(frozen=True)
class BatchFit:
    """Robust batch PCA: the eigenspace, and the images as it sees them."""

    mean: Array
    components: Array
    reconstructions: Array
    completed: Array


def batch_components(X: Array, n_components: int) -> tuple[Array, Array]:
    """Mean and leading components of a few long rows, by the eigenvectors of X Xᵀ."""
    mean = X.mean(axis=0)
    centred = X - mean
    values, vectors = np.linalg.eigh(centred @ centred.T)
    values, vectors = values[::-1], vectors[:, ::-1]
    real = values[:n_components] > 1e-12 * max(values[0], 1e-300)
    keep = np.flatnonzero(real)
    components = (vectors[:, keep].T @ centred) / np.sqrt(values[keep])[:, None]
    return mean, components


def complete_batch(
    X: Array, missing: Mask, n_components: int, *, rounds: int = 200, tolerance: float = 1e-3
) -> BatchFit:
    """PCA of images with missing pixels, by expectation-maximisation.

    Stops when no missing pixel moves by more than ``tolerance`` of the images' spread.
    """
    visible = (~missing).sum(axis=0)
    total = np.where(missing, 0.0, X).sum(axis=0)
    overall = total.sum() / max(visible.sum(), 1)
    fill = np.where(visible > 0, total / np.maximum(visible, 1), overall)
    completed = np.where(missing, fill, X)
    spread = completed.std() or 1.0
    for _ in range(rounds):
        mean, components = batch_components(completed, n_components)
        centred = completed - mean
        reconstructions = mean + (centred @ components.T) @ components
        moved = np.abs(reconstructions - completed)[missing].max(initial=0.0)
        completed = np.where(missing, reconstructions, X)
        if moved <= tolerance * spread:
            break
    return BatchFit(mean, components, reconstructions, completed)


def robust_batch_pca(
    X: Array, n_components: int, *, missing: Mask | None = None, rounds: int = 30
) -> BatchFit:
    """PCA of images some pixels of which are outliers, by reweighting.

    The scale c of the weights starts at the pixels' spread about their median and goes down to
    2.5 times the median residual.
    """
    if missing is None:
        missing = np.zeros(X.shape, dtype=bool)
    known = np.where(missing, np.nan, X)
    blank = missing.all(axis=0)
    known[:, blank] = np.nanmean(known)
    centre = np.nanmedian(known, axis=0)
    reconstructions = np.broadcast_to(centre, X.shape)
    completed = np.where(missing, reconstructions, X)
    mean, components = centre, np.empty((0, X.shape[1]))
    for _ in range(rounds):
        residual = completed - reconstructions
        scale = 2.5 * MEDIAN_TO_SIGMA * float(np.median(np.abs(residual[~missing])))
        scale = max(scale, 1e-9 * float(np.abs(centre).max() or 1.0))
        observed = np.where(missing, reconstructions, X)
        residual = observed - reconstructions
        weights = (scale**2 / (scale**2 + residual**2)) ** 2
        completed = weights * observed + (1.0 - weights) * reconstructions
        mean, components = batch_components(completed, n_components)
        reconstructions = mean + ((completed - mean) @ components.T) @ components
    return BatchFit(mean, components, reconstructions, completed)


def choose_seed(errors: Array, n_images: int, *, n_bins: int = 8) -> NDArray[np.intp]:
    """Which images to start from: those with the lowest error, spread evenly over the sequence.

    The sequence is cut into ``n_bins`` stretches; the best image of each is taken, then the
    second best, and so on until there are ``n_images``.
    """
    bins = np.array_split(np.arange(len(errors)), min(n_bins, n_images, len(errors)))
    ranked = [stretch[np.argsort(errors[stretch], kind="stable")] for stretch in bins]
    longest = max(len(stretch) for stretch in ranked)
    rounds = [
        sorted((s[r] for s in ranked if r < len(s)), key=lambda i: errors[i])
        for r in range(longest)
    ]
    order = [index for round_ in rounds for index in round_]
    return np.sort(np.array(order[:n_images], dtype=np.intp))
