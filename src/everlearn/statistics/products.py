"""Products with class means and weights that stay on one thread when they are small.

BLAS wakes its threads for products that take microseconds, and waits until each has had its turn:
on a busy machine 0.1 ms becomes 8 ms. A few rows are multiplied by a compiled loop instead.
"""

from everlearn.arrays import Array

FEW_ROWS = 16


def products(X: Array, W: Array) -> Array:
    """X Wᵀ."""
    if len(X) > FEW_ROWS:
        result: Array = X @ W.T
        return result
    from everlearn.statistics.products_kernels import few_products

    return few_products(X, W)


def products_one(W: Array, x: Array) -> Array:
    """W x."""
    from everlearn.statistics.products_kernels import one_product

    return one_product(W, x)
