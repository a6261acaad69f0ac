"""Row-by-row updates of triangular factors."""

import numpy as np

from everlearn.compiled import Array, compiled


@compiled
def update_factor(R: Array, x: Array) -> None:
    """Turn R into R' with R'ᵀR' = RᵀR + x xᵀ, by Givens rotations; x is overwritten.

    Row i:  r = √(R_ii² + x_i²),  c = R_ii / r,  s = x_i / r,
            R_ij ← c R_ij + s x_j,   x_j ← c x_j − s R_ij.
    """
    n = x.shape[0]
    for i in range(n):
        if x[i] == 0.0:
            continue
        diagonal = R[i, i]
        radius = np.sqrt(diagonal * diagonal + x[i] * x[i])
        c = diagonal / radius
        s = x[i] / radius
        R[i, i] = radius
        tail = R[i, i + 1 :]
        rest = x[i + 1 :]
        for j in range(tail.shape[0]):
            above = tail[j]
            below = rest[j]
            tail[j] = c * above + s * below
            rest[j] = c * below - s * above


@compiled
def downdate_factor(R: Array, x: Array, smallest: float) -> bool:
    """Turn R into R' with R'ᵀR' = RᵀR − x xᵀ; false, and R unchanged, if that is not definite.

    p = R⁻ᵀ x must have ‖p‖² < 1 − smallest; rotations from the last row to the first then carry
    [p; √(1 − ‖p‖²)] to the last unit vector and [R; 0] to [R'; xᵀ]  (LINPACK's dchdd).
    """
    n = x.shape[0]
    p = x.copy()
    norm = 0.0
    for i in range(n):
        value = p[i] / R[i, i]
        p[i] = value
        norm += value * value
        tail = R[i, i + 1 :]
        rest = p[i + 1 :]
        for j in range(tail.shape[0]):
            rest[j] -= value * tail[j]
    if not norm < 1.0 - smallest:
        return False
    radius = np.sqrt(1.0 - norm)
    below = np.zeros(n)
    for i in range(n - 1, -1, -1):
        grown = np.sqrt(radius * radius + p[i] * p[i])
        c = radius / grown
        s = p[i] / grown
        radius = grown
        tail = R[i, i:]
        rest = below[i:]
        for j in range(tail.shape[0]):
            above = tail[j]
            under = rest[j]
            tail[j] = c * above - s * under
            rest[j] = s * above + c * under
        if R[i, i] < 0.0:
            for j in range(tail.shape[0]):
                tail[j] = -tail[j]
    return True


@compiled
def update_and_solve_forward(R: Array, x: Array, B: Array) -> None:
    """:func:`update_factor`, x ← R'⁻ᵀ x and each row b of B ← R'⁻ᵀ b, in one sweep over R.

    F_i = b_i / R'_ii,   b_j ← b_j − F_i R'_ij  for j > i. For x itself the rotations give it:
    x = Σ_i q_i R'_i with q_i = s_i c_1 … c_(i−1), so q = R'⁻ᵀ x.
    """
    n = x.shape[0]
    left = 1.0
    for i in range(n):
        tail = R[i, i + 1 :]
        if x[i] != 0.0:
            diagonal = R[i, i]
            radius = np.sqrt(diagonal * diagonal + x[i] * x[i])
            c = diagonal / radius
            s = x[i] / radius
            R[i, i] = radius
            rest = x[i + 1 :]
            for j in range(tail.shape[0]):
                above = tail[j]
                below = rest[j]
                tail[j] = c * above + s * below
                rest[j] = c * below - s * above
            x[i] = left * s
            left *= c
        for k in range(B.shape[0]):
            value = B[k, i] / R[i, i]
            B[k, i] = value
            right = B[k, i + 1 :]
            for j in range(tail.shape[0]):
                right[j] -= value * tail[j]


@compiled
def solve_forward(R: Array, B: Array) -> None:
    """Each row b of B ← R⁻ᵀ b:  b_i ← b_i / R_ii,   b_j ← b_j − b_i R_ij  for j > i."""
    n = R.shape[0]
    for i in range(n):
        tail = R[i, i + 1 :]
        for k in range(B.shape[0]):
            value = B[k, i] / R[i, i]
            B[k, i] = value
            right = B[k, i + 1 :]
            for j in range(tail.shape[0]):
                right[j] -= value * tail[j]


@compiled
def solve_backward(R: Array, B: Array) -> None:
    """Each row b of B ← R⁻¹ b:  b_i ← (b_i − Σ_{j>i} R_ij b_j) / R_ii, last row first."""
    n = R.shape[0]
    for i in range(n - 1, -1, -1):
        tail = R[i, i + 1 :]
        for k in range(B.shape[0]):
            right = B[k, i + 1 :]
            total = 0.0
            for j in range(tail.shape[0]):
                total += tail[j] * right[j]
            B[k, i] = (B[k, i] - total) / R[i, i]


@compiled
def two_products(rows: Array, u: Array, v: Array) -> tuple[Array, Array]:
    """(rows u, rows v) in one pass over rows."""
    with_u = np.empty(rows.shape[0])
    with_v = np.empty(rows.shape[0])
    for k in range(rows.shape[0]):
        row = rows[k]
        total_u = 0.0
        total_v = 0.0
        for j in range(row.shape[0]):
            total_u += row[j] * u[j]
            total_v += row[j] * v[j]
        with_u[k] = total_u
        with_v[k] = total_v
    return with_u, with_v
