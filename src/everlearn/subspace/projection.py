"""Robust projection of an image: hypothesize, select, refine.

Leonardis and Bischof (2000), *Robust recognition using eigenimages*, as used by Skočaj and
Leonardis (2002), Sec. 4: coefficients are computed from small subsets of the pixels, badly fitting
pixels are trimmed, and of several such hypotheses the one that explains most pixels best is kept.
Pixels that it does not explain are outliers, and its reconstruction replaces them.

    hypothesis   least squares on a subset with the prior a_i ~ N(0, λ_i): ridge σ² / λ_i; trimming
    selection    lowest Σ_p min(e_p², τ²) / σ² + Σ_i a_i² / λ_i
    refinement   least squares on all explained pixels (|e_p| ≤ τ), until these do not change

Subsets are random windows of the image if its shape is known, otherwise random pixels. A window can
lie beside a large occluder, while random pixels always include some of it; and a combination of
components may fit random pixels of a flat occluder, but hardly a window.

The same subsets are used for every image, so a result does not depend on earlier ones. H hypotheses
of m pixels cost O(H m k² + H d k), a refinement O(d k²). λ_i is ``variances``, σ ``scale``, τ
``threshold``, e_p the residual of pixel p. Deviations from Leonardis and Bischof: windows, the
prior on the coefficients, and one selected hypothesis instead of a set of them.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve

from everlearn.arrays import Array, Mask
from everlearn.statistics.definite import definite_factor

MOST_REFINEMENTS = 30
# Pixels per unknown in a subset, and the fewest pixels per unknown after trimming.
PIXELS_PER_COEFFICIENT = 8
LEAST_PER_COEFFICIENT = 2
# Floors, as shares of the largest variance, that keep every least-squares problem definite.
LEAST_VARIANCE = 1e-12
LEAST_RIDGE = 1e-10


@dataclass(frozen=True)
class Explanation:
    """An image explained by the eigenspace.

    Attributes
    ----------
    coefficients : ndarray of shape (n_components,)
    reconstruction : ndarray of shape (n_features,)
    outliers : ndarray of bool, shape (n_features,)
        Pixels that are missing or not explained.
    scores : ndarray of shape (n_features,)
        The residual in units of the threshold: above 1 is an outlier. NaN where missing.
    """

    coefficients: Array
    reconstruction: Array
    outliers: Mask
    scores: Array


class RobustProjector:
    """Projects images into one eigenspace.

    Parameters
    ----------
    mean : ndarray of shape (n_features,)
    components : ndarray of shape (n_components, n_features)
    variances : ndarray of shape (n_components,)
        The prior variance of each coefficient.
    scale : float
        Typical residual of a pixel that belongs to the scene, above zero.
    threshold : float
        Residual above which a pixel is an outlier.
    subsets : ndarray of int, shape (n_hypotheses, n_pixels)
    image_shape : (height, width) or None
    smoothing : int
        Residuals are averaged (root mean square) over squares of this side before they are
        compared with the threshold.
    """

    def __init__(
        self,
        mean: Array,
        components: Array,
        variances: Array,
        *,
        scale: float,
        threshold: float,
        subsets: NDArray[np.int64],
        image_shape: tuple[int, int] | None = None,
        smoothing: int = 1,
    ) -> None:
        self.mean = mean
        self.components = components
        largest = float(variances.max(initial=0.0))
        self.variances = np.maximum(variances, LEAST_VARIANCE * largest + 1e-300)
        self._ridge = max(scale**2, LEAST_RIDGE * largest) / self.variances
        self.scale = scale
        self.threshold = threshold
        self.subsets = subsets
        self.image_shape = image_shape
        self.smoothing = smoothing
        self._pixels = np.ascontiguousarray(components.T)

    def explain(self, image: Array, missing: Mask) -> Explanation:
        """Explain an image and detect its outliers; missing pixels count as outliers."""
        difference = np.where(missing, 0.0, image - self.mean)
        coefficients = self._best_hypothesis(difference, ~missing)
        outliers = missing
        for _ in range(MOST_REFINEMENTS):
            scores = self._scores(difference - coefficients @ self.components, missing)
            found = missing | (scores > 1.0)
            if np.array_equal(found, outliers):
                break
            outliers = found
            coefficients = self._fit(difference, ~outliers)
        return self._explanation(coefficients, difference, missing, outliers)

    def complete(self, image: Array, missing: Mask) -> Explanation:
        """Explain an image whose pixels are all correct, except those that are missing."""
        difference = np.where(missing, 0.0, image - self.mean)
        coefficients = self._fit(difference, ~missing)
        return self._explanation(coefficients, difference, missing, missing)

    def _explanation(
        self, coefficients: Array, difference: Array, missing: Mask, outliers: Mask
    ) -> Explanation:
        inside = coefficients @ self.components
        scores = self._scores(difference - inside, missing)
        scores[missing] = np.nan
        return Explanation(coefficients, self.mean + inside, outliers, scores)

    def _best_hypothesis(self, difference: Array, visible: Mask) -> Array:
        from everlearn.subspace.kernels import explanation_costs, trimmed_fits

        k = len(self.components)
        if k == 0:
            return np.zeros(0)
        fits = trimmed_fits(
            self._pixels,
            difference,
            visible,
            self.subsets,
            self._ridge,
            self.threshold,
            min(LEAST_PER_COEFFICIENT * k, self.subsets.shape[1]),
        )
        costs = explanation_costs(
            self._pixels,
            difference,
            visible,
            fits,
            1.0 / self.variances,
            self.scale,
            self.threshold,
        )
        best: Array = fits[costs.argmin()]
        return best

    def _fit(self, difference: Array, trusted: Mask) -> Array:
        """Least squares on the trusted pixels with the coefficients' prior."""
        if len(self.components) == 0:
            return np.zeros(0)
        U = self.components[:, trusted]
        G = U @ U.T
        G[np.diag_indices_from(G)] += self._ridge
        fit: Array = cho_solve(definite_factor(G), U @ difference[trusted])
        return fit

    def _scores(self, residual: Array, missing: Mask) -> Array:
        if self.smoothing <= 1 or self.image_shape is None:
            scores: Array = np.abs(residual) / self.threshold
            return scores
        from scipy.ndimage import uniform_filter

        squares = np.where(missing, 0.0, residual**2).reshape(self.image_shape)
        counted = uniform_filter((~missing).reshape(self.image_shape).astype(float), self.smoothing)
        smooth = uniform_filter(squares, self.smoothing) / np.maximum(counted, 1e-9)
        smoothed: Array = np.sqrt(np.maximum(smooth, 0.0)).ravel() / self.threshold
        return smoothed


