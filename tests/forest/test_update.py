"""The four updates (Sec. 4) against their definitions."""

import copy

import numpy as np
import pytest
from everlearn_papers.forests.conventional import ConventionalForest

from everlearn import NCMForest, SVMForest
from everlearn.forest.settings import NodeSampling, entropy_table
from everlearn.forest.tree import collapse, own_copy, subtree, with_room
from everlearn.forest.update.node_sampling import drawn_nodes, qualities
from tests.forest.forest_oracles import (
    TreeView,
    assignments,
    best_assignment,
    best_gain,
    class_entropy,
    information_gain,
    naive_probabilities,
    require_centroids_are_means,
    require_consistent,
)

UPDATES = ("uls", "igt", "rtst", "rust", "auto")
LEARNERS = (NCMForest, SVMForest)


def stream(rng, n_classes=16, per_class=12, n_features=6):
    centres = 2.0 * rng.standard_normal((n_classes, n_features))
    y = np.repeat(np.arange(n_classes), per_class)
    return centres[y] + rng.standard_normal((len(y), n_features)), y


def taught(learner, X, y, n_first=6, **parameters):
    """A forest after its first classes, and after two more batches with the others."""
    forest = learner(n_estimators=4, random_state=1, **{"min_samples": 2, **parameters})
    forest.fit(X[y < n_first], y[y < n_first])
    before = copy.deepcopy(forest)
    for classes in np.array_split(np.arange(n_first, y.max() + 1), 2):
        forest.partial_fit(X[np.isin(y, classes)], y[np.isin(y, classes)])
    return before, forest


def splits_of(view):
    """The members and sides of every splitting node, by node."""
    return {
        node: (view.members(node)[0].tolist(), view.members(node)[1].tolist())
        for node in view.nodes()
        if not view.is_leaf(node)
    }


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("update", UPDATES)
def test_every_example_is_in_the_leaf_the_tree_routes_it_to(rng, learner, update):
    X, y = stream(rng)
    _, forest = taught(learner, X, y, update=update, update_fraction=0.4)
    require_consistent(forest)
    np.testing.assert_allclose(forest.predict_proba(X), naive_probabilities(forest, X))


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("update", ["igt", "rtst", "rust", "auto"])
def test_new_classes_are_learned(rng, learner, update):
    X, y = stream(rng)
    _, forest = taught(learner, X, y, update=update)
    assert np.mean(forest.predict(X) == y) > 0.8
    assert forest.classes_.tolist() == list(range(16))


@pytest.mark.parametrize("learner", LEARNERS)
def test_uls_keeps_every_node(rng, learner):
    X, y = stream(rng)
    before, after = taught(learner, X, y, update="uls")
    for number in range(4):
        old, new = TreeView(before, number), TreeView(after, number)
        np.testing.assert_array_equal(list(old.nodes()), list(new.nodes()))
        assert splits_of(old) == splits_of(new)


@pytest.mark.parametrize("learner", LEARNERS)
def test_igt_keeps_every_split_and_adds_some(rng, learner):
    X, y = stream(rng)
    before, after = taught(learner, X, y, update="igt")
    for number in range(4):
        old, new = splits_of(TreeView(before, number)), splits_of(TreeView(after, number))
        assert len(new) > len(old)
        assert all(new[node] == split for node, split in old.items())


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("update", ["rtst", "rust"])
def test_updating_no_nodes_equals_igt(rng, learner, update):
    X, y = stream(rng)
    _, grown = taught(learner, X, y, update="igt")
    _, same = taught(learner, X, y, update=update, update_fraction=0.0)
    np.testing.assert_array_equal(grown.predict_proba(X), same.predict_proba(X))


def test_retraining_everything_is_as_accurate_as_training_from_scratch(rng):
    """With π = 1 the root is cut, so the splits are chosen as if all classes came at once."""
    X, y = stream(rng)
    _, forest = taught(NCMForest, X, y, update="rtst", update_fraction=1.0)
    for number in range(4):
        view = TreeView(forest, number)
        require_centroids_are_means(view)


