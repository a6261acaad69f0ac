"""Class means and what they are read for."""

import numpy as np

from everlearn.arrays import Array, Slots
from everlearn.compiled import compiled

# So many rows are summed, by blocks of columns, and then added; what is left over, row by row. In
# one go or in parts of this many, every bit of the result is the same: a Memory relies on it.
TOGETHER, BLOCK = 16, 64


@compiled
def absorb_row(
    x: Array, slot: int, counts: Array, means: Array, grand_mean: Array, total: float, row: Array
) -> float:
    """Add one example to its class mean and to the mean of everything; returns ‖row‖².

    δ = x − μ_k,  row = √(n_k / (n_k + 1)) δ,  μ_k += δ / (n_k + 1),  m += (x − m) / (N + 1)

    so that the pooled scatter grows by row rowᵀ.
    """
    scale = np.sqrt(counts[slot] / (counts[slot] + 1.0))
    return move_means(x, slot, 1.0, counts, means, grand_mean, total, scale, row)


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
    """:func:`absorb_row` for each row of X in turn, with its weight (none given: one each).

    With weight w, row = √(n_k w / (n_k + w)) δ and the means move by w / (n_k + w) and w / (N + w).
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
    """Write scale (x − μ_k) to row and return its square; both means step towards x."""
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
def add_outer_products(upper: Array, rows: Array) -> None:
    """Upper triangle of ``upper`` += rowsᵀ rows, on one thread.

    BLAS is a little faster for the few rows that wait to be added, and wakes all its threads for
    them, which takes ten times as long on a busy machine.
    """
    n, d = rows.shape
    full = n - n % TOGETHER
    # Two columns of rows by four at a time, so that six numbers read make eight products; the block
    # of columns that all others are multiplied with stays in the cache. Zeros fill the last four.
    columns = np.zeros((d + 3, full))
    for k in range(full):
        for i in range(d):
            columns[i, k] = rows[k, i]
    for block in range(0, d if full else 0, BLOCK):
        stop = min(block + BLOCK, d)
        for i in range(0, stop, 2):
            a0, a1 = columns[i], columns[i + 1]
            for j in range(max(block, i), stop, 4):
                b0, b1, b2, b3 = columns[j], columns[j + 1], columns[j + 2], columns[j + 3]
                whole = i < j and j + 4 <= stop
                for group in range(0, full, TOGETHER):
                    s00 = s01 = s02 = s03 = s10 = s11 = s12 = s13 = 0.0
                    for k in range(group, group + TOGETHER):
                        s00 += a0[k] * b0[k]
                        s01 += a0[k] * b1[k]
                        s02 += a0[k] * b2[k]
                        s03 += a0[k] * b3[k]
                        s10 += a1[k] * b0[k]
                        s11 += a1[k] * b1[k]
                        s12 += a1[k] * b2[k]
                        s13 += a1[k] * b3[k]
                    if whole:
                        u, v = upper[i], upper[i + 1]
                        u[j] += s00
                        u[j + 1] += s01
                        u[j + 2] += s02
                        u[j + 3] += s03
                        v[j] += s10
                        v[j + 1] += s11
                        v[j + 2] += s12
                        v[j + 3] += s13
                    else:
                        first, second = (s00, s01, s02, s03), (s10, s11, s12, s13)
                        for c in range(min(4, stop - j)):
                            upper[i, j + c] += first[c]
                            if j + c > i:
                                upper[i + 1, j + c] += second[c]
    for i in range(d):
        u = upper[i, i:]
        for k in range(full, n):
            r = rows[k, i:]
            factor = r[0]
            for j in range(u.shape[0]):
                u[j] += factor * r[j]


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
