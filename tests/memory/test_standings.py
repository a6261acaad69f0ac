"""A switch of classifiers is recommended only for what is better by more than chance."""

import numpy as np

from everlearn import Memory
from everlearn.evaluation.metrics import better_than_chance


def test_one_picture_in_a_hundred_is_chance():
    before = np.ones(100, dtype=bool)
    before[:31] = False
    after = before.copy()
    after[0] = True
    assert not better_than_chance(before, after, deviations=2.0)
    after[:12] = True
    after[99] = False  # 12 became right and 1 wrong: 11 is more than twice the root of 13
    assert better_than_chance(before, after, deviations=2.0)


def test_classifiers_are_compared_with_the_one_in_use(tmp_path):
    """The names differ along an axis of little spread, which class means do not weigh."""
    rng = np.random.default_rng(0)
    with Memory(tmp_path / "memory", classifier="mean") as memory:
        for name, side in (("left", -0.3), ("right", 0.3)):
            for x in rng.normal(size=(60, 6)) * (0.05, 2, 2, 2, 2, 2) + (side, 0, 0, 0, 0, 0):
                memory.teach(x, name)
        found = {one.classifier: one for one in memory.compare_classifiers(["ridge", "mean"])}
        assert found["ridge"].accuracy > found["mean"].accuracy + 0.1
        assert found["ridge"].better
        assert not found["mean"].better, "it is in use"
        (alone,) = memory.compare_classifiers(["ridge"])
        assert alone.better, "compared with the one in use, though that was not asked for"
