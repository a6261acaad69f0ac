"""Class means and what they are read for."""

import numpy as np

from everlearn.kernels.compile import Array, compiled


@compiled
def absorb_row(
    x: Array, slot: int, counts: Array, means: Array, grand_mean: Array, total: float, row: Array
) -> None:
    """Add one example to its class mean and to the mean of everything.

    δ = x − μ_k,  row = √(n_k / (n_k + 1)) δ,  μ_k += δ / (n_k + 1),  m += (x − m) / (N + 1)

    so that the pooled scatter grows by row rowᵀ.
    """
    scale = np.sqrt(counts[slot] / (counts[slot] + 1.0))
    _move_means(x, slot, counts, means, grand_mean, total, scale, row)


@compiled
def absorb_row_as_published(
    x: Array, slot: int, counts: Array, means: Array, grand_mean: Array, total: float, row: Array
) -> None:
    """Add one example as Hayes and Kanan (2020), Eq. 2-5, do.

    As :func:`absorb_row`, but row = √(t / (t + 1)) δ with the global count t, and the mean of a
    class never seen is zero, so its first example adds its raw outer product.
    """
    scale = np.sqrt(total / (total + 1.0))
    _move_means(x, slot, counts, means, grand_mean, total, scale, row)


@compiled
def _move_means(
    x: Array,
    slot: int,
    counts: Array,
    means: Array,
    grand_mean: Array,
    total: float,
    scale: float,
    row: Array,
) -> None:
    """Write scale (x − μ_k) to row; then both means step towards x."""
    mean = means[slot]
    step = 1.0 / (counts[slot] + 1.0)
    grand_step = 1.0 / (total + 1.0)
    for j in range(x.shape[0]):
        delta = x[j] - mean[j]
        row[j] = scale * delta
        mean[j] += step * delta
        grand_mean[j] += grand_step * (x[j] - grand_mean[j])
    counts[slot] += 1.0


@compiled
def nearest_mean(x: Array, means: Array) -> Array:
    """−½ ‖x − μ_k‖² for every row μ_k of means, by differences (no cancellation)."""
    scores = np.empty(means.shape[0])
    for k in range(means.shape[0]):
        mean = means[k]
        total = 0.0
        for j in range(x.shape[0]):
            delta = x[j] - mean[j]
            total += delta * delta
        scores[k] = -0.5 * total
    return scores
