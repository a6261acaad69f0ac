"""Examples that forests keep: budgets, forgetting, merging, files."""

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import everlearn
from everlearn import NCMForest, SVMForest
from everlearn.errors import NeverLearned, NotMergeable, UnknownLabel
from tests.forest.forest_oracles import TreeView, naive_probabilities, require_consistent

LEARNERS = (NCMForest, SVMForest)


def stream(rng, n_classes=8, per_class=20, n_features=5):
    centres = 3.0 * rng.standard_normal((n_classes, n_features))
    y = np.repeat(np.arange(n_classes), per_class)
    return centres[y] + rng.standard_normal((len(y), n_features)), y


def small(learner, **parameters):
    return learner(n_estimators=5, random_state=0, **parameters)


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("update", ["uls", "igt", "rtst", "rust"])
@pytest.mark.parametrize("budget", [1, 7])
def test_a_budget_is_kept_and_the_forest_still_works(rng, learner, update, budget):
    X, y = stream(rng)
    forest = small(learner, n_exemplars=budget, update=update)
    for part in np.array_split(np.arange(8), 4):
        forest.partial_fit(*(a[np.isin(y, part)] for a in (X, y)))
    examples = forest.groves_[0].examples
    counts = np.bincount(examples.slot[examples.stored])
    np.testing.assert_array_equal(counts, budget)
    np.testing.assert_array_equal(examples.seen, 20)
    require_consistent(forest)
    np.testing.assert_allclose(forest.predict_proba(X), naive_probabilities(forest, X))
    if budget == 7 and update != "uls":
        assert np.mean(forest.predict(X) == y) > 0.8


def test_with_a_budget_a_class_keeps_its_share(rng):
    """40 examples of one class and 10 of another at the same point, five of each stored."""
    X = np.zeros((50, 3))
    y = np.repeat(["often", "seldom"], [40, 10])
    forest = small(NCMForest, n_exemplars=5).fit(X, y)
    np.testing.assert_allclose(forest.predict_proba(X[:1]), [[0.8, 0.2]])


def test_a_reservoir_keeps_every_example_equally_often(rng):
    kept = np.zeros(40)
    X = np.arange(40.0)[:, None]
    for seed in range(300):
        forest = NCMForest(n_estimators=1, n_exemplars=10, random_state=seed)
        for part in np.split(X, 4):
            forest.partial_fit(part, np.zeros(10, int))
        examples = forest.groves_[0].examples
        kept[examples.number[examples.stored]] += 1
    # Each is kept with probability 1/4; five standard deviations from 300 draws are 0.125.
    np.testing.assert_allclose(kept / 300, 0.25, atol=0.125)


@pytest.mark.parametrize("learner", LEARNERS)
def test_forgetting_is_exact_for_the_leaves(rng, learner):
    """Leaf statistics are those of the examples left, in a tree of the same structure."""
    X, y = stream(rng)
    forest = small(learner).fit(X, y)
    gone = rng.random(len(y)) < 0.3
    before = [list(TreeView(forest, number).nodes()) for number in range(5)]
    forest.forget(X[gone], y[gone])
    assert before == [list(TreeView(forest, number).nodes()) for number in range(5)]
    require_consistent(forest)
    left = forest.groves_[0].whitening(X[~gone])
    examples = forest.groves_[0].examples
    stored = examples.X[examples.stored]
    np.testing.assert_array_equal(
        left[np.lexsort(left.T)], stored[np.lexsort(stored.T)], "not what should be left"
    )


def test_what_was_forgotten_is_erased(rng):
    X, y = stream(rng)
    forest = small(NCMForest).fit(X, y).forget(X[:50], y[:50])
    examples = forest.groves_[0].examples
    assert not examples.X[examples.slot == -1].any()


@pytest.mark.parametrize("learner", LEARNERS)
def test_a_forgotten_class_is_unknown_and_can_be_taught_again(rng, learner):
    X, y = stream(rng)
    forest = small(learner).fit(X, y).forget_class(3)
    assert 3 not in forest.classes_
    assert 3 not in forest.predict(X)
    with pytest.raises(UnknownLabel):
        forest.forget_class(3)
    for tree in forest.groves_[0].trees:
        assert 3 not in tree.members["slot"][: tree.used["members"][0]]
    forest.partial_fit(X[y == 3], np.full(20, 99))
    assert np.mean(forest.predict(X[y == 3]) == 99) > 0.7
    require_consistent(forest)


def test_an_empty_leaf_uses_the_distribution_of_its_parent(rng):
    """Of two distant classes one is forgotten: its leaf answers with the other."""
    X, y = stream(rng, n_classes=2)
    forest = small(NCMForest).fit(X, y)
    forest.forget(X[y == 0], y[y == 0])
    np.testing.assert_allclose(forest.predict_proba(X), 1.0)


def test_forgetting_everything_equals_a_new_forest(rng):
    X, y = stream(rng)
    forest = small(NCMForest).fit(X, y).forget(X, y)
    with pytest.raises(everlearn.base.NotFittedError):
        forest.predict(X)
    forest.partial_fit(X + 100.0, y)
    assert np.mean(forest.predict(X + 100.0) == y) > 0.9


def test_forgetting_what_was_never_learned_is_refused(rng):
    X, y = stream(rng)
    forest = small(NCMForest).fit(X, y)
    before = forest.predict_proba(X)
    for bad_X, bad_y in ((X[:1] + 1e-3, y[:1]), (X[:1], y[:1] + 1), (X[[0, 0]], y[[0, 0]])):
        with pytest.raises(NeverLearned, match="not among those learned"):
            forest.forget(bad_X, bad_y)
    np.testing.assert_array_equal(forest.predict_proba(X), before)


