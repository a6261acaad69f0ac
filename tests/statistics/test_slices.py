"""Work in slices gives the same result as at once."""

import numpy as np
import pytest

from everlearn.errors import LostDefiniteness
from everlearn.statistics.slices import (
    ALLOCATED,
    Slices,
    allocated,
    factored,
    finished,
    half_solved,
    in_turn,
    parts,
)


def definite(rng, n):
    X = rng.normal(size=(n + 5, n))
    return X.T @ X + np.eye(n)


@pytest.mark.parametrize("n", [1, 63, 64, 65, 200])
@pytest.mark.parametrize("piece", [1.0, 1e4, 1e5, np.inf])
def test_the_factor_is_that_of_lapack(rng, n, piece):
    A = definite(rng, n)
    matrix = A.copy(order="F")
    above = np.triu_indices(n, 1)
    matrix[above] = 7.0
    finished(factored(matrix, piece))
    assert np.all(matrix[above] == 7.0)
    np.testing.assert_allclose(np.tril(matrix), np.linalg.cholesky(A), rtol=0, atol=1e-10)


def test_an_indefinite_matrix_raises_a_named_error(rng):
    matrix = np.asfortranarray(definite(rng, 130))
    matrix[100, 100] = -1.0
    with pytest.raises(LostDefiniteness):
        finished(factored(matrix, 1e4))


@pytest.mark.parametrize("piece", [1.0, np.inf])
def test_half_solved_rows_have_the_length_of_the_metric(rng, piece):
    A, rows = definite(rng, 20), rng.normal(size=(7, 20))
    lower = np.asfortranarray(np.linalg.cholesky(A))
    halves = finished(half_solved(lower, rows, piece))
    np.testing.assert_allclose(halves @ halves.T, rows @ np.linalg.solve(A, rows.T), rtol=1e-9)


@pytest.mark.parametrize("each", [0.0, 1.0, 30.0, 1000.0])
def test_parts_cover_all_rows_once_and_cost_no_more_than_a_piece(each):
    found = list(parts(23, each, 100.0))
    assert np.concatenate([np.arange(23)[part] for part in found]).tolist() == list(range(23))
    sizes = [part.stop - part.start for part in found]
    assert all(size == 1 or size * each <= 100.0 for size in sizes)


def counting(n, steps):
    for step in range(n):
        steps.append(step)
        yield 10.0
    return n


def test_a_slice_stops_when_its_budget_is_spent():
    steps = []
    slices = Slices(counting(7, steps), 25.0)
    assert slices.advance() is None
    assert steps == [0, 1, 2]
    assert slices.advance() is None
    assert slices.advance() == 7
    assert steps == list(range(7))


def test_tasks_run_in_turn_return_results_in_order():
    steps = []
    assert finished(in_turn(counting(n, steps) for n in (2, 0, 3))) == [2, 0, 3]
    assert steps == [0, 1, 0, 1, 2]


@pytest.mark.parametrize("piece", [1.0, 50 * ALLOCATED, np.inf])
def test_memory_comes_in_pieces(piece):
    work, costs = allocated((30, 20), piece), []
    while True:
        try:
            costs.append(next(work))
        except StopIteration as end:
            table = end.value
            break
    assert table.shape == (30, 20)
    assert not table.any()
    assert sum(costs) == 30 * 20 * ALLOCATED
    assert max(costs) <= max(piece, 20 * ALLOCATED)
