"""Small products with class means and weights, on one thread.

BLAS starts its threads for products that take microseconds and waits for each of them: on a busy
machine 0.1 ms becomes 8 ms. A few rows are multiplied by a compiled loop instead.
"""

import numpy as np

from everlearn.arrays import Array

FEW_ROWS = 16


def products(X: Array, W: Array) -> Array:
    """X Wᵀ."""
    if len(X) > FEW_ROWS:
        return np.matmul(X, W.T)
    from everlearn.statistics.kernels import few_products

    result = np.empty((len(X), len(W)))
    few_products(X, W, result)
    return result


def products_one(W: Array, x: Array) -> Array:
    """W x."""
    from everlearn.statistics.kernels import one_product

    result = np.empty(len(W))
    one_product(W, x, result)
    return result