def test_rust_adds_centroids_of_new_classes_and_keeps_the_others(rng):
    X, y = stream(rng)
    forest = NCMForest(n_estimators=30, min_samples=2, update_fraction=1.0, random_state=0)
    old_classes, new_class = y < 9, y == 9
    forest.fit(X[old_classes], y[old_classes])
    before = copy.deepcopy(forest)
    forest.partial_fit(X[new_class], y[new_class])
    n_changed = 0
    for number in range(30):
        old, new = TreeView(before, number), TreeView(forest, number)
        if new.is_leaf(0):
            continue
        was = dict(zip(old.members(0)[0].tolist(), old.members(0)[1].tolist(), strict=True))
        slots, sides = new.members(0)
        centroids = dict(zip(old.members(0)[0].tolist(), old.centroids(0), strict=True))
        for slot, side, centroid in zip(slots, sides, new.centroids(0), strict=True):
            if slot == 9:
                n_changed += 1
                own = np.flatnonzero(new.examples.slot == 9)
                np.testing.assert_allclose(new.X[own].mean(axis=0), centroid, atol=1e-5)
            else:
                assert was[slot] == side
                np.testing.assert_array_equal(centroids[slot], centroid)
        rows = np.array(new.rows(0))
        row_slots, weights = new.slots_and_weights(rows)
        cells = new.cells(0, rows)
        fixed = [None if slot == 9 else int(side) for slot, side in zip(slots, sides, strict=True)]
        ours = information_gain(row_slots, weights, sides[cells].astype(int))
        assert ours == pytest.approx(
            best_gain(cells, row_slots, weights, len(slots), 1.2, fixed), abs=1e-9
        )
    assert n_changed > 0


def test_the_reservoir_selects_every_class_equally_often(rng):
    """A class that comes last is a centroid of the root as often as any other."""
    n_trees = 400
    y = np.repeat(np.arange(10), 12)
    X = 3.0 * rng.standard_normal((10, 4))[y] + 2.0 * rng.standard_normal((len(y), 4))
    forest = NCMForest(
        n_estimators=n_trees,
        class_subset=0.3,
        min_samples=0,
        update_fraction=1.0,
        random_state=0,
        whiten=False,
    ).fit(X[y < 9], y[y < 9])
    forest.partial_fit(X[y == 9], y[y == 9])
    sizes = {int(TreeView(forest, t).tree.nodes["size"][0]) for t in range(n_trees)}
    assert sizes == {3}
    holds = np.mean([9 in TreeView(forest, t).members(0)[0] for t in range(n_trees)])
    # 3 of 10; three standard deviations of a proportion from 400 draws are 0.07.
    assert holds == pytest.approx(0.3, abs=0.07)


@pytest.mark.parametrize("learner", LEARNERS)
def test_quality_is_the_gain_from_node_to_leaves(rng, learner):
    X, y = stream(rng)
    _, forest = taught(learner, X, y, update="igt")
    view = TreeView(forest, 0)
    settings = forest._settings(16, view.examples.seen)
    nodes = subtree(view.tree, 0)
    np.testing.assert_array_equal(nodes, list(view.nodes()))
    quality = qualities(view.tree, view.examples.rows(), nodes, settings)
    expected = [0.0 if view.is_leaf(node) else view.quality(node) for node in nodes]
    np.testing.assert_allclose(quality, expected, atol=1e-9)


@pytest.mark.parametrize("by", ["quality", "size", "uniform"])
def test_nodes_are_sampled_with_the_stated_probabilities(rng, by):
    X, y = stream(rng)
    _, forest = taught(NCMForest, X, y, update="igt")
    view = TreeView(forest, 0)
    nodes = [node for node in view.nodes() if not view.is_leaf(node)]
    if by == "quality":
        weight = np.array([1.0 / view.quality(node) for node in nodes])
    elif by == "size":
        weight = np.array([1.0 / (len(list(view.nodes(node))) + 1) for node in nodes])
    else:
        weight = np.ones(len(nodes))
    settings = forest._settings(16, view.examples.seen)
    settings = settings._replace(node_sampling=int(NodeSampling[by.upper()]))
    counts = dict.fromkeys(nodes, 0)
    n_draws = 4000
    for _ in range(n_draws):
        (node,) = drawn_nodes(view.tree, view.examples.rows(), 1, settings)
        counts[node] += 1
    share = np.array([counts[node] for node in nodes]) / n_draws
    np.testing.assert_allclose(share, weight / weight.sum(), atol=0.03)


def test_sampled_nodes_are_distinct_and_parents_come_first(rng):
    X, y = stream(rng)
    _, forest = taught(NCMForest, X, y, update="igt")
    view = TreeView(forest, 0)
    settings = forest._settings(16, view.examples.seen)
    drawn = drawn_nodes(view.tree, view.examples.rows(), 10, settings).tolist()
    assert len(set(drawn)) == 10
    for index, node in enumerate(drawn):
        assert not set(drawn[:index]) & set(list(view.nodes(node))[1:])


