"""Cholesky factors computed a few rows at a time, and solves with many rows, on one thread."""

import numpy as np

from everlearn.arrays import Array
from everlearn.compiled import compiled

# Rows above that are subtracted together, in one pass over the row below.
TOGETHER = 8


@compiled
def factor_rows(R: Array, start: int, stop: int) -> bool:
    """Factor rows start to stop of a matrix whose rows above are already factored.

    ``R`` holds the factor above ``start`` and the upper triangle of the matrix from there on:

        R_i ← (A_i − Σ_{p<i} R_pi R_p) / √(A_ii − Σ_{p<i} R_pi²)

    Returns false if the matrix is not positive definite.
    """
    full = start - start % TOGETHER
    for p in range(0, full, TOGETHER):
        for i in range(start, stop):
            row = R[i, i:]
            r0, r1, r2, r3 = R[p, i:], R[p + 1, i:], R[p + 2, i:], R[p + 3, i:]
            r4, r5, r6, r7 = R[p + 4, i:], R[p + 5, i:], R[p + 6, i:], R[p + 7, i:]
            c0, c1, c2, c3 = r0[0], r1[0], r2[0], r3[0]
            c4, c5, c6, c7 = r4[0], r5[0], r6[0], r7[0]
            for j in range(row.shape[0]):
                row[j] -= (
                    c0 * r0[j]
                    + c1 * r1[j]
                    + c2 * r2[j]
                    + c3 * r3[j]
                    + c4 * r4[j]
                    + c5 * r5[j]
                    + c6 * r6[j]
                    + c7 * r7[j]
                )
    for i in range(start, stop):
        row = R[i, i:]
        for p in range(full, i):
            above = R[p, i:]
            c = above[0]
            for j in range(row.shape[0]):
                row[j] -= c * above[j]
        if not row[0] > 0.0:
            return False
        inverse = 1.0 / np.sqrt(row[0])
        for j in range(row.shape[0]):
            row[j] *= inverse
    return True


@compiled
def solve_pairs(R: Array, B: Array) -> None:
    """Each row b of B ← R⁻ᵀ b, for an even number of rows; ``R`` holds Rᵀ below its diagonal.

        b_i ← (b_i − Σ_{j<i} R_ji b_j) / R_ii

    Four rows of Rᵀ and two of B share a pass, which only reads: as fast as BLAS.
    """
    n = R.shape[0]
    for i in range(0, n - n % 4, 4):
        r0, r1, r2, r3 = R[i], R[i + 1], R[i + 2], R[i + 3]
        for k in range(0, B.shape[0], 2):
            x, y = B[k], B[k + 1]
            x0, x1, x2, x3 = 0.0, 0.0, 0.0, 0.0
            y0, y1, y2, y3 = 0.0, 0.0, 0.0, 0.0
            for j in range(i):
                x0 += r0[j] * x[j]
                x1 += r1[j] * x[j]
                x2 += r2[j] * x[j]
                x3 += r3[j] * x[j]
                y0 += r0[j] * y[j]
                y1 += r1[j] * y[j]
                y2 += r2[j] * y[j]
                y3 += r3[j] * y[j]
            for b, b0, b1, b2, b3 in ((x, x0, x1, x2, x3), (y, y0, y1, y2, y3)):
                b0 = (b[i] - b0) / r0[i]
                b1 = (b[i + 1] - b1 - r1[i] * b0) / r1[i + 1]
                b2 = (b[i + 2] - b2 - r2[i] * b0 - r2[i + 1] * b1) / r2[i + 2]
                b3 = (b[i + 3] - b3 - r3[i] * b0 - r3[i + 1] * b1 - r3[i + 2] * b2) / r3[i + 3]
                b[i], b[i + 1], b[i + 2], b[i + 3] = b0, b1, b2, b3
    for i in range(n - n % 4, n):
        for k in range(B.shape[0]):
            for j in range(i):
                B[k, i] -= R[i, j] * B[k, j]
            B[k, i] /= R[i, i]