def test_forgetting_a_weight_reduces_the_weight(rng):
    X, y = stream(rng)
    heavy = small(NCMForest).fit(X, y, sample_weight=np.full(len(y), 3.0))
    heavy.forget(X[:5], y[:5], sample_weight=np.full(5, 1.0))
    examples = heavy.groves_[0].examples
    assert sorted(np.unique(examples.weight[examples.stored])) == [2.0, 3.0]
    assert examples.seen.sum() == pytest.approx(3 * len(y) - 5)


def test_with_a_budget_examples_that_are_not_stored_are_only_counted(rng):
    X, y = stream(rng)
    forest = small(NCMForest, n_exemplars=4).fit(X, y).forget(X[:20], y[:20])
    assert 0 not in forest.classes_
    with pytest.raises(NeverLearned):
        forest.forget(X[20:41], np.ones(21, int))


@pytest.mark.parametrize("learner", LEARNERS)
def test_merging_is_the_union_of_trees(rng, learner):
    X, y = stream(rng)
    one = small(learner).fit(X[y < 5], y[y < 5])
    other = learner(n_estimators=3, random_state=7).fit(X[y > 2], y[y > 2])
    before = other.predict_proba(X)
    expected = np.zeros((len(X), 8))
    expected[:, :5] += 5 * one.predict_proba(X)
    expected[:, 3:] += 3 * before
    one.merge(other)
    assert one.n_trees_ == 8
    np.testing.assert_allclose(one.predict_proba(X), expected / 8)
    one.partial_fit(X[y == 0] + 50.0, np.full(20, 8))
    require_consistent(one)
    assert np.mean(one.predict(X[y == 0] + 50.0) == 8) > 0.8
    np.testing.assert_array_equal(other.predict_proba(X), before, "the other forest changed")


def test_forests_with_different_parameters_do_not_merge(rng):
    X, y = stream(rng)
    one = small(NCMForest).fit(X, y)
    with pytest.raises(NotMergeable, match="min_samples differs"):
        one.merge(small(NCMForest, min_samples=3).fit(X, y))
    with pytest.raises(NotMergeable, match="own kind"):
        one.merge(small(SVMForest).fit(X, y))


@pytest.mark.parametrize("learner", LEARNERS)
def test_a_file_holds_the_whole_forest(rng, learner, tmp_path):
    X, y = stream(rng)
    forest = small(learner, n_exemplars=15).fit(X[y < 4], y[y < 4])
    forest.merge(learner(n_estimators=2, random_state=3, n_exemplars=15).fit(X[y > 2], y[y > 2]))
    everlearn.save(forest, tmp_path / "forest")
    loaded = everlearn.load(tmp_path / "forest")
    np.testing.assert_array_equal(forest.predict_proba(X), loaded.predict_proba(X))
    for each in (forest, loaded):
        each.partial_fit(X + 20.0, y + 8)
    np.testing.assert_array_equal(forest.predict_proba(X), loaded.predict_proba(X))
    require_consistent(loaded)


def test_a_loaded_forest_can_use_rows_that_were_freed(rng, tmp_path):
    X, y = stream(rng)
    forest = small(NCMForest).fit(X, y).forget(X[:30], y[:30])
    everlearn.save(forest, tmp_path / "forest")
    loaded = everlearn.load(tmp_path / "forest")
    loaded.partial_fit(X[:10], y[:10])
    require_consistent(loaded)
    assert loaded.n_stored_ == len(y) - 20


@settings(max_examples=25, deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["teach", "forget", "drop"]), st.integers(0, 5)), max_size=8
    ),
    update=st.sampled_from(["uls", "igt", "rtst", "rust"]),
    budget=st.sampled_from([None, 3]),
    svm=st.booleans(),
)
def test_forests_stay_consistent_through_any_sequence_of_operations(steps, update, budget, svm):
    rng = np.random.default_rng(0)
    X, y = stream(rng, n_classes=6, per_class=8)
    forest = (SVMForest if svm else NCMForest)(
        n_estimators=2, update=update, n_exemplars=budget, update_fraction=0.5, random_state=0
    ).fit(X[y == 0], y[y == 0])
    held = {0: 1}
    for action, label in steps:
        mine = y == label
        if action == "teach":
            forest.partial_fit(X[mine], y[mine])
            held[label] = held.get(label, 0) + 1
        elif action == "drop" and label in held and len(held) > 1:
            forest.forget_class(label)
            del held[label]
        elif action == "forget" and label in held and len(held) > 1 and budget is None:
            forest.forget(X[mine], y[mine])
            held[label] -= 1
            held = {k: n for k, n in held.items() if n}
        require_consistent(forest)
    assert forest.classes_.tolist() == sorted(held)
    seen = forest.groves_[0].examples.seen
    assert seen.sum() == pytest.approx(8 * sum(held.values()))
    shares = forest.predict_proba(X)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)


def test_a_copy_shares_nothing(rng):
    X, y = stream(rng)
    forest = small(NCMForest).fit(X[y < 4], y[y < 4])
    copied = copy.deepcopy(forest)
    before = forest.predict_proba(X)
    copied.partial_fit(X[y >= 4], y[y >= 4])
    np.testing.assert_array_equal(before, forest.predict_proba(X))
    require_consistent(forest)
