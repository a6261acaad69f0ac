"""Products of few rows, on one thread."""

import numpy as np

from everlearn.arrays import Array
from everlearn.compiled import compiled


@compiled
def one_product(W: Array, x: Array) -> Array:
    """W x."""
    result = np.empty(W.shape[0])
    for k in range(W.shape[0]):
        w = W[k]
        total = 0.0
        for j in range(x.shape[0]):
            total += w[j] * x[j]
        result[k] = total
    return result


@compiled
def few_products(X: Array, W: Array) -> Array:
    """X Wᵀ, in one pass over W."""
    result = np.empty((X.shape[0], W.shape[0]))
    for k in range(W.shape[0]):
        w = W[k]
        for i in range(X.shape[0]):
            x = X[i]
            total = 0.0
            for j in range(x.shape[0]):
                total += w[j] * x[j]
            result[i, k] = total
    return result
