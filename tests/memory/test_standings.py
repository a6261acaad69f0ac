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
    rng = np.random.default_rng(0)
    # Two classes with one mean and different spread along one axis: class means know nothing.
    with Memory(tmp_path / "memory", classifier="mean") as memory:
        for name, scale in (("inner", 0.2), ("outer", 3.0)):
            for x in rng.normal(size=(60, 3)) * (1.0, scale, scale):
                memory.teach(np.abs(x) + 0.01, name)
        found = {one.classifier: one for one in memory.compare_classifiers(["ridge", "mean"])}
        assert not found["mean"].better, "it is in use"
        assert found["ridge"].better == (found["ridge"].accuracy > found["mean"].accuracy + 0.1)
        alone = memory.compare_classifiers(["ridge"])
        assert [one.classifier for one in alone] == ["ridge"]
        assert alone[0].better == found["ridge"].better
