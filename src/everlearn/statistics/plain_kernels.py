"""The inner loops of the statistics in numpy and BLAS, for installations without numba.

The same functions as in the modules named ``…_kernels``, with the same arguments and formulas;
those files have the formulas. Results agree up to rounding. Products run on one thread here too;
triangular solves may use all threads of BLAS.
"""

import math
from collections.abc import Callable

import numpy as np
from scipy.linalg import blas

from everlearn.arrays import AnyArray, Array, Slots

# Rows added to the scatter together.
TOGETHER = 8
# The largest code of a row, and the number of rows of codes multiplied at a time.
LARGEST_CODE = 127
BLOCK_ROWS = 1024
# In place: drot(x, y, c, s, n, offx, incx, offy, incy, overwrite_x, overwrite_y). Arguments go by
# position, which the type stubs do not allow: with keywords a call takes 40 % longer.
rotate: Callable[..., object] = blas.drot


def update_and_solve_forward(R: Array, x: Array, B: Array) -> None:
    """Turn R into R' with R'ᵀR' = RᵀR + x xᵀ; x ← R'⁻ᵀ x and each row b of B ← R'⁻ᵀ b.

    One BLAS rotation per row of R.
    """
    given, n = x.copy(), len(x)
    flat = R.reshape(-1)
    for i in range(n):
        if x[i] == 0.0:
            continue
        start = i * n + i
        radius = math.sqrt(flat[start] * flat[start] + x[i] * x[i])
        c, s = flat[start] / radius, x[i] / radius
        rotate(flat, x, c, s, n - i, start, 1, i, 1, 1, 1)
    x[:] = blas.dtrsv(R.T, given, lower=1)
    solve_pairs(R, B)


def downdate_factor(R: Array, x: Array, smallest: float) -> bool:
    """Turn R into R' with R'ᵀR' = RᵀR − x xᵀ; false, and R unchanged, if that is not definite."""
    n = len(x)
    p = blas.dtrsv(R.T, x, lower=1)
    norm = float(np.vecdot(p, p))
    if not norm < 1.0 - smallest:
        return False
    flat = R.reshape(-1)
    radius = math.sqrt(1.0 - norm)
    below = np.zeros(n)
    for i in range(n - 1, -1, -1):
        start = i * n + i
        grown = math.sqrt(radius * radius + p[i] * p[i])
        c, s = radius / grown, p[i] / grown
        radius = grown
        rotate(flat, below, c, -s, n - i, start, 1, i, 1, 1, 1)
        if flat[start] < 0.0:
            flat[start : start + n - i] *= -1.0
    return True


def solve_pairs(R: Array, B: Array) -> None:
    """Each row b of B ← R⁻ᵀ b."""
    for row in B:
        row[:] = blas.dtrsv(R.T, row, lower=1)


def solve_backward(R: Array, B: Array) -> None:
    """Each row b of B ← R⁻¹ b."""
    for row in B:
        row[:] = blas.dtrsv(R.T, row, lower=1, trans=1)


def two_products(rows: Array, u: Array, v: Array) -> tuple[Array, Array]:
    """(rows u, rows v)."""
    return np.vecdot(rows, u), np.vecdot(rows, v)


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
    """Add each row of X in turn, with its weight (one each if none are given); returns Σ ‖row‖²."""
    square = 0.0
    for i, slot in enumerate(slots.tolist()):
        weight = float(weights[i]) if len(weights) else 1.0
        scale = math.sqrt(counts[slot] * weight / (counts[slot] + weight))
        square += move_means(X[i], slot, weight, counts, means, grand_mean, total, scale, rows[i])
        total += weight
    return square


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
    delta = x - mean
    np.multiply(delta, scale, out=row)
    square = scale * scale * float(np.vecdot(delta, delta))
    delta *= weight / (counts[slot] + weight)
    mean += delta
    np.subtract(x, grand_mean, out=delta)
    delta *= weight / (total + weight)
    grand_mean += delta
    counts[slot] += weight
    return square


def add_outer_products(upper: Array, rows: Array, start: int, stop: int) -> None:
    """Upper triangle of ``upper`` += rowsᵀ rows, from row start to row stop.

    Each row of the matrix takes eight rows at a time. Whether rows are added at once or in parts of
    a multiple of eight, and whatever the slices of the matrix, every bit of the result is the same:
    a Memory relies on it.
    """
    for i in range(start, stop):
        u = upper[i, i:]
        for k in range(0, len(rows), TOGETHER):
            part = rows[k : k + TOGETHER, i:]
            u += part[:, 0] @ part


