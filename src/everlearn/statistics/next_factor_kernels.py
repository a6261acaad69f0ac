"""Cholesky factors computed a few rows at a time, on one thread."""

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
