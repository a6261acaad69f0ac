"""Moments on a device, against sums written down plainly, for any grouping of the examples."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from everlearn.device.device import Incoming, device_named
from everlearn.learners.closed_form.model_selection import HeldOut
from everlearn.statistics.device_moments import DeviceMoments, add_products
from everlearn.statistics.labels import _by_table, _by_word, _distinct
from tests.device.kinds import kind_named


def naive(X, slots, weights, n_slots):
    """Counts, means and pooled scatter, one class after the other."""
    counts, means, S = np.zeros(n_slots), np.zeros((n_slots, X.shape[1])), 0.0
    for slot in range(n_slots):
        w, rows = weights[slots == slot], X[slots == slot]
        counts[slot] = w.sum()
        if counts[slot]:
            means[slot] = w @ rows / w.sum()
            S = S + (w[:, None] * (rows - means[slot])).T @ (rows - means[slot])
    return counts, means, S


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    n=st.integers(2, 60),
    cuts=st.lists(st.integers(0, 60), max_size=4),
    block=st.integers(1, 40),
    offset=st.sampled_from([0.0, 1e3]),
    name=st.sampled_from(["strict", "torch"]),
    seed=st.integers(0, 1000),
)
def test_any_grouping_gives_the_same_moments(monkeypatch, n, cuts, block, offset, name, seed):
    device = device_named(kind_named(name).device)
    assert device is not None
    monkeypatch.setattr("everlearn.device.device.BLOCK_NUMBERS", block * 8)
    rng = np.random.default_rng(seed)
    X, slots = offset + rng.normal(size=(n, 3)), rng.integers(0, 4, n)
    weights = rng.integers(1, 4, n).astype(float)
    moments = DeviceMoments(device, 3, scatter=True)
    edges = sorted({0, n, *(cut for cut in cuts if cut < n)})
    for low, high in pairwise(edges):
        rows = Incoming(device, X[low:high], width=8)
        moments.add(rows, slots[low:high], weights[low:high], 4)
    found, (counts, means, S) = moments.state(), naive(X, slots, weights, 4)
    np.testing.assert_allclose(found["counts"], counts)
    np.testing.assert_allclose(found["means"], means, rtol=1e-12, atol=1e-12 * (1 + offset))
    np.testing.assert_allclose(found["scatter"], np.triu(S), rtol=1e-9, atol=1e-9)

    held = rng.permutation(n)[: n // 3]
    left = moments.without(device.array(X[held]), slots[held], weights[held])
    rest = np.setdiff1d(np.arange(n), held)
    counts, means, S = naive(X[rest], slots[rest], weights[rest], 4)
    np.testing.assert_allclose(left.counts, counts, atol=1e-9)
    found = left.state()
    np.testing.assert_allclose(
        found["means"][counts > 0], means[counts > 0], rtol=1e-10, atol=1e-10 * (1 + offset)
    )
    np.testing.assert_allclose(found["scatter"], np.triu(S), rtol=1e-8, atol=1e-8)


def test_a_symmetric_product_in_panels(monkeypatch, rng):
    monkeypatch.setattr("everlearn.statistics.device_moments.PANEL", 3)
    rows = rng.normal(size=(5, 10))
    upper = add_products(np.zeros((10, 10)), rows)
    np.testing.assert_allclose(np.triu(upper), np.triu(rows.T @ rows))


@settings(max_examples=60, deadline=None)
@given(
    already=st.lists(st.integers(0, 4), max_size=30),
    slots=st.lists(st.integers(0, 4), min_size=1, max_size=80),
    every=st.integers(1, 4),
    size=st.integers(1, 9),
)
def test_held_out_examples_are_planned_as_they_are_kept_one_by_one(already, slots, every, size):
    one, other = (HeldOut(1, every=every, size=size) for _ in range(2))
    first = np.arange(len(already), dtype=float)[:, None]
    rows = 100.0 + np.arange(len(slots), dtype=float)[:, None]
    for held in (one, other):
        held.offer(first, np.array(already, dtype=np.intp))
    column = np.array(slots, dtype=np.intp)
    one.offer(rows, column)
    found = other.places_for(column)
    other.take(found, rows[list(found.values())], column, None)
    for name, array in one.state().items():
        np.testing.assert_array_equal(other.state()[name], array)
    assert one.seen == other.seen


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-5, 20), min_size=1, max_size=60), st.sampled_from(["i8", "u1", "i2"]))
def test_labels_are_looked_up_as_they_are_sorted(values, dtype):
    column = np.abs(values).astype(dtype) if dtype == "u1" else np.array(values, dtype=dtype)
    expected = _distinct(column)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("everlearn.statistics.labels.MANY_LABELS", 1)
        found = _by_table(column)
    if found is not None:
        assert found[0] == expected[0]
        np.testing.assert_array_equal(found[1], expected[1])
    words = column.astype(str)
    expected, found = _distinct(words), _by_word(words)
    assert found[0] == expected[0]
    np.testing.assert_array_equal(found[1], expected[1])
