"""Compiled robust estimation of an image's coefficients."""

import numpy as np
from numpy.typing import NDArray

from everlearn.compiled import Array, compiled


@compiled
def _solve_in_place(G: Array, b: Array) -> None:
    """Solve G x = b by Cholesky; b becomes x, and the lower triangle of G is overwritten."""
    k = b.shape[0]
    for j in range(k):
        pivot = G[j, j]
        for p in range(j):
            pivot -= G[j, p] * G[j, p]
        pivot = np.sqrt(max(pivot, 1e-300))
        G[j, j] = pivot
        for i in range(j + 1, k):
            total = G[i, j]
            for p in range(j):
                total -= G[i, p] * G[j, p]
            G[i, j] = total / pivot
    for i in range(k):
        total = b[i]
        for p in range(i):
            total -= G[i, p] * b[p]
        b[i] = total / G[i, i]
    for i in range(k - 1, -1, -1):
        total = b[i]
        for p in range(i + 1, k):
            total -= G[p, i] * b[p]
        b[i] = total / G[i, i]


@compiled
def trimmed_fits(
    basis: Array,
    difference: Array,
    visible: NDArray[np.bool_],
    subsets: NDArray[np.int64],
    ridge: Array,
    threshold: float,
    least: int,
) -> Array:
    """Coefficients from each subset of pixels, by least squares and trimming.

    a = argmin Σ_p (δ_p − u_p·a)² + Σ_i ridge_i a_i²  over the pixels p of the subset; then up to a
    quarter of them, those with the worst residuals above the threshold, are removed and the fit is
    repeated, until none is removed or only ``least`` remain (Leonardis and Bischof, 2000).
    ``basis`` holds one row u_p per pixel.
    """
    n_subsets, size = subsets.shape
    k = basis.shape[1]
    fits = np.zeros((n_subsets, k))
    G = np.empty((k, k))
    residuals = np.empty(size)
    chosen = np.empty(size, dtype=np.int64)
    for s in range(n_subsets):
        count = 0
        for j in range(size):
            if visible[subsets[s, j]]:
                chosen[count] = subsets[s, j]
                count += 1
        fit = fits[s]
        while True:
            G[:] = 0.0
            fit[:] = 0.0
            for j in range(count):
                row = basis[chosen[j]]
                value = difference[chosen[j]]
                for a in range(k):
                    fit[a] += row[a] * value
                    left = row[a]
                    target = G[a]
                    for b in range(a + 1):
                        target[b] += left * row[b]
            for a in range(k):
                G[a, a] += ridge[a]
            _solve_in_place(G, fit)
            bad = 0
            for j in range(count):
                row = basis[chosen[j]]
                total = difference[chosen[j]]
                for a in range(k):
                    total -= row[a] * fit[a]
                residuals[j] = abs(total)
                if residuals[j] > threshold:
                    bad += 1
            drop = min(bad, max(1, count // 4), count - least)
            if drop <= 0:
                break
            limit = np.sort(residuals[:count])[count - drop - 1]
            kept = 0
            for j in range(count):
                if residuals[j] <= limit:
                    chosen[kept] = chosen[j]
                    kept += 1
            if kept == count:
                break
            count = kept
    return fits


@compiled
def explanation_costs(
    basis: Array,
    difference: Array,
    visible: NDArray[np.bool_],
    fits: Array,
    precision: Array,
    scale: float,
    threshold: float,
) -> Array:
    """The cost of each hypothesis: Σ_p min(e_p², τ²) / σ² + Σ_i a_i² precision_i.

    The first term counts an unexplained pixel as τ² / σ² and an explained one by its error; the
    second is the prior of the coefficients. Lower is better.
    """
    costs = np.empty(fits.shape[0])
    ceiling = threshold * threshold
    for s in range(fits.shape[0]):
        fit = fits[s]
        unexplained = 0.0
        for p in range(basis.shape[0]):
            if visible[p]:
                row = basis[p]
                error = difference[p]
                for a in range(fit.shape[0]):
                    error -= row[a] * fit[a]
                unexplained += min(error * error, ceiling)
        prior = 0.0
        for a in range(fit.shape[0]):
            prior += fit[a] * fit[a] * precision[a]
        costs[s] = unexplained / (scale * scale) + prior
    return costs
