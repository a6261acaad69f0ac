"""A robust start: an eigenspace from a few images, most of which may be occluded.

Skočaj and Leonardis (2002), Sec. 4-5: the incremental method depends on its first eigenspace, which
should come from images that are clean and spread over the whole sequence.

``robust_start`` treats a pixel as an outlier if *other* images do not explain it. The images are
divided into folds; those of one fold are projected robustly into the eigenspace of the others, and
pixels that do not fit are replaced by their reconstruction; then the same is repeated with the
repaired images and an increasing number of components. Few components cannot reproduce an occluder,
and an image never takes part in its own repair.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from everlearn.arrays import Array, Mask
from everlearn.subspace.projection import RobustProjector

# From the median of |e| to the standard deviation of a Gaussian.
MEDIAN_TO_SIGMA = 1.4826
# Number of folds, approximate number of steps in which components grow, and number of further
# rounds with all of them.
FOLDS = 5
GROWTH_STEPS = 8
SETTLING_ROUNDS = 4
# A pixel can be an outlier in at most this share of the images.
MOST_OUTLIER_IMAGES = 0.5
COMPLETION_ROUNDS = 30
COMPLETION_TOLERANCE = 1e-3


class ProjectorFactory(Protocol):
    """Creates a projector for an eigenspace."""

    def __call__(
        self, mean: Array, components: Array, variances: Array, scale: float
    ) -> RobustProjector: ...


@dataclass(frozen=True)
class BatchFit:
    """An eigenspace from a batch, and the completed images."""

    mean: Array
    components: Array
    variances: Array
    completed: Array


@dataclass(frozen=True)
class Seed:
    """Repaired images for a start, the repaired pixels, and the residual of unseen images."""

    completed: Array
    outliers: Mask
    scale: float


def batch_pca(X: Array, n_components: int) -> BatchFit:
    """PCA of a few long rows, by the eigenvectors of X Xᵀ."""
    mean = X.mean(axis=0)
    centred = X - mean
    values, vectors = np.linalg.eigh(centred @ centred.T)
    values, vectors = values[::-1][:n_components], vectors[:, ::-1][:, :n_components]
    real = values > 1e-12 * max(float(values[0]), 1e-300)
    values, vectors = values[real], vectors[:, real]
    components = (vectors.T @ centred) / np.sqrt(values)[:, None]
    completed = mean + (centred @ components.T) @ components
    return BatchFit(mean, components, values / max(len(X) - 1, 1), completed)


def complete_batch(X: Array, missing: Mask, n_components: int, scale: float) -> BatchFit:
    """PCA of images with missing pixels: alternate filling in and computing components.

    Coefficients come from the visible pixels only, with the prior σ² / λ_i; it stops when no
    missing pixel changes by more than a thousandth of the images' spread.
    """
    visible = (~missing).sum(axis=0)
    total = np.where(missing, 0.0, X).sum(axis=0)
    overall = total.sum() / max(int(visible.sum()), 1)
    completed = np.where(missing, np.where(visible > 0, total / np.maximum(visible, 1), overall), X)
    tolerance = COMPLETION_TOLERANCE * max(float(completed.std()), 1e-300)
    holes = np.flatnonzero(missing.any(axis=1))
    fit = batch_pca(completed, n_components)
    for _ in range(COMPLETION_ROUNDS if len(holes) else 0):
        projector = RobustProjector(
            fit.mean,
            fit.components,
            fit.variances,
            scale=scale,
            threshold=np.inf,
            subsets=np.empty((0, 0), dtype=np.int64),
        )
        largest_change = 0.0
        for i in holes:
            hole = missing[i]
            filled = projector.complete(completed[i], hole).reconstruction[hole]
            largest_change = max(largest_change, float(np.abs(filled - completed[i, hole]).max()))
            completed[i, hole] = filled
        fit = batch_pca(completed, n_components)
        if largest_change <= tolerance:
            break
    return BatchFit(fit.mean, fit.components, fit.variances, completed)


def robust_start(
    X: Array, missing: Mask, trusted: Mask, n_components: int, projector_for: ProjectorFactory
) -> Seed:
    """Repair images by means of each other.

    ``trusted`` marks images whose visible pixels are all correct.
    """
    completed = complete_batch(X, missing, n_components, scale=0.0).completed
    outliers = missing.copy()
    scale = typical_size(np.zeros(1), completed)
    if len(X) == 1:
        return Seed(completed, outliers, scale)
    numbers = np.arange(len(X))
    fold = numbers % min(FOLDS, len(X))
    for width in _growing(n_components):
        repaired = completed.copy()
        scales = []
        for held_out in range(fold.max() + 1):
            others = batch_pca(completed[fold != held_out], width)
            in_fold = numbers[fold == held_out]
            residual = completed[in_fold] - others.mean
            residual -= (residual @ others.components.T) @ others.components
            typical = float(np.median([typical_size(row, others.mean) for row in residual]))
            projector = projector_for(others.mean, others.components, others.variances, typical)
            for i in in_fold:
                project = projector.complete if trusted[i] else projector.explain
                found = project(X[i], missing[i])
                outliers[i] = found.outliers
                repaired[i] = np.where(found.outliers, found.reconstruction, X[i])
            scales.append(typical)
        # A pixel that is wrong in almost every image was learned wrongly, not always occluded.
        misjudged = (outliers & ~missing).mean(axis=0) > MOST_OUTLIER_IMAGES
        outliers[:, misjudged] = missing[:, misjudged]
        completed = np.where(misjudged & ~missing, X, repaired)
        scale = float(np.median(scales))
    return Seed(completed, outliers, scale)


def _growing(n_components: int) -> list[int]:
    """Numbers of components: from two to all in a few steps, then all for some rounds."""
    steps = np.geomspace(min(2, n_components), n_components, GROWTH_STEPS)
    growing = sorted(set(np.round(steps).astype(int).tolist()))
    return growing + [n_components] * SETTLING_ROUNDS


def typical_size(residual: Array, mean: Array) -> float:
    """The standard deviation of residuals by their median; never exactly zero."""
    least = 1e-9 * float(np.abs(mean).max(initial=0.0)) + 1e-100
    if not residual.size:
        return least
    return max(MEDIAN_TO_SIGMA * float(np.median(np.abs(residual))), least)
