"""A screen never loses a best row: adversarial rows, and the whole computation beside it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everlearn import NearestClassMean, RecursiveRLSC, StreamingLDA
from everlearn.learners import lda
from everlearn.learners.closed_form import additive, screened
from everlearn.statistics import screening
from everlearn.statistics.products import products_one
from everlearn.statistics.screening import Screen


def screen_of(rows, centre=None):
    screen = Screen(rows.mean(axis=0) if centre is None else centre)
    while not screen.extend(rows):
        pass
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
    found = screen.candidates(z, counts, scale=scale, offset=offset, bias=bias, best=best)
    if found is None:
        return
    known = np.flatnonzero(counts > 0)
    assert set(found) <= set(known)
    lowest = np.sort(scores[known])[::-1][: min(best, len(known))]
    wanted = known[scores[known] >= lowest[-1]] if len(known) else known
    assert set(wanted) <= set(found)


def test_few_rows_are_left_where_there_is_something_to_prune(rng):
    rows = rng.normal(size=(5000, 64))
    screen = screen_of(rows)
    left = [len(screen.candidates(x, np.ones(5000))) for x in rng.normal(size=(50, 64))]
    assert np.median(left) < 10


def test_rows_are_mended_one_by_one(rng):
    rows = rng.normal(size=(3000, 16))
    screen = screen_of(rows)
    changed = rng.choice(3000, 40, replace=False)
    rows[changed] *= 5.0
    screen.mend(rows, changed)
    for z in rng.normal(size=(20, 16)):
        found = screen.candidates(z, np.ones(3000))
        assert (rows @ z).argmax() in found


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


def test_a_copy_and_a_file_answer_alike(rng, few_are_many, tmp_path):
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
