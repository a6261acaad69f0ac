"""Categories of the turntable's objects: one object of each is held out in every trial."""

import numpy as np
import pytest
from everlearn_papers.data import packs
from everlearn_papers.rlsc.categories import CATEGORIES, held_out_objects
from everlearn_papers.rlsc.protocol import BY_CATEGORY, Trial, imbalance

from everlearn.streams.examples import Examples

N_OBJECTS, N_FRAMES = 50, 20


@pytest.fixture
def turntable(monkeypatch):
    """Frames of 50 objects: one feature of the category, and noise that differs by object."""
    rng = np.random.default_rng(0)
    objects = np.repeat(np.arange(N_OBJECTS), N_FRAMES)
    names = list(CATEGORIES)
    own = [next((i for i, n in enumerate(names) if o in CATEGORIES[n]), 0) for o in objects]
    X = np.eye(len(names), 12)[own] + 0.2 * rng.normal(size=(N_OBJECTS, 12))[objects]
    X += 0.05 * rng.normal(size=X.shape)
    frames = Examples(X, objects), np.tile(np.arange(N_FRAMES), N_OBJECTS)
    monkeypatch.setattr(packs, "turntable_frames", lambda: frames)
    return frames[0]


def test_no_object_is_in_two_categories_and_each_has_at_least_three():
    numbers = [number for own in CATEGORIES.values() for number in own]
    assert len(numbers) == len(set(numbers))
    assert set(numbers) <= set(range(N_OBJECTS))
    assert all(len(own) >= 3 for own in CATEGORIES.values())


def test_one_random_object_of_each_category_is_held_out(turntable):
    chosen = set()
    for seed in range(20):
        data = held_out_objects(np.random.default_rng(seed))
        for name, numbers in CATEGORIES.items():
            (held_out,) = np.unique(data.test.instances[data.test.y == name])
            learned = np.unique(data.train.instances[data.train.y == name])
            assert sorted([held_out, *learned]) == sorted(numbers)
            chosen.add(int(held_out))
        assert len(data.test) == N_FRAMES * len(CATEGORIES)
        frames = turntable.X[np.isin(turntable.y, data.test.instances)]
        np.testing.assert_array_equal(np.sort(data.test.X[:, 0]), np.sort(frames[:, 0]))
    # In 20 splits nearly all objects have their turn.
    assert len(chosen) > 0.9 * sum(map(len, CATEGORIES.values()))


def test_validation_and_training_do_not_have_the_objects_of_the_test(turntable):
    trial = Trial.drawn(3, BY_CATEGORY, "cups", n_balanced=25, n_rare=10, n_test=N_FRAMES)
    asked = {tuple(row) for row in trial.test.X}
    assert len(asked) == N_FRAMES * len(CATEGORIES)
    for part in (trial.balanced, trial.new, trial.validation):
        assert not asked & {tuple(row) for row in part.X}
    assert set(trial.new.y) == {"cups"}
    assert "cups" not in {*trial.balanced.y, *trial.validation.y}
    assert np.unique(trial.balanced.y, return_counts=True)[1].tolist() == [25] * 7
    assert np.unique(trial.validation.y, return_counts=True)[1].tolist() == [5] * 7


def test_recoding_finds_a_category_of_one_example_on_an_unknown_object(turntable):
    settings = {"n_balanced": 25, "n_test": N_FRAMES, "sizes": [1, 25], "rebalance": True}
    trials = [
        imbalance(seed, data=BY_CATEGORY, rare=rare, **settings)
        for seed in range(3)
        for rare in ("balls", "pens")
    ]
    naive, recoded = (
        np.mean([trial["sweep"][alpha]["rare"] for trial in trials], axis=0)
        for alpha in ("0.0", "1.0")
    )
    assert recoded[0] > naive[0] + 50
    assert naive[1] > 80