def random_subsets(
    n_features: int,
    n_components: int,
    n_hypotheses: int,
    image_shape: tuple[int, int] | None,
    window: float,
    random_state: int,
) -> NDArray[np.int64]:
    """Pixels for each hypothesis: inside a random window if the shape is known, else anywhere.

    ``window`` is the window's side as a share of each side of the image.
    """
    rng = np.random.default_rng(random_state)
    size = min(n_features, max(2, PIXELS_PER_COEFFICIENT * n_components))
    if image_shape is None:
        if n_features <= n_hypotheses and n_components == 1:
            # One unknown: every pixel alone is a hypothesis.
            return np.arange(n_features, dtype=np.int64)[:, None]
        pixels = [rng.choice(n_features, size, replace=False) for _ in range(n_hypotheses)]
        return np.array(pixels, dtype=np.int64)
    height, width = image_shape
    rows, columns = max(1, round(window * height)), max(1, round(window * width))
    size = min(size, rows * columns)
    index = np.arange(n_features, dtype=np.int64).reshape(image_shape)
    subsets = np.empty((n_hypotheses, size), dtype=np.int64)
    for s in range(n_hypotheses):
        top = rng.integers(0, height - rows + 1)
        left = rng.integers(0, width - columns + 1)
        inside = index[top : top + rows, left : left + columns].ravel()
        subsets[s] = rng.choice(inside, size, replace=False)
    return subsets
