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
    """X Wᵀ, in one pass over W."""
    for k in range(W.shape[0]):
        w = W[k]
        for i in range(X.shape[0]):
            x = X[i]
            total = 0.0
            for j in range(x.shape[0]):
                total += w[j] * x[j]
            result[i, k] = total
