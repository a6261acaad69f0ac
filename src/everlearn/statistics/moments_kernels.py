"""Compiled updates and products of class means."""

import numpy as np

from everlearn.arrays import Array, Slots
from everlearn.compiled import compiled

# Rows summed before they are added, and rows of the scatter updated together.
TOGETHER, STRIP = 8, 32


@compiled
def absorb_rows(
    X: Array,
    slots: Slots,
    weights: Array,
    counts: Array,
    means: Array,
    grand_mean: Array,
    total: float,
    rows: Array,
) -> float:
    """Add each row of X in turn, with its weight (one each if none are given); returns Σ ‖row‖².

    δ = x − μ_k,  row = √(n_k w / (n_k + w)) δ,  μ_k += w δ / (n_k + w),  m += w (x − m) / (N + w)

    so that the pooled scatter grows by row rowᵀ.
    """
    square = 0.0
    for i in range(X.shape[0]):
        slot = slots[i]
        weight = weights[i] if weights.shape[0] else 1.0
        scale = np.sqrt(counts[slot] * weight / (counts[slot] + weight))
        square += move_means(X[i], slot, weight, counts, means, grand_mean, total, scale, rows[i])
        total += weight
    return square


@compiled
def move_means(
    x: Array,
    slot: int,
    weight: float,
    counts: Array,
    means: Array,
    grand_mean: Array,
    total: float,
    scale: float,
    row: Array,
) -> float:
    """Write scale (x − μ_k) to row and return its squared length; both means move towards x."""
    mean = means[slot]
    step = weight / (counts[slot] + weight)
    grand_step = weight / (total + weight)
    square = 0.0
    for j in range(x.shape[0]):
        delta = x[j] - mean[j]
        square += delta * delta
        row[j] = scale * delta
        mean[j] += step * delta
        grand_mean[j] += grand_step * (x[j] - grand_mean[j])
    counts[slot] += weight
    return scale * scale * square


@compiled
def add_outer_products(upper: Array, rows: Array, start: int, stop: int) -> None:
    """Upper triangle of ``upper`` += rowsᵀ rows, from row start to row stop, on one thread.

    BLAS is twice as fast for the few rows that wait to be added, but starts all its threads for
    them, which takes ten times as long on a busy machine. Eight rows at a time share one pass over
    a strip of ``upper`` that stays in the cache. Whether rows are added at once or in parts of a
    multiple of eight, every bit of the result is the same: a Memory relies on it.
    """
    n = rows.shape[0]
    full = n - n % TOGETHER
    for strip in range(start, stop, STRIP):
        for k in range(0, full, TOGETHER):
            for i in range(strip, min(strip + STRIP, stop)):
                u = upper[i, i:]
                r0, r1, r2, r3 = rows[k, i:], rows[k + 1, i:], rows[k + 2, i:], rows[k + 3, i:]
                r4, r5, r6, r7 = rows[k + 4, i:], rows[k + 5, i:], rows[k + 6, i:], rows[k + 7, i:]
                c0, c1, c2, c3, c4, c5, c6, c7 = (
                    r0[0],
                    r1[0],
                    r2[0],
                    r3[0],
                    r4[0],
                    r5[0],
                    r6[0],
                    r7[0],
                )
                for j in range(u.shape[0]):
                    u[j] += (
                        c0 * r0[j]
                        + c1 * r1[j]
                        + c2 * r2[j]
                        + c3 * r3[j]
                        + c4 * r4[j]
                        + c5 * r5[j]
                        + c6 * r6[j]
                        + c7 * r7[j]
                    )
        for k in range(full, n):
            for i in range(strip, min(strip + STRIP, stop)):
                u = upper[i, i:]
                r = rows[k, i:]
                c = r[0]
                for j in range(u.shape[0]):
                    u[j] += c * r[j]


@compiled
def nearest_mean(x: Array, means: Array, scores: Array) -> None:
    """−½ ‖x − μ_k‖² for every row μ_k of means, by differences (no cancellation)."""
    for k in range(means.shape[0]):
        mean = means[k]
        total = 0.0
        for j in range(x.shape[0]):
            delta = x[j] - mean[j]
            total += delta * delta
        scores[k] = -0.5 * total
