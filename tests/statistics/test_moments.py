import numpy as np
import pytest

from everlearn.errors import NeverLearned, NotForgettable
from everlearn.statistics.moments import Moments
from everlearn.statistics.moments_kernels import STRIP, TOGETHER
from everlearn.statistics.waiting_rows import (
    CAPACITY,
    add_outer_products,
    subtract_outer_products,
)
from tests.oracles import class_moments


def examples(rng, n=200, d=7, k=5):
    slots = rng.integers(0, k, n)
    slots[:k] = np.arange(k)
    X = rng.normal(size=(k, d))[slots] * 3 + rng.normal(size=(n, d)) @ rng.normal(size=(d, d))
    return X, slots


def assert_equals_oracle(moments, X, slots, weights=None, rtol=1e-11):
    _, counts, means, scatter = class_moments(X, slots, weights)
    known = moments.counts > 0
    np.testing.assert_allclose(moments.counts[known], counts, rtol=rtol)
    np.testing.assert_allclose(moments.means[known], means, rtol=rtol, atol=1e-11)
    np.testing.assert_allclose(moments.scatter(), scatter, rtol=rtol, atol=1e-9)
    total = np.ones(len(X)) if weights is None else weights
    np.testing.assert_allclose(moments.mean, total @ X / total.sum(), rtol=rtol, atol=1e-11)
    second = X.T @ (total[:, None] * X)
    np.testing.assert_allclose(np.triu(moments.gram()), np.triu(second), rtol=rtol, atol=1e-9)


def test_a_block_equals_a_two_pass_computation(rng):
    X, slots = examples(rng)
    moments = Moments(7)
    moments.add(X, slots)
    assert_equals_oracle(moments, X, slots)


@pytest.mark.parametrize("d", [1, 2, 3, 5, STRIP - 1, STRIP, STRIP + 1, 2 * STRIP + 6])
@pytest.mark.parametrize("n", [1, TOGETHER - 1, TOGETHER, TOGETHER + 1, CAPACITY, CAPACITY + 1])
@pytest.mark.parametrize(
    ("change", "sign"), [(add_outer_products, 1.0), (subtract_outer_products, -1.0)]
)
def test_outer_products_change_only_what_is_above_the_diagonal(rng, n, d, change, sign):
    rows, before = rng.normal(size=(n, d)), rng.normal(size=(d, d))
    after = before.copy()
    change(after, rows)
    np.testing.assert_allclose(after - before, sign * np.triu(rows.T @ rows), rtol=0, atol=1e-12)


@pytest.mark.parametrize("first", [TOGETHER, 2 * TOGETHER, 5 * TOGETHER])
def test_outer_products_in_parts_are_the_same_bits(rng, first):
    """A Memory that was asked on the way must end where one does that was not."""
    rows = rng.normal(size=(6 * TOGETHER + 5, 2 * STRIP + 6))
    whole, parts = np.zeros((2, rows.shape[1], rows.shape[1]))
    add_outer_products(whole, rows)
    add_outer_products(parts, rows[:first])
    add_outer_products(parts, rows[first:])
    np.testing.assert_array_equal(whole, parts)


def test_single_rows_equal_a_block_across_a_full_buffer(rng):
    X, slots = examples(rng, n=3 * CAPACITY + 11)
    moments = Moments(7, class_scatter=True)
    for x, slot in zip(X, slots, strict=True):
        moments.add_one(x, int(slot))
    assert_equals_oracle(moments, X, slots)
    _, _, _, of_class = class_moments(X[slots == 2], slots[slots == 2])
    np.testing.assert_allclose(moments.class_scatter(2), of_class, rtol=1e-10, atol=1e-9)


def test_weights_count_as_repetitions(rng):
    X, slots = examples(rng)
    weights = rng.integers(1, 4, len(X)).astype(float)
    moments = Moments(7)
    moments.add(X[:90], slots[:90], weights[:90])
    moments.add(X[90:], slots[90:], weights[90:])
    repeats = weights.astype(int)
    assert_equals_oracle(moments, np.repeat(X, repeats, axis=0), np.repeat(slots, repeats))


def test_features_far_from_zero_keep_their_variance(rng):
    X = 1e6 + rng.normal(size=(4000, 3))
    slots = rng.integers(0, 2, 4000)
    together, one_by_one = Moments(3), Moments(3)
    together.add(X[:1000], slots[:1000])
    together.add(X[1000:], slots[1000:])
    for x, slot in zip(X, slots, strict=True):
        one_by_one.add_one(x, int(slot))
    exact = np.zeros((3, 3))
    for k in (0, 1):
        mine = (X[slots == k] - 1e6).astype(np.longdouble)
        mine -= mine.mean(axis=0)
        exact += (mine.T @ mine).astype(float)
    np.testing.assert_allclose(together.scatter(), exact, rtol=1e-9, atol=1e-5)
    np.testing.assert_allclose(one_by_one.scatter(), exact, rtol=1e-9, atol=1e-5)


