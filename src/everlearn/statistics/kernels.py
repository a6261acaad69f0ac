"""The inner loops of the statistics: compiled if numba is installed, otherwise numpy and BLAS."""

from everlearn.acceleration import COMPILED

if COMPILED:
    from everlearn.statistics.factor_kernels import (
        downdate_factor,
        solve_backward,
        two_products,
        update_and_solve_forward,
    )
    from everlearn.statistics.moments_kernels import (
        absorb_rows,
        add_outer_products,
        move_means,
        nearest_mean,
        subtract_outer_products,
    )
    from everlearn.statistics.next_factor_kernels import factor_rows, solve_pairs
    from everlearn.statistics.products_kernels import few_products, one_product
    from everlearn.statistics.screening_kernels import bound_scores, code_products, encode_rows
else:
    from everlearn.statistics.plain_kernels import (
        absorb_rows,
        add_outer_products,
        bound_scores,
        code_products,
        downdate_factor,
        encode_rows,
        factor_rows,
        few_products,
        move_means,
        nearest_mean,
        one_product,
        solve_backward,
        solve_pairs,
        subtract_outer_products,
        two_products,
        update_and_solve_forward,
    )

__all__ = [
    "absorb_rows",
    "add_outer_products",
    "bound_scores",
    "code_products",
    "downdate_factor",
    "encode_rows",
    "factor_rows",
    "few_products",
    "move_means",
    "nearest_mean",
    "one_product",
    "solve_backward",
    "solve_pairs",
    "subtract_outer_products",
    "two_products",
    "update_and_solve_forward",
]
