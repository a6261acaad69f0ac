import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everlearn.statistics.class_means import MOST_CHANGES, Changes
from everlearn.statistics.moments import Moments
from everlearn.statistics.waiting_rows import CAPACITY, WaitingRows

WIDTH = 37


def scatter_of(rows):
    return np.triu(rows.T @ rows)


@given(
    st.lists(
        st.sampled_from(["one", "few", "many", "ask", "add_complete_groups", "nothing"]),
        min_size=1,
        max_size=30,
    ),
    st.integers(0, 2**32 - 1),
)
@settings(max_examples=60, deadline=None)
def test_the_bits_of_the_sum_do_not_depend_on_the_grouping_of_rows(steps, seed):
    """One by one, in blocks, asked in between or not: the same bits, and the right ones."""
    rng = np.random.default_rng(seed)
    waiting, upper = WaitingRows(WIDTH), np.zeros((WIDTH, WIDTH))
    came = []
    for step in steps:
        if step == "one":
            row = waiting.next_row(upper)
            row[:] = rng.normal(size=WIDTH)
            waiting.add(float(row @ row))
            came.append(row.copy()[None])
        elif step in ("few", "many"):
            rows = rng.normal(size=({"few": 11, "many": 3 * CAPACITY + 5}[step], WIDTH))
            waiting.extend(rows, upper)
            came.append(rows)
        elif step == "nothing":
            waiting.next_row(upper)[:] = 0.0
            waiting.add(0.0)
        elif step == "add_complete_groups":
            waiting.add_complete_groups(upper)
        else:
            waiting.added_to(upper)
    came = np.concatenate([np.zeros((0, WIDTH)), *came])
    other, plain = WaitingRows(WIDTH), np.zeros((WIDTH, WIDTH))
    other.extend(came, plain)
    np.testing.assert_array_equal(waiting.added_to(upper), other.added_to(plain))
    full = waiting.added_to(upper)
    np.testing.assert_allclose(full, scatter_of(came), rtol=0, atol=1e-10)
    v = rng.normal(size=WIDTH)
    symmetric = np.triu(upper) + np.triu(upper, 1).T
    np.testing.assert_allclose(
        symmetric @ v + waiting.times(v), came.T @ (came @ v), rtol=0, atol=1e-9
    )


@given(st.integers(1, 400), st.integers(0, 400), st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_moments_of_single_examples_are_those_of_a_block_in_every_bit(n, asked_after, seed):
    rng = np.random.default_rng(seed)
    X, slots = rng.normal(size=(n, WIDTH)), rng.integers(0, 5, n)
    one_by_one, block = Moments(WIDTH), Moments(WIDTH)
    for index, (x, slot) in enumerate(zip(X, slots, strict=True)):
        one_by_one.add(x[None], np.array([slot]))
        if index == asked_after:
            one_by_one.upper_scatter()
            _ = one_by_one.mean, one_by_one.scatter_trace
    block.add(X, slots)
    for key, array in block.state().items():
        np.testing.assert_array_equal(one_by_one.state()[key], array, err_msg=key)


def test_the_trace_counts_what_waits_and_what_is_leaving(rng):
    moments, rows = Moments(WIDTH), rng.normal(size=(3 * CAPACITY + 50, WIDTH))
    for index, x in enumerate(rows):
        moments.add_one(x, 0)
        if index % 29 == 0:
            expected = np.sum((rows[: index + 1] - rows[: index + 1].mean(axis=0)) ** 2)
            assert moments.scatter_trace == pytest.approx(expected, rel=1e-10, abs=1e-12)


def test_a_product_with_the_scatter_needs_no_flush(rng):
    moments, rows = Moments(WIDTH), rng.normal(size=(2 * CAPACITY + 3, WIDTH))
    v = rng.normal(size=WIDTH)
    for index, x in enumerate(rows):
        moments.add_one(x, index % 3)
        if index % 17 == 0:
            np.testing.assert_allclose(moments.scatter_times(v), moments.copy().scatter() @ v)


def test_a_mean_after_a_removal_is_that_of_what_is_left(rng):
    X, slots = rng.normal(size=(40, WIDTH)), rng.integers(0, 4, 40)
    moments = Moments(WIDTH)
    moments.add(X, slots)
    moments.remove(X[:7], slots[:7])
    moments.add(X[:2], slots[:2])  # before anybody wanted the mean
    expected = np.concatenate([X[7:], X[:2]]).mean(axis=0)
    np.testing.assert_allclose(moments.mean, expected, rtol=0, atol=1e-12)


def test_changes_are_noted_from_the_first_mark_on():
    changes = Changes()
    changes.note_one(7)
    mark = changes.mark()
    assert changes.since(mark) == set()
    changes.note_one(3)
    changes.note([5, 3])
    assert changes.since(mark) == {3, 5}
    later = changes.mark()
    changes.note_one(1)
    assert changes.since(later) == {1}
    changes.note_all()
    assert changes.since(mark) is None
    assert changes.since(changes.mark()) == set()


def test_too_many_changes_are_forgotten():
    changes = Changes()
    mark = changes.mark()
    changes.note(range(MOST_CHANGES))
    assert changes.since(mark) == set(range(MOST_CHANGES))
    middle = changes.mark()
    changes.note_one(0)
    assert changes.since(mark) is None
    assert changes.since(middle) == {0}
