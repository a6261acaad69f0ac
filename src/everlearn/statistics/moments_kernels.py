"""Compiled updates and products of class means."""

from typing import Any

import numpy as np

from everlearn.arrays import Array, Slots
from everlearn.compiled import compiled, inner

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


@inner
def _eight(rows: Array, k: int, i: int) -> Any:
    """Eight rows from row k on, without their first i numbers."""
    return (
        rows[k, i:],
        rows[k + 1, i:],
        rows[k + 2, i:],
        rows[k + 3, i:],
        rows[k + 4, i:],
        rows[k + 5, i:],
        rows[k + 6, i:],
        rows[k + 7, i:],
    )


@inner
def _column(eight: Any, j: int) -> Any:
    """Number j of eight rows."""
    r0, r1, r2, r3, r4, r5, r6, r7 = eight
    return r0[j], r1[j], r2[j], r3[j], r4[j], r5[j], r6[j], r7[j]


@inner
def _product(c: Any, a: Any) -> Any:
    """The sum of eight products."""
    c0, c1, c2, c3, c4, c5, c6, c7 = c
    a0, a1, a2, a3, a4, a5, a6, a7 = a
    return c0 * a0 + c1 * a1 + c2 * a2 + c3 * a3 + c4 * a4 + c5 * a5 + c6 * a6 + c7 * a7


@compiled
def add_outer_products(upper: Array, rows: Array, start: int, stop: int) -> None:
    """Upper triangle of ``upper`` += rowsᵀ rows, from row start to row stop, on one thread.

    BLAS is faster for the few rows that wait to be added, but starts all its threads for them,
    which takes ten times as long on a busy machine. Eight rows at a time share one pass over a
    strip of ``upper`` that stays in the cache, two rows of which are updated together. Whether rows
    are added at once or in parts of a multiple of eight, every bit of the result is the same: a
    Memory relies on it.
    """
    n = rows.shape[0]
    full = n - n % TOGETHER
    for strip in range(start, stop, STRIP):
        end = min(strip + STRIP, stop)
        for k in range(0, full, TOGETHER):
            for i in range(strip, end, 2):
                eight, u = _eight(rows, k, i), upper[i, i:]
                c = _column(eight, 0)
                u[0] += _product(c, c)
                if i + 1 == end:
                    for j in range(1, u.shape[0]):
                        u[j] += _product(c, _column(eight, j))
                    continue
                v, d = upper[i + 1, i:], _column(eight, 1)
                for j in range(1, u.shape[0]):
                    column = _column(eight, j)
                    u[j] += _product(c, column)
                    v[j] += _product(d, column)
        for k in range(full, n):
            for i in range(strip, end):
                u = upper[i, i:]
                r = rows[k, i:]
                c = r[0]
                for j in range(u.shape[0]):
                    u[j] += c * r[j]


@compiled
def subtract_outer_products(upper: Array, rows: Array) -> None:
    """Upper triangle of ``upper`` −= rowsᵀ rows, row by row, on one thread."""
    for k in range(rows.shape[0]):
        for i in range(rows.shape[1]):
            u, r = upper[i, i:], rows[k, i:]
            c = r[0]
            for j in range(u.shape[0]):
                u[j] -= c * r[j]


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