def test_gain_equals_its_definition(rng):
    histogram = rng.integers(0, 5, (4, 6)).astype(float) + rng.random((4, 6))
    candidates = np.array([[0, 1, 0, 1], [1, 1, 0, 0], [0, 0, 0, 1]], np.uint8)
    best, gain = best_assignment(candidates, histogram, 0.0, entropy_table())
    cells, slots = np.indices(histogram.shape)
    naive = [
        information_gain(slots.ravel(), histogram.ravel(), sides[cells.ravel()])
        for sides in candidates
    ]
    assert gain == pytest.approx(max(naive))
    assert best == int(np.argmax(naive))
    assert class_entropy(slots.ravel(), histogram.ravel()) >= gain


@pytest.mark.parametrize(
    ("n_bits", "n_wanted", "expected"), [(3, 100, 7), (9, 511, 511), (12, 1024, 1024), (70, 50, 50)]
)
def test_candidate_partitions_are_different_and_not_more_than_exist(n_bits, n_wanted, expected):
    found = assignments(n_bits, n_wanted, True, np.array([7], np.uint64))
    assert len({row.tobytes() for row in found}) == expected
    assert found.any(axis=1).all()


def test_more_examples_of_known_classes_refine_the_forest(rng):
    X, y = stream(rng, per_class=60)
    first = np.arange(len(y)) % 10 == 0
    for learner in LEARNERS:
        for update in UPDATES:
            forest = learner(n_estimators=5, update=update, random_state=0).fit(X[first], y[first])
            before = forest.n_nodes_.sum()
            forest.partial_fit(X[~first], y[~first])
            require_consistent(forest)
            assert forest.n_stored_ == len(y)
            assert (forest.n_nodes_.sum() > before) == (update != "uls")


def test_memory_of_cut_subtrees_is_reused(rng):
    X, y = stream(rng, n_classes=40)
    forest = NCMForest(n_estimators=1, update="rtst", update_fraction=0.5, random_state=0)
    forest.fit(X[y < 4], y[y < 4])
    for label in range(4, 40):
        forest.partial_fit(X[y == label], y[y == label])
    view = TreeView(forest)
    nodes = list(view.nodes())
    live = sum(view.tree.nodes["size"][n] for n in nodes if not view.is_leaf(n))
    # Space of cut nodes is reclaimed when the capacity is needed, so some may remain.
    used = view.tree.used[0]
    assert used["nodes"] <= 3 * len(nodes)
    assert used["vectors"] <= used["members"] <= 3 * live
    assert len(view.tree.vectors) <= 5 * live
    require_consistent(forest)


@pytest.mark.parametrize("learner", LEARNERS)
def test_unused_vectors_are_dropped_when_capacity_grows(rng, learner):
    X, y = stream(rng)
    grown = learner(n_estimators=1, min_samples=2, random_state=1).fit(X, y).groves_[0].trees[0]
    tree = own_copy(grown, len(y))
    used, capacity = tree.used["vectors"][0], len(tree.vectors)
    collapse(tree, int(tree.nodes["left"][0]))
    kept = {int(node): tree.vectors_of(node).copy() for node in subtree(tree, 0)}
    larger = with_room(tree, 0, 0, capacity + 1)
    assert larger.used["vectors"][0] == sum(map(len, kept.values())) < used
    assert len(larger.vectors) > capacity
    for node, vectors in kept.items():
        assert np.array_equal(larger.vectors_of(node), vectors)


@pytest.mark.parametrize("learner", LEARNERS)
def test_nodes_are_reused_within_the_existing_capacity(rng, learner):
    X, y = stream(rng, n_classes=40)
    forest = learner(
        n_estimators=2, min_samples=1, update="rust", update_fraction=1.0, random_state=0
    )
    forest.fit(X[y < 30], y[y < 30])
    # Nodes keep as many members as they had when there were more classes.
    for label in range(8, 30):
        forest.forget_class(label)
    for label in range(30, 40):
        compact = copy.deepcopy(forest)  # without spare capacity
        for learning in (forest, compact):
            learning.partial_fit(X[y == label], y[y == label])
            for tree in learning.groves_[0].trees:
                assert tree.used["members"][0] <= len(tree.members)
                assert tree.used["vectors"][0] <= len(tree.vectors)
        assert np.array_equal(forest.predict_proba(X), compact.predict_proba(X))
    require_consistent(forest)


def test_conventional_splits_can_be_retrained_but_not_reused(rng):
    X, y = stream(rng)
    for splits in ("axis", "linear"):
        _, forest = taught(ConventionalForest, X, y, update="rtst", splits=splits)
        require_consistent(forest)
        with pytest.raises(ValueError, match="update must be 'uls', 'igt', 'rtst' or 'auto'"):
            ConventionalForest(update="rust", splits=splits).fit(X, y)
