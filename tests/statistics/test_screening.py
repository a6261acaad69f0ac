"""A screen never loses the best row, also for adversarial rows."""

from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everlearn import NearestClassMean, RecursiveRLSC, StreamingLDA
from everlearn.arrays import softmax
from everlearn.errors import InvalidParameter
from everlearn.learners import lda
from everlearn.learners.closed_form import additive, screened
from everlearn.statistics import screening
from everlearn.statistics.products import products_one
from everlearn.statistics.screening import Products, Screen


def screen_of(rows, centre=None, fine=False):
    screen = Screen(rows.mean(axis=0) if centre is None else centre)
    while not screen.extend(rows):
        pass
    while fine and not screen.is_fine:
        screen.refine(rows)
    return screen


def random_rows(rng, n, d):
    return rng.normal(size=(n, d))


def ties(rng, n, d):
    return np.repeat(rng.normal(size=(n // 7 + 1, d)), 7, axis=0)[:n]


def on_a_line(rng, n, d):
    return np.linspace(-1.0, 1.0, n)[:, None] * rng.normal(size=d)


def huge_and_tiny(rng, n, d):
    return rng.normal(size=(n, d)) * 10.0 ** rng.integers(-150, 150, size=(n, 1))


def nearly_equal(rng, n, d):
    return rng.normal(size=d) + 1e-13 * rng.normal(size=(n, d))


def far_away(rng, n, d):
    return 1e8 + rng.normal(size=(n, d))


def zeros(rng, n, d):
    return np.zeros((n, d))


def one_outlier(rng, n, d):
    rows = 1e-3 * rng.normal(size=(n, d))
    rows[n // 2, 0] = 1e6
    return rows


KINDS = [
    random_rows,
    ties,
    on_a_line,
    huge_and_tiny,
    nearly_equal,
    far_away,
    zeros,
    one_outlier,
]


@given(
    st.sampled_from(KINDS),
    st.integers(1, 60),
    st.integers(1, 40),
    st.sampled_from([0.0, 1e-300, 1e-12, 1.0, 1e12, 1e120]),
    st.integers(1, 5),
    st.integers(0, 2**32 - 1),
)
@settings(max_examples=400, deadline=None)
def test_the_best_rows_are_always_candidates(kind, n, d, size, best, seed):
    rng = np.random.default_rng(seed)
    rows = kind(rng, n, d)
    counts = (rng.random(len(rows)) < 0.9).astype(float)
    z = size * rng.normal(size=d)
    scale, bias = rng.random(len(rows)) * 3, rng.normal(size=len(rows))
    offset = float(rng.normal())
    screen = screen_of(rows)
    with np.errstate(all="ignore"):
        scores = (products_one(rows, z) + offset) * scale + bias
    found = screen.candidates(Products(z, scale, offset, bias), counts, best=best)
    if found is None:
        return
    known = np.flatnonzero(counts > 0)
    assert set(found) <= set(known)
    lowest = np.sort(scores[known])[::-1][: min(best, len(known))]
    wanted = known[scores[known] >= lowest[-1]] if len(known) else known
    assert set(wanted) <= set(found)


@given(
    st.sampled_from(KINDS),
    st.integers(1, 60),
    st.integers(1, 40),
    st.sampled_from([1e-12, 1.0, 1e12, 1e120]),
    st.sampled_from([1e-6, 1.0, 1e6]),
    st.sampled_from([1e-6, 0.01, 0.5]),
    st.integers(1, 5),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
@settings(max_examples=800, deadline=None)
def test_shares_are_those_of_all_rows_up_to_the_tolerance(
    kind, n, d, size, temperature, tolerance, best, fine, seed
):
    rng = np.random.default_rng(seed)
    rows = kind(rng, n, d)
    counts = (rng.random(len(rows)) < 0.9).astype(float)
    asked = Products(
        size * rng.normal(size=d),
        rng.random(len(rows)) * 3,
        float(rng.normal()),
        rng.normal(size=len(rows)),
    )

    def exact(slots):
        return (products_one(rows[slots], asked.z) + asked.offset) * asked.scale[
            slots
        ] + asked.bias[slots]

    with mock.patch.multiple(screening, LARGE_SHARE=1.1, FURTHER=(1, 3, 7, 20)):
        found = screen_of(rows, fine=fine).shares(
            asked, counts, exact, best=best, temperature=temperature, tolerance=tolerance
        )
    known = np.flatnonzero(counts > 0)
    if found is None:
        return
    with np.errstate(all="ignore"):
        scores = exact(known)
        expected = np.exp((scores - scores.max()) / temperature)
    expected /= expected.sum()
    slots, shares, of_slots = found
    np.testing.assert_array_equal(of_slots, exact(slots))
    ours = expected[np.searchsorted(known, slots)]
    np.testing.assert_allclose(shares, ours, rtol=tolerance / 2 + 1e-9, atol=1e-300)
    lowest = np.sort(scores)[::-1][: min(best, len(known))]
    assert set(known[scores >= lowest[-1]]) <= set(slots)


def test_shares_of_few_dominant_rows_need_few_rows(rng):
    rows = rng.normal(size=(5000, 64))
    screen, scored = screen_of(rows), []

    def exact(slots):
        scored.append(len(slots))
        return rows[slots] @ x

    x = 3.0 * rows[17]
    slots, shares, _ = screen.shares(
        Products(x), np.ones(5000), exact, best=5, temperature=1.0, tolerance=1e-3
    )
    assert shares[slots == 17] > 0.999
    assert sum(scored) < 200


def test_flat_shares_are_computed_exactly(rng):
    """All rows have about the same share, and bounds of a byte per number do not settle it."""
    rows = rng.normal(size=(5000, 64))
    x = rng.normal(size=64)
    found = screen_of(rows).shares(
        Products(x),
        np.ones(5000),
        lambda slots: rows[slots] @ x,
        best=5,
        temperature=10.0,
        tolerance=1e-6,
    )
    assert found is None


def test_flat_shares_are_found_with_fine_bounds(rng):
    """Without scoring more than the best."""
    rows, scored = rng.normal(size=(5000, 64)), []
    x = rng.normal(size=64)

    def exact(slots):
        scored.append(len(slots))
        return rows[slots] @ x

    slots, shares, _ = screen_of(rows, fine=True).shares(
        Products(x), np.ones(5000), exact, best=5, temperature=5.0, tolerance=0.01
    )
    expected = softmax(rows @ x / 5.0)
    np.testing.assert_allclose(shares, expected[slots], rtol=0.005)
    assert set(np.argsort(-expected)[:5]) <= set(slots)
    assert sum(scored) < 50
    assert shares.sum() < 0.5


def test_a_second_byte_is_added_while_rows_change(rng, monkeypatch):
    monkeypatch.setattr(screening, "SLICE", 64)
    rows, x = rng.normal(size=(500, 32)), rng.normal(size=32)
    screen = screen_of(rows[:400])

    def shares():
        return screen.shares(
            Products(x),
            np.ones(screen.n_rows),
            lambda slots: rows[slots] @ x,
            best=3,
            temperature=5.0,
            tolerance=0.01,
        )

    assert shares() is None
    assert screen.wants_fine
    for step in range(7):
        assert not screen.is_fine
        screen.refine(rows[: screen.n_rows])
        changed = rng.choice(screen.n_rows, 5, replace=False)
        rows[changed] *= 1.5
        screen.mend(rows, changed)
        while step < 6 and not screen.extend(rows[: 410 + 5 * step]):
            pass
    assert screen.is_fine
    while not screen.extend(rows):
        pass
    assert screen.is_fine
    slots, found, _ = shares()
    expected = softmax(rows @ x / 5.0)
    np.testing.assert_allclose(found, expected[slots], rtol=0.005)
    assert set(np.argsort(-expected)[:3]) <= set(slots)


@pytest.mark.parametrize("fine", [False, True])
def test_rows_that_are_added_to_a_full_screen_do_not_copy_it_each_time(rng, monkeypatch, fine):
    rows = rng.normal(size=(300, 4))
    screen, copied, padded = screen_of(rows[:256], fine=fine), [], screening.padded
    monkeypatch.setattr(screening, "padded", lambda array, n: copied.append(n) or padded(array, n))
    for n in range(257, 301):
        assert screen.extend(rows[:n])
    assert not copied
    assert screen.extend(np.repeat(rows, 2, axis=0))
    assert set(copied) == {750}


def test_few_candidates_remain_if_rows_can_be_pruned(rng):
    rows = rng.normal(size=(5000, 64))
    screen = screen_of(rows)
    left = [len(screen.candidates(Products(x), np.ones(5000))) for x in rng.normal(size=(50, 64))]
    assert np.median(left) < 10


@pytest.mark.parametrize("fine", [False, True])
def test_changed_rows_are_updated_one_by_one(rng, fine):
    rows = rng.normal(size=(3000, 16))
    screen = screen_of(rows, fine=fine)
    changed = rng.choice(3000, 40, replace=False)
    rows[changed] *= 5.0
    screen.mend(rows, changed)
    for z in rng.normal(size=(20, 16)):
        found = screen.candidates(Products(z), np.ones(3000))
        assert (rows @ z).argmax() in found
        if fine:
            slots, shares, _ = screen.shares(
                Products(z),
                np.ones(3000),
                lambda slots, z=z: rows[slots] @ z,
                best=3,
                temperature=5.0,
                tolerance=0.05,
            )
            np.testing.assert_allclose(shares, softmax(rows @ z / 5.0)[slots], rtol=0.03)


@pytest.fixture
def few_are_many(monkeypatch):
    """Screens for learners of a few classes, made in slices that are smaller still."""
    for module in (screening, screened, additive, lda):
        monkeypatch.setattr(module, "MANY_ROWS", 12)
    monkeypatch.setattr(screening, "SLICE", 5)
    monkeypatch.setattr(screening, "LARGE_SHARE", 1.0)


LEARNERS = [
    NearestClassMean,
    StreamingLDA,
    lambda: StreamingLDA(class_scatter=True),
    RecursiveRLSC,
    lambda: RecursiveRLSC(fit_intercept=True, recoding=0.0),
    lambda: RecursiveRLSC(recoding=1.0, class_scatter=True),
]


@pytest.mark.parametrize("make", LEARNERS)
@pytest.mark.parametrize("kind", [random_rows, ties, on_a_line, nearly_equal, one_outlier])
def test_a_learner_of_many_classes_answers_as_if_it_scored_all(rng, few_are_many, make, kind):
    learner, centres = make(), kind(rng, 40, 9)
    names = [f"name {index}" for index in rng.permutation(40)]
    screened_at_all = 0
    for step in range(150):
        slot = int(rng.integers(40))
        noise = 0.0 if kind is ties else 1e-3
        learner.learn_one(centres[slot] + noise * rng.normal(size=9), names[slot])
        if step % 37 == 36 and hasattr(learner, "class_scatter") and learner.class_scatter:
            learner.forget_class(learner.classes_[step % len(learner.classes_)])
        x = centres[int(rng.integers(40))] + noise * rng.normal(size=9)
        for _ in range(3):  # the screen is made meanwhile
            answer = learner.predict_one(x)
        screened_at_all += learner._contenders(x) is not None
        scores = learner._scores_one(x)[learner.registry_.order]
        assert answer == learner.classes_[scores.argmax()]
    assert screened_at_all > 50


@pytest.mark.parametrize("make", LEARNERS)
@pytest.mark.parametrize("kind", [random_rows, ties, on_a_line, nearly_equal, one_outlier])
def test_the_most_likely_classes_have_the_probabilities_of_all(rng, few_are_many, make, kind):
    centres = np.concatenate([kind(rng, 40, 9), rng.normal(size=(20, 9))])
    X = np.repeat(centres, 3, axis=0)
    if kind is not ties:
        X = X + 0.3 * rng.normal(size=X.shape)
    names = np.array([f"name {index:02d}" for index in rng.permutation(60)])
    learner = make().fit(X, np.repeat(names, 3))
    for x in rng.normal(size=(10, 9)) + centres[rng.integers(60, size=10)]:
        for _ in range(20):  # the screen is made meanwhile
            learner.predict_one(x)
        found = learner.top_one(x, 4, tolerance=1e-6)
        allowed = [learner.predict_proba(x[None])[0]]
        if isinstance(learner, StreamingLDA):  # whose single questions use a smaller shrinkage
            scores = learner._scores_one(x)[learner.registry_.order] * len(X) / 0.9
            allowed.append(softmax(scores))
        assert any(are_the_most_likely(found, shares, learner.classes_) for shares in allowed)


def are_the_most_likely(found, shares, classes):
    ours = np.array([share for _, share in found])
    at = np.searchsorted(classes, [label for label, _ in found])
    best = np.sort(shares)[::-1][: len(found)]
    return all(np.allclose(ours, them, rtol=1e-5, atol=1e-12) for them in (best, shares[at]))


def test_few_classes_have_the_probabilities_of_predict_proba(rng):
    X, y = rng.normal(size=(40, 3)), np.arange(40) % 8
    learner = NearestClassMean().fit(X, y)
    shares = learner.predict_proba(X[:1])[0]
    found = learner.top_one(X[0], 3)
    assert [label for label, _ in found] == np.argsort(-shares)[:3].tolist()
    assert [share for _, share in found] == pytest.approx(np.sort(shares)[::-1][:3])
    assert len(learner.top_one(X[0], 100)) == 8
    with pytest.raises(InvalidParameter, match="k "):
        learner.top_one(X[0], 0)


def test_a_copy_and_a_loaded_learner_give_the_same_answers(rng, few_are_many, tmp_path):
    import copy

    import everlearn

    learner = RecursiveRLSC()
    learner.partial_fit(rng.normal(size=(60, 7)), np.arange(60) % 30)
    new = rng.normal(size=(40, 7))
    expected = [learner.predict_one(x) for x in new]
    assert [copy.deepcopy(learner).predict_one(x) for x in new] == expected
    everlearn.save(learner, tmp_path / "model")
    loaded = everlearn.load(tmp_path / "model")
    assert [loaded.predict_one(x) for x in new] == expected
