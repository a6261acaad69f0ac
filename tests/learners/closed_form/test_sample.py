"""A sample that is a function of the set of examples."""

import pickle

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from everlearn.learners.closed_form import sample as sample_module
from everlearn.learners.closed_form.sample import Sample, numbers_of
from everlearn.statistics.slices import finished


def contents(sample):
    rows = sample.rows()
    return sorted((int(slot), *row.tolist()) for slot, row in zip(rows.slots, rows.X, strict=True))


def stream(seed, n=200, n_classes=5):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 3)), rng.integers(0, n_classes, n).astype(np.intp)


@given(st.integers(0, 10_000), st.integers(4, 60))
def test_any_order_and_any_blocks_give_the_same_sample(seed, size):
    X, slots = stream(seed)
    whole, parts = Sample(3, size), Sample(3, size)
    whole.offer(X, slots, None)
    order = np.random.default_rng(seed + 1).permutation(len(X))
    for part in np.array_split(order, 7):
        parts.offer(X[part], slots[part], None)
    assert contents(whole) == contents(parts)
    assert len(whole) <= max(size, 5)


@given(st.integers(0, 10_000), st.integers(4, 60))
def test_one_at_a_time_gives_the_sample_of_a_batch(seed, size):
    X, slots = stream(seed)
    weights = np.random.default_rng(seed).integers(1, 3, len(X)).astype(float)
    batch, loop = Sample(3, size), Sample(3, size)
    batch.offer(X, slots, weights)
    for x, slot, weight in zip(X, slots, weights, strict=True):
        loop.offer(x[None], np.array([slot]), np.array([weight]))
    assert contents(batch) == contents(loop)
    kept = loop.state()
    again = {name: array.copy() for name, array in kept.items()}
    loop.offer(X + 1.0, slots, weights)
    assert all(np.array_equal(kept[name], again[name]) for name in kept)


@given(st.integers(0, 10_000))
def test_the_sample_of_two_streams_equals_that_of_one(seed):
    X, slots = stream(seed)
    one, left, right = Sample(3, 25), Sample(3, 25), Sample(3, 25)
    one.offer(X, slots, None)
    left.offer(X[:90], slots[:90], None)
    right.offer(X[90:], slots[90:], None)
    left.absorb(right, np.arange(5))
    assert contents(one) == contents(left)


def test_forgetting_removes_exactly_the_forgotten_examples():
    X, slots = stream(0, n=20)
    sample, rest = Sample(3, 100), Sample(3, 100)
    sample.offer(X, slots, None)
    sample.discard(X[5:9], slots[5:9])
    kept = np.r_[0:5, 9:20]
    rest.offer(X[kept], slots[kept], None)
    assert contents(sample) == contents(rest)


def test_returned_rows_do_not_change_later():
    X, slots = stream(1)
    sample = Sample(3, 20)
    sample.offer(X[:100], slots[:100], None)
    given = sample.rows()
    before = given.X.copy()
    sample.offer(X[100:], slots[100:], None)
    assert np.array_equal(given.X, before)
    assert not np.array_equal(sample.rows().X, before)


@given(
    st.integers(0, 10_000),
    st.integers(4, 60),
    st.lists(st.sampled_from(["offer", "some", "absorb", "discard", "copy"]), max_size=40),
)
def test_a_gradual_copy_is_the_sample_of_its_beginning(seed, size, changes):
    X, slots = stream(seed, 400)
    sample, other = Sample(3, size), Sample(3, size)
    other.offer(X[300:], slots[300:], None)
    sample.offer(X[:30], slots[:30], None)
    before = sample.frozen()
    frozen = sample.frozen(np.full((len(sample) + 2, 3), np.nan))
    work, step = frozen.complete(1000.0), 30
    for change in changes:
        if change == "copy":
            next(work, None)
        elif change == "absorb":
            sample.absorb(other, np.arange(5))
        elif change == "discard":
            sample.discard(X[: step // 4], slots[: step // 4])
        else:
            n = 1 if change == "offer" else 12
            sample.offer(X[step : step + n], slots[step : step + n], None)
            step += n
    finished(work)
    for name in ("X", "slots", "weights"):
        assert np.array_equal(getattr(frozen.rows, name), getattr(before.rows, name)), name
    assert np.array_equal(frozen.numbers, before.numbers)
    assert frozen.is_all == before.is_all


def test_an_abandoned_copy_is_not_kept_up():
    sample = Sample(3, 10)
    sample.offer(*stream(0, 20), None)
    frozen = sample.frozen(np.empty((12, 3)))
    assert len(sample._copies) == 1
    assert not sample.copy()._copies
    del frozen
    assert not sample._copies


def test_an_example_copies_no_others(monkeypatch):
    X, slots = stream(3, n=500)
    sample, sizes = Sample(3, 300), []
    grown = sample_module.padded
    monkeypatch.setattr(
        sample_module, "padded", lambda array, room: sizes.append(len(array)) or grown(array, room)
    )
    for x, slot in zip(X, slots, strict=True):
        sample.offer(x[None], np.array([slot]), None)
    assert sizes == [0]
    assert len(sample) == 300


def test_a_copy_holds_no_room(rng):
    X, slots = rng.normal(size=(200, 100)), np.zeros(200, dtype=np.intp)
    sample = Sample(100, 8000)
    sample.offer(X, slots, None)
    stored = pickle.dumps(sample)
    assert len(stored) < 2 * X.nbytes
    again = pickle.loads(stored)
    for each in (again, sample.copy()):
        assert contents(each) == contents(sample)
    again.offer(X + 1.0, slots, None)
    assert len(again) == 400
    assert len(sample) == 200


def test_no_copy_of_a_forgotten_example_stays_in_memory():
    X, slots = stream(2)
    sample = Sample(3, 20)
    sample.offer(X, slots, None)
    given = sample.rows()
    sample.discard(given.X[:4], given.slots[:4])
    arrays = [value for value in vars(sample).values() if isinstance(value, np.ndarray)]
    kept = b"".join(array.tobytes() for array in arrays)
    assert all(row.tobytes() not in kept for row in given.X[:4])
    assert all(row.tobytes() in kept for row in given.X[4:])


def test_the_sample_is_unbiased(rng):
    """Numbers look random: kept examples have the mean of all, within four standard errors."""
    X = rng.normal(size=(20_000, 4))
    sample = Sample(4, 1000)
    sample.offer(X, np.zeros(len(X), dtype=np.intp), None)
    assert len(sample) == 1000
    assert np.abs(sample.rows().X.mean(axis=0)).max() < 4 / np.sqrt(1000)
    assert len(np.unique(numbers_of(X))) == len(X)


def test_the_last_bits_of_a_row_do_not_matter(rng):
    X = rng.normal(size=(500, 40))
    noise = 1.0 + 1e-15 * rng.normal(size=X.shape)
    assert np.array_equal(numbers_of(X), numbers_of(X * noise))
    assert not np.any(numbers_of(X) == numbers_of(2.0 * X))
