"""Moments on a device against naive sums, for any grouping of the examples."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from everlearn import NearestClassMean, RecursiveRLSC, StreamingLDA
from everlearn.device.device import Incoming, device_named
from everlearn.device.moments import DeviceMoments, add_products
from everlearn.learners.closed_form.sample import Sample, numbers_of, numbers_on_device
from everlearn.statistics.labels import _by_table, _distinct
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
        moments.become(moments.grown(rows.numbered(), slots[low:high], weights[low:high], 4))
        rows.require_finite()
    found, (counts, means, S) = moments.state(), naive(X, slots, weights, 4)
    np.testing.assert_allclose(found["counts"], counts)
    np.testing.assert_allclose(found["means"], means, rtol=1e-12, atol=1e-12 * (1 + offset))
    np.testing.assert_allclose(found["scatter"], np.triu(S), rtol=1e-9, atol=1e-9)


def test_a_symmetric_product_in_panels(monkeypatch, rng):
    monkeypatch.setattr("everlearn.device.moments.PANEL", 3)
    rows = rng.normal(size=(5, 10))
    upper = add_products(np.zeros((10, 10)), rows)
    np.testing.assert_allclose(np.triu(upper), np.triu(rows.T @ rows))


@settings(max_examples=40, deadline=None)
@given(
    slots=st.lists(st.integers(0, 4), min_size=1, max_size=80),
    size=st.integers(1, 30),
    name=st.sampled_from(["strict", "torch"]),
    seed=st.integers(0, 1000),
)
def test_the_sample_of_rows_on_a_device_is_that_of_the_host(slots, size, name, seed):
    device = device_named(kind_named(name).device)
    assert device is not None
    rng = np.random.default_rng(seed)
    X, column = rng.normal(size=(len(slots), 3)), np.array(slots, dtype=np.intp)
    X[rng.random(len(X)) < 0.1] = 0.0
    numbers = numbers_on_device(device, device.array(X))
    np.testing.assert_array_equal(numbers, numbers_of(X))
    host, there = Sample(3, size), Sample(3, size)
    host.offer(X, column, None)
    there.offer_numbered(numbers, column, None, lambda chosen: X[chosen])
    for key, array in host.state().items():
        np.testing.assert_array_equal(there.state()[key], array)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-5, 20), min_size=1, max_size=60), st.sampled_from(["i8", "u1", "i2"]))
def test_label_lookup_agrees_with_sorting(values, dtype):
    column = np.abs(values).astype(dtype) if dtype == "u1" else np.array(values, dtype=dtype)
    expected = _distinct(column)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("everlearn.statistics.labels.MANY_LABELS", 1)
        found = _by_table(column)
    if found is not None:
        assert found[0] == expected[0]
        np.testing.assert_array_equal(found[1], expected[1])


@pytest.mark.parametrize("learner", [NearestClassMean, StreamingLDA, RecursiveRLSC])
def test_as_many_classes_as_rows_are_learned_in_few_blocks(kind, rng, learner, monkeypatch):
    """On torch, sums by class allocate no array of rows × classes."""
    from everlearn.device import device as module

    monkeypatch.setattr(module, "BLOCK_NUMBERS", 4096)
    X, y = rng.normal(size=(400, 9)), rng.permutation(400) % 397
    here = learner().fit(X, y).partial_fit(X[:50] + 1.0, y[:50])
    there = (
        kind.on_device(learner()).fit(kind.make(X), y).partial_fit(kind.make(X[:50] + 1.0), y[:50])
    )
    ours, theirs = here.moments_.state(), there.moments_.state()
    for key, array in ours.items():
        np.testing.assert_allclose(theirs[key], array, rtol=1e-9, atol=1e-9, err_msg=key)
