"""Room for new classes, made in slices."""

import copy

import numpy as np
import pytest

from everlearn import arrays
from everlearn.statistics import class_means
from everlearn.statistics.class_means import ClassMeans

WIDTH, N = 5, 40


@pytest.fixture
def full(rng, monkeypatch):
    """Moments of which the arrays are full, as after loading, and room made in slices of seven."""
    monkeypatch.setattr(class_means, "MANY_CLASSES", 8)
    monkeypatch.setattr(class_means, "ROOM_SLICE", 7)
    made = ClassMeans(WIDTH)
    made.add(rng.normal(size=(3 * N, WIDTH)), np.tile(np.arange(N), 3))
    restored = ClassMeans(WIDTH)
    restored.restore({key: array.copy() for key, array in made.state().items()})
    return restored


@pytest.mark.parametrize("n_calls", [0, 1, 3, 6, 20])
@pytest.mark.parametrize("forgets", [False, True])
def test_room_made_in_slices_changes_no_bit(rng, full, n_calls, forgets):
    """Classes change while room is made, before and after they are copied."""
    twin, x = copy.deepcopy(full), rng.normal(size=(n_calls + 1, WIDTH))
    for call in range(n_calls):
        full.make_room()
        for moments in (full, twin):
            moments.add_one(x[call], 11 * call % N)
            if forgets and call == 2:
                moments.remove_class(4)
    for moments in (full, twin):
        moments.add_one(x[n_calls], N)
    np.testing.assert_array_equal(full.means, twin.means)
    np.testing.assert_array_equal(full.counts, twin.counts)
    full.make_room()
    full.add_one(x[0], N + 1)
    np.testing.assert_array_equal(full.means[N + 1], x[0])


def test_a_new_class_copies_no_means_when_room_was_made(rng, full, monkeypatch):
    for _ in range(6):
        full.make_room()
    copied = []
    padded = class_means.padded
    monkeypatch.setattr(
        class_means, "padded", lambda array, n: copied.append(array.ndim) or padded(array, n)
    )
    full.add_one(rng.normal(size=WIDTH), N)
    assert copied == [1]  # the counts


def test_where_there_is_room_nothing_is_copied(rng, full):
    full.add_one(rng.normal(size=WIDTH), N)
    full.make_room()
    assert full._room._means is None


def test_a_copy_does_not_take_the_half_made_room_along(full):
    full.make_room()
    assert full._room._means is not None
    assert copy.deepcopy(full)._room._means is None


@pytest.mark.parametrize("n_rows", [0, 1, 2, 5, 8])
@pytest.mark.parametrize("fill", [0, 7])
def test_two_threads_pad_an_array_like_one(rng, monkeypatch, n_rows, fill):
    array = rng.normal(size=(n_rows, 3))
    one = arrays.padded(array, 9, fill)
    monkeypatch.setattr(arrays, "LARGE_COPY", 0)
    two = arrays.padded(array, 9, fill)
    np.testing.assert_array_equal(one[:n_rows], array)
    assert (one[n_rows:] == fill).all()
    np.testing.assert_array_equal(two, one)