def test_merging_shards_equals_the_whole(rng):
    X, slots = examples(rng)
    whole = Moments(7, class_scatter=True)
    for part in np.array_split(rng.permutation(len(X)), 9):
        shard = Moments(7, class_scatter=True)
        shard.add(X[part], 4 - slots[part])  # another numbering of the same classes
        whole.merge(shard, np.array([4, 3, 2, 1, 0])[: shard.n_slots])
    assert_equals_oracle(whole, X, slots)
    mine = slots == 1
    expected = class_moments(X[mine], slots[mine])[3]
    np.testing.assert_allclose(whole.class_scatter(1), expected, rtol=1e-10, atol=1e-9)


def test_removing_equals_never_having_added(rng):
    X, slots = examples(rng)
    weights = rng.uniform(0.5, 2.0, len(X))
    gone = rng.random(len(X)) < 0.5
    gone |= slots == 3
    moments = Moments(7)
    moments.add(X, slots, weights)
    moments.remove(X[gone], slots[gone], weights[gone])
    assert moments.counts[3] == 0
    assert_equals_oracle(moments, X[~gone], slots[~gone], weights[~gone], rtol=1e-9)


def test_removing_everything_leaves_exact_zeros(rng):
    X, slots = examples(rng)
    moments = Moments(7)
    moments.add(X, slots)
    moments.remove(X, slots)
    assert moments.total == 0
    assert not moments.scatter().any()
    assert not moments.means.any()
    assert not moments.mean.any()


def test_forgetting_a_class_leaves_the_others(rng):
    X, slots = examples(rng)
    moments = Moments(7, class_scatter=True)
    moments.add(X, slots)
    moments.remove_class(2)
    assert_equals_oracle(moments, X[slots != 2], slots[slots != 2], rtol=1e-9)


def test_forgetting_a_class_needs_its_own_scatter(rng):
    X, slots = examples(rng)
    moments = Moments(7)
    moments.add(X, slots)
    with pytest.raises(NotForgettable):
        moments.remove_class(2)
    assert_equals_oracle(moments, X, slots)


@pytest.mark.parametrize("what", ["too many", "not the last ones", "too large"])
def test_removing_what_was_not_learned_is_refused_before_any_change(rng, what):
    X, slots = examples(rng)
    moments = Moments(7)
    moments.add(X, slots)
    mine = slots == 0
    wrong = {
        "too many": (np.concatenate([X[mine], X[mine][:1]]), np.zeros(mine.sum() + 1, dtype=int)),
        "not the last ones": (X[mine] + 1.0, slots[mine]),
        "too large": (1e3 * X[mine][:2], slots[mine][:2]),
    }[what]
    with pytest.raises(NeverLearned):
        moments.remove(*wrong)
    assert_equals_oracle(moments, X, slots)


def test_rows_returned_are_the_growth_of_the_scatter(rng):
    X, slots = examples(rng)
    moments = Moments(7)
    moments.add(X[:100], slots[:100])
    before = moments.scatter()
    rows = moments.add(X[100:], slots[100:])
    np.testing.assert_allclose(moments.scatter() - before, rows.T @ rows, rtol=1e-9, atol=1e-8)
    before = moments.scatter()
    rows = moments.remove(X[:50], slots[:50])
    np.testing.assert_allclose(before - moments.scatter(), rows.T @ rows, rtol=1e-9, atol=1e-8)


@pytest.mark.parametrize("scale", [1e-60, 1.0, 1e100])
def test_rounding_errors_of_forgetting_are_not_variance(rng, scale):
    X = scale * (1e3 + rng.normal(size=(4, 5)))
    moments = Moments(5)
    moments.add(X, np.array([0, 1, 1, 1]))
    moments.remove(X[2:], np.array([1, 1]))
    assert not moments.upper_scatter().any()
    assert moments.scatter_trace == 0.0


@pytest.mark.parametrize("class_scatter", [False, True])
def test_unmerging_leaves_what_two_passes_over_the_rest_give(rng, class_scatter):
    X, slots = examples(rng)
    slots[:30] = 4  # the first shard alone knows class 5
    slots[30:][slots[30:] == 4] = 0
    slots[3] = 5
    whole, shard = (Moments(7, class_scatter=class_scatter) for _ in range(2))
    whole.add(X, slots)
    shard.add(X[:30], slots[:30])
    whole.unmerge(shard, np.arange(shard.n_slots))
    assert_equals_oracle(whole, X[30:], slots[30:])
    assert whole.counts[5] == 0
    if class_scatter:
        _, _, _, of_class = class_moments(X[30:][slots[30:] == 0], slots[30:][slots[30:] == 0])
        np.testing.assert_allclose(whole.class_scatter(0), of_class, rtol=1e-10, atol=1e-9)


def test_moments_that_were_never_merged_cannot_be_unmerged(rng):
    X, slots = examples(rng)
    whole, more, wilder = Moments(7), Moments(7), Moments(7)
    whole.add(X, slots)
    more.add(np.concatenate([X, X]), np.concatenate([slots, slots]))
    wilder.add(100 * X[:50], slots[:50])
    before = {key: array.copy() for key, array in whole.state().items()}
    for never in (more, wilder):
        with pytest.raises(NeverLearned):
            whole.unmerge(never, np.arange(never.n_slots))
        for key, array in whole.state().items():
            np.testing.assert_array_equal(array, before[key])
