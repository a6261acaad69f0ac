"""Long computations in slices: generators that pause after every bounded piece of work.

A computation is a generator that yields what the last piece cost, in products of two numbers, and
returns its result. Where a batch waits for it, it runs to its end (:func:`finished`); where no call
may stall, a slice of it runs with every call (:class:`Slices`). Its inputs must not
change until it has finished.

``piece`` is what a piece may cost. Infinite, BLAS and LAPACK get matrices whole.
"""

from collections.abc import Generator, Iterable, Iterator
from typing import Any, Generic, TypeVar

import numpy as np
from scipy.linalg import solve_triangular

from everlearn.arrays import Array, Slots
from everlearn.statistics.definite import definite_factor

T = TypeVar("T")
Work = Generator[float, None, T]

# Columns of a factor that are made together.
TOGETHER = 64
# What takes the time of so many products: to get memory for a number of a large table, and to read
# a number of one.
ALLOCATED, READ = 128.0, 128.0


def finished(work: Work[T]) -> T:
    """The result, with all of the work done now."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result


def in_turn(works: Iterable[Work[T]]) -> Work[list[T]]:
    """Several computations, one after the other."""
    results: list[T] = []
    for work in works:
        results += [(yield from work)]
    return results


class Slices(Generic[T]):
    """A computation that goes on by a slice with every call.

    Parameters
    ----------
    work : generator
    budget : float
        What a slice costs, up to one piece more.
    """

    def __init__(self, work: Work[T], budget: float) -> None:
        self._work = work
        self._budget = budget

    def advance(self) -> T | None:
        """One slice of the work; the result when it is done."""
        spent = 0.0
        while spent < self._budget:
            try:
                spent += next(self._work)
            except StopIteration as end:
                result: T = end.value
                return result
        return None


def parts(n: int, each: float, piece: float) -> Iterator[slice]:
    """Slices of n rows, each of which costs no more than ``piece`` where a row costs ``each``."""
    size = max(1, n if n * each <= piece else int(piece / each))
    for start in range(0, n, size):
        yield slice(start, min(n, start + size))


def allocated(shape: tuple[int, int], piece: float) -> Work[Array]:
    """A table of zeros, for which memory is got from the system piece by piece."""
    table = np.empty(shape)
    for part in parts(len(table), table.shape[1] * ALLOCATED, piece):
        table[part] = 0.0
        yield table[part].size * ALLOCATED
    return table


def copied(table: Array, piece: float, rows: Slots | None = None) -> Work[Array]:
    """A copy of a table, or of some of its rows, piece by piece."""
    n_rows, width = len(table) if rows is None else len(rows), table.shape[1]
    copy = np.empty((n_rows, width))
    for part in parts(n_rows, width * ALLOCATED, piece):
        copy[part] = table[part if rows is None else rows[part]]
        yield (part.stop - part.start) * width * ALLOCATED
    return copy


def product_table(rows: Array, others: Any, piece: float) -> Work[Array]:
    """Products of every row with every one of ``others``, which slices to arrays: one column each.

    Pieces are blocks of columns, after pieces that get the memory from the system. They are
    computed on one thread: on a busy machine, the threads of BLAS would wait for one another.
    """
    from everlearn.statistics.kernels import few_products

    n, each = len(others), float(rows.size + READ * rows.shape[1])
    if n * each <= piece:
        yield n * each
        whole: Array = rows @ others[:].T
        return whole
    rows = np.ascontiguousarray(rows)
    table = yield from allocated((len(rows), n), piece)
    for part in parts(n, each, piece):
        block = np.empty((part.stop - part.start, len(rows)))
        few_products(np.ascontiguousarray(others[part]), rows, block)
        table[:, part] = block.T
        yield (part.stop - part.start) * each
    return table


def factored(matrix: Array, piece: float) -> Work[None]:
    """L of A = L Lᵀ in the lower triangle of a Fortran-ordered A; the upper one is unchanged.

    Block columns from left to right: each takes off the products of those before it, is factored
    at its top and solved below.
    """
    n = len(matrix)
    if n**3 / 6.0 <= piece:
        definite_factor(matrix, overwrite=True)
        yield n**3 / 6.0
        return
    for start in range(0, n, TOGETHER):
        stop = min(n, start + TOGETHER)
        columns, left = slice(start, stop), matrix[start:stop, :start].T
        corner, _ = definite_factor(matrix[columns, columns] - matrix[columns, :start] @ left)
        matrix[columns, columns] = np.tril(corner) + np.triu(matrix[columns, columns], 1)
        each = float((stop - start) * stop)
        yield (stop - start) * each
        for part in parts(n - stop, each, piece):
            rows = slice(stop + part.start, stop + part.stop)
            block = matrix[rows, columns] - matrix[rows, :start] @ left
            matrix[rows, columns] = half_solved_at_once(corner, block)
            yield (part.stop - part.start) * each


def half_solved(lower: Array, rows: Array, piece: float) -> Work[Array]:
    """L⁻¹ applied to every row."""
    halves = np.empty(rows.shape)
    each = len(lower) ** 2 / 2.0
    for part in parts(len(rows), each, piece):
        halves[part] = half_solved_at_once(lower, rows[part])
        yield (part.stop - part.start) * each
    return halves


def half_solved_at_once(lower: Array, rows: Array) -> Array:
    """L⁻¹ applied to every row."""
    halves: Array = solve_triangular(lower, rows.T, lower=True, check_finite=False).T
    return halves
