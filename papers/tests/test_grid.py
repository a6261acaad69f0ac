"""A grid is extended if its best value is at an end, and reports when it was stopped."""

from math import log10

import pytest
from everlearn_papers.grid import search


@pytest.mark.parametrize("best", [1e-5, 1e-3, 1e-2, 1e-1, 10.0])
def test_the_peak_is_found_within_and_beyond_the_grid(best):
    found = search((1e-3, 1e-2, 1e-1), lambda value: -abs(log10(value / best)))
    assert found.best == pytest.approx(best)
    assert not found.at_end
    assert min(found.tried) < found.best < max(found.tried)


def test_a_stopped_search_is_reported():
    found = search((0.1, 1.0), lambda value: value, further=2)
    assert found.best == pytest.approx(100.0)
    assert found.at_end


def test_whole_numbers_stay_whole_and_end_at_one():
    found = search((1, 5), lambda value: -value)
    assert (found.best, found.tried, found.at_end) == (1, {1: -1, 5: -5}, False)
    assert search((64, 128, 256), lambda value: value, most=700).tried.keys() == {
        64,
        128,
        256,
        512,
        700,
    }
    assert not search((64, 128), lambda value: value, most=128).at_end


def test_a_grid_does_not_extend_below_zero():
    found = search((0.0, 0.1, 1.0), lambda value: -value)
    assert (found.best, len(found.tried), found.at_end) == (0.0, 3, False)


def test_of_equal_values_the_middle_is_taken_and_the_grid_is_not_extended():
    found = search((1.0, 2.0, 4.0), lambda value: 0.0)
    assert (found.best, len(found.tried)) == (2.0, 3)
    # Equal at the end alone: one beyond is tried, and the end is kept.
    found = search((1.0, 2.0, 4.0), lambda value: min(value, 4.0))
    assert (found.best, max(found.tried)) == (4.0, 8.0)
