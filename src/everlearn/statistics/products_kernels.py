"""Products of few rows on one thread, written into an array of the caller.

Allocating an array in compiled code would add 0.05 s of compile time.
"""

from everlearn.arrays import Array
from everlearn.compiled import compiled


@compiled
def one_product(W: Array, x: Array, result: Array) -> None:
    """W x."""
    for k in range(W.shape[0]):
        w = W[k]
        total = 0.0
        for j in range(x.shape[0]):
            total += w[j] * x[j]
        result[k] = total


@compiled
def few_products(X: Array, W: Array, result: Array) -> None:
    """X Wᵀ, in one pass over W; four rows of X share a pass over a row of it."""
    n = X.shape[0]
    for k in range(W.shape[0]):
        w = W[k]
        for i in range(0, n - n % 4, 4):
            x0, x1, x2, x3 = X[i], X[i + 1], X[i + 2], X[i + 3]
            t0, t1, t2, t3 = 0.0, 0.0, 0.0, 0.0
            for j in range(w.shape[0]):
                t0 += w[j] * x0[j]
                t1 += w[j] * x1[j]
                t2 += w[j] * x2[j]
                t3 += w[j] * x3[j]
            result[i, k], result[i + 1, k] = t0, t1
            result[i + 2, k], result[i + 3, k] = t2, t3
        for i in range(n - n % 4, n):
            x = X[i]
            total = 0.0
            for j in range(w.shape[0]):
                total += w[j] * x[j]
            result[i, k] = total
