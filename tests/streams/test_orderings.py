"""Orderings: each is a permutation with the property its name promises."""

from itertools import groupby

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everlearn.errors import InvalidParameter, NoInstances, TooFewExamples
from everlearn.streams import orderings

# Three classes, two videos each, frames 0-3, stored mixed up.
CLASS = np.repeat([0, 1, 2], 8)
VIDEO = np.repeat(np.arange(6), 4)
FRAME = np.tile(np.arange(4), 6)
MIXED = np.lexsort((np.arange(24), FRAME))
Y, INSTANCES, FRAMES = CLASS[MIXED], VIDEO[MIXED], FRAME[MIXED]


def runs(values):
    """The values with repetitions in a row dropped."""
    return [value for value, _ in groupby(values.tolist())]


@pytest.mark.parametrize("seed", range(3))
def test_every_ordering_shows_every_example_once(seed):
    for order in (
        orderings.iid(Y, seed),
        orderings.class_iid(Y, seed),
        orderings.instance(Y, INSTANCES, seed),
        orderings.class_instance(Y, INSTANCES, seed),
        np.concatenate(orderings.class_batches(Y, initial=1, step=1, seed=seed)),
    ):
        assert sorted(order.tolist()) == list(range(len(Y)))


def test_class_iid_shows_each_class_once_and_shuffles_within():
    order = orderings.class_iid(Y, 1)
    assert len(runs(Y[order])) == 3
    assert any(np.any(np.diff(FRAMES[order][8 * k : 8 * k + 8]) < 0) for k in range(3))


def test_instance_keeps_videos_together_and_in_time_and_classes_come_back():
    order = orderings.instance(Y, INSTANCES, 2)
    assert len(runs(INSTANCES[order])) == 6
    assert FRAMES[order].tolist() == [0, 1, 2, 3] * 6
    assert len(runs(Y[order])) > 3


def test_class_instance_keeps_classes_and_videos_together():
    order = orderings.class_instance(Y, INSTANCES, 2)
    assert len(runs(Y[order])) == 3
    assert len(runs(INSTANCES[order])) == 6
    assert FRAMES[order].tolist() == [0, 1, 2, 3] * 6


def test_the_seed_decides():
    assert orderings.iid(Y, 3).tolist() == orderings.iid(Y, 3).tolist()
    assert orderings.iid(Y, 3).tolist() != orderings.iid(Y, 4).tolist()
    orders = {tuple(runs(Y[orderings.class_instance(Y, INSTANCES, seed)])) for seed in range(20)}
    assert len(orders) > 3


@pytest.mark.parametrize("ordering", [orderings.instance, orderings.class_instance])
def test_an_ordering_by_instance_needs_instances(ordering):
    with pytest.raises(NoInstances, match="give instances, or use iid or class_iid"):
        ordering(Y, None)


@given(st.integers(1, 12), st.integers(1, 5), st.data())
@settings(max_examples=25, deadline=None)
def test_class_batches_partition_the_classes(n_classes, step, data):
    initial = data.draw(st.integers(1, n_classes))
    y = np.repeat(np.arange(n_classes), 3)
    batches = orderings.class_batches(y, initial=initial, step=step, seed=0)
    sizes = [len(np.unique(y[batch])) for batch in batches]
    assert sizes[0] == initial
    assert sum(sizes) == n_classes
    assert all(size == step for size in sizes[1:-1])
    seen = [set(y[batch].tolist()) for batch in batches]
    assert all(not (a & b) for i, a in enumerate(seen) for b in seen[:i])


def test_class_batches_in_a_given_order():
    y = np.repeat(np.arange(5), 4)
    batches = orderings.class_batches(y, initial=2, step=2, classes=[3, 0, 4, 1])
    # A class that is not named does not come.
    assert [sorted(set(y[batch].tolist())) for batch in batches] == [[0, 3], [1, 4]]
    assert [len(batch) for batch in batches] == [8, 8]


def test_empty_class_batches_are_refused():
    with pytest.raises(InvalidParameter, match="classes, 3"):
        orderings.class_batches(Y, initial=4, step=1)


def test_balanced_then_rare():
    split = orderings.balanced_then_rare(Y, 1, n_balanced=4, n_rare=5, n_validation=2, seed=0)
    assert np.bincount(Y[split.balanced], minlength=3).tolist() == [4, 0, 4]
    assert np.bincount(Y[split.validation], minlength=3).tolist() == [2, 0, 2]
    assert Y[split.rare].tolist() == [1] * 5
    parts = np.concatenate([split.balanced, split.validation, split.rare])
    assert len(set(parts.tolist())) == len(parts)


def test_balanced_then_rare_says_which_class_is_too_small():
    with pytest.raises(TooFewExamples, match="has 8 examples, the protocol takes 9"):
        orderings.balanced_then_rare(Y, 1, n_balanced=9, n_rare=1)
    with pytest.raises(InvalidParameter, match="7"):
        orderings.balanced_then_rare(Y, 7, n_balanced=1, n_rare=1)


def test_alternating():
    order = orderings.alternating(Y, 2, seed=0)
    assert (Y[order] == 2).tolist() == [True, False] * 8
    assert len(set(order.tolist())) == 16
    with pytest.raises(TooFewExamples, match="alternating needs both"):
        orderings.alternating(Y, 9)