def subtract_outer_products(upper: Array, rows: Array) -> None:
    """Upper triangle of ``upper`` −= rowsᵀ rows, row by row."""
    for row in rows:
        for i in range(len(row)):
            upper[i, i:] -= row[i] * row[i:]


def factor_rows(R: Array, start: int, stop: int) -> bool:
    """Factor rows start to stop of a matrix whose rows above are already factored.

    Returns false if the matrix is not positive definite.
    """
    for i in range(start, stop):
        row, above = R[i, i:], R[:i, i:]
        row -= above[:, 0] @ above
        if not row[0] > 0.0:
            return False
        row *= 1.0 / math.sqrt(row[0])
    return True


def nearest_mean(x: Array, means: Array, scores: Array) -> None:
    """−½ ‖x − μ_k‖² for every row μ_k of means, by differences (no cancellation)."""
    delta = means - x
    np.vecdot(delta, delta, out=scores)
    scores *= -0.5


def one_product(W: Array, x: Array, result: Array) -> None:
    """W x."""
    np.vecdot(W, x, out=result)


def few_products(X: Array, W: Array, result: Array) -> None:
    """X Wᵀ."""
    for x, row in zip(X, result, strict=True):
        np.vecdot(W, x, out=row)


def encode_rows(
    rows: Array,
    first: int,
    centre: Array,
    codes: AnyArray,
    steps: Array,
    gaps: Array,
    lengths: Array,
    squares: Array,
    fine_codes: AnyArray,
    finer: float,
    fine_gaps: Array,
) -> None:
    """Encode rows beginning at ``first``:  row − centre ≈ step · (code + fine / finer)."""
    part = slice(first, first + len(rows))
    apart = rows - centre
    step = np.abs(apart).max(axis=1, initial=0.0) / LARGEST_CODE
    usable = (step > 1e-300) & (step < 1e300)
    steps[part] = np.where(usable, step, 0.0)
    inverse = np.divide(1.0, step, out=np.zeros_like(step), where=usable)
    whole = np.rint(apart * inverse[:, None])
    codes[part] = whole.astype(np.int8)
    left = apart - steps[part, None] * whole
    gaps[part] = np.sqrt(np.vecdot(left, left))
    lengths[part] = steps[part] * np.sqrt(np.vecdot(whole, whole))
    squares[part] = np.vecdot(apart, apart)
    if len(fine_codes):
        fine = np.rint(left * inverse[:, None] * finer).clip(-LARGEST_CODE, LARGEST_CODE)
        fine_codes[part] = fine.astype(np.int8)
        left -= steps[part, None] / finer * fine
        fine_gaps[part] = np.sqrt(np.vecdot(left, left))


def code_products(codes: AnyArray, query: AnyArray, sums: AnyArray) -> None:
    """Products of every row of codes with the query; integers, so exact."""
    wanted = query.astype(np.float64)
    for start in range(0, len(codes), BLOCK_ROWS):
        part = slice(start, start + BLOCK_ROWS)
        sums[part] = np.vecdot(codes[part].astype(np.float64), wanted)


def bound_scores(
    sums: AnyArray,
    steps: Array,
    gaps: Array,
    lengths: Array,
    counts: Array,
    query_step: float,
    query_length: float,
    query_gap: float,
    scale: Array,
    offset: float,
    bias: Array,
    rounding: float,
    slack: float,
    lowest: Array,
    upper: Array,
) -> None:
    """An upper bound on every score, and the largest lower bounds in ``lowest``, best first."""
    n = len(sums)
    steps, gaps, lengths, counts = steps[:n], gaps[:n], lengths[:n], counts[:n]
    factor = scale[:n] if len(scale) else 1.0
    added = bias[:n] if len(bias) else np.zeros(n)
    near = factor * (steps * query_step * sums + offset) + added
    within = gaps * query_length + lengths * query_gap
    size = (lengths + gaps) * query_length + abs(offset) + slack
    bound = factor * (within + rounding * size) + rounding * np.abs(added) + 1e-290
    upper[:n] = np.where(counts > 0.0, near + bound, -np.inf)
    low = np.where(counts > 0.0, near - bound, -np.inf)
    low[np.isnan(low)] = -np.inf
    lowest[:] = -np.inf
    found = np.sort(low)[::-1][: len(lowest)]
    lowest[: len(found)] = found
