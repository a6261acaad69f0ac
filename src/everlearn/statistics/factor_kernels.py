"""Row-by-row updates of triangular factors."""

import numpy as np

from everlearn.compiled import Array, compiled

# Rows of a factor processed in one pass over a vector.
FOUR = 4


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
    """Turn R into R' with R'ᵀR' = RᵀR + x xᵀ, by Givens rotations, and solve with R' in one sweep.

    Row i:  r = √(R_ii² + x_i²),  c = R_ii / r,  s = x_i / r,
            R_ij ← c R_ij + s x_j,   x_j ← c x_j − s R_ij.

    x ← R'⁻ᵀ x and each row b of B ← R'⁻ᵀ b:  b_i ← b_i / R'_ii,   b_j ← b_j − b_i R'_ij  for j > i.
    For x the rotations give it: x = Σ_i q_i R'_i with q_i = s_i c_1 … c_(i−1), so q = R'⁻ᵀ x.

    Two rows of R share a pass over x, and four a pass over each b.
    """
    n = x.shape[0]
    left = 1.0
    for p in range(0, n - n % FOUR, FOUR):
        for i in range(p, p + FOUR, 2):
            if x[i] == 0.0 and x[i + 1] == 0.0:
                continue
            t0, t1, rest = R[i, i:], R[i + 1, i:], x[i:]
            radius = np.sqrt(t0[0] * t0[0] + rest[0] * rest[0])
            c0, s0 = t0[0] / radius, rest[0] / radius
            t0[0] = radius
            above, below = t0[1], rest[1]
            t0[1] = c0 * above + s0 * below
            below = c0 * below - s0 * above
            radius = np.sqrt(t1[1] * t1[1] + below * below)
            c1, s1 = t1[1] / radius, below / radius
            t1[1] = radius
            rest[0] = left * s0
            rest[1] = left * c0 * s1
            left *= c0 * c1
            t0, t1, rest = R[i, i + 2 :], R[i + 1, i + 2 :], x[i + 2 :]
            for j in range(rest.shape[0]):
                above, below = t0[j], rest[j]
                t0[j] = c0 * above + s0 * below
                below = c0 * below - s0 * above
                above = t1[j]
                t1[j] = c1 * above + s1 * below
                rest[j] = c1 * below - s1 * above
        r0, r1, r2, r3 = R[p, p:], R[p + 1, p:], R[p + 2, p:], R[p + 3, p:]
        t0, t1, t2, t3 = r0[FOUR:], r1[FOUR:], r2[FOUR:], r3[FOUR:]
        for k in range(B.shape[0]):
            b = B[k, p:]
            v0 = b[0] / r0[0]
            v1 = (b[1] - v0 * r0[1]) / r1[1]
            v2 = (b[2] - v0 * r0[2] - v1 * r1[2]) / r2[2]
            v3 = (b[3] - v0 * r0[3] - v1 * r1[3] - v2 * r2[3]) / r3[3]
            b[0], b[1], b[2], b[3] = v0, v1, v2, v3
            right = b[FOUR:]
            for j in range(right.shape[0]):
                right[j] -= v0 * t0[j] + v1 * t1[j] + v2 * t2[j] + v3 * t3[j]
    for i in range(n - n % FOUR, n):
        radius = np.sqrt(R[i, i] * R[i, i] + x[i] * x[i])
        c0, s0 = R[i, i] / radius, x[i] / radius
        R[i, i] = radius
        x[i] = left * s0
        left *= c0
        for j in range(i + 1, n):
            above, below = R[i, j], x[j]
            R[i, j] = c0 * above + s0 * below
            x[j] = c0 * below - s0 * above
        for k in range(B.shape[0]):
            B[k, i] /= radius
            for j in range(i + 1, n):
                B[k, j] -= B[k, i] * R[i, j]


@compiled
def solve_backward(R: Array, B: Array) -> None:
    """Each row b of B ← R⁻¹ b:  b_i ← (b_i − Σ_{j>i} R_ij b_j) / R_ii, last row first.

    Four rows of R share a pass over each b.
    """
    n = R.shape[0]
    for i in range(n - 1, n - n % FOUR - 1, -1):
        for k in range(B.shape[0]):
            for j in range(i + 1, n):
                B[k, i] -= R[i, j] * B[k, j]
            B[k, i] /= R[i, i]
    for p in range(n - n % FOUR - FOUR, -1, -FOUR):
        r0, r1, r2, r3 = R[p, p:], R[p + 1, p:], R[p + 2, p:], R[p + 3, p:]
        t0, t1, t2, t3 = r0[FOUR:], r1[FOUR:], r2[FOUR:], r3[FOUR:]
        for k in range(B.shape[0]):
            b = B[k, p:]
            right = b[FOUR:]
            v0, v1, v2, v3 = 0.0, 0.0, 0.0, 0.0
            for j in range(right.shape[0]):
                v0 += t0[j] * right[j]
                v1 += t1[j] * right[j]
                v2 += t2[j] * right[j]
                v3 += t3[j] * right[j]
            b[3] = (b[3] - v3) / r3[3]
            b[2] = (b[2] - v2 - r2[3] * b[3]) / r2[2]
            b[1] = (b[1] - v1 - r1[2] * b[2] - r1[3] * b[3]) / r1[1]
            b[0] = (b[0] - v0 - r0[1] * b[1] - r0[2] * b[2] - r0[3] * b[3]) / r0[0]


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
