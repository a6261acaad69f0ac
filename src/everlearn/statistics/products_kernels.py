"""Products of few rows, on one thread."""

from everlearn.arrays import Array
from everlearn.compiled import compiled


@compiled
def few_products(X: Array, W: Array, result: Array) -> None:
    """X Wᵀ into result, in one pass over W."""
    for k in range(W.shape[0]):
        w = W[k]
        for i in range(X.shape[0]):
            x = X[i]
            total = 0.0
            for j in range(x.shape[0]):
                total += w[j] * x[j]
            result[i, k] = total
