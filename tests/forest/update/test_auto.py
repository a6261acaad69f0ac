"""update="auto" regrows outgrown nodes and keeps the others."""

import math

import numpy as np
import pytest

from everlearn import NCMForest, SVMForest
from everlearn.forest.grow import LEAF_REGROW_FACTOR, REGROW_FACTOR, REGROW_SPREAD
from tests.forest.forest_oracles import TreeView, require_centroids_are_means, require_consistent
from tests.forest.test_update import splits_of, stream

LEARNERS = (NCMForest, SVMForest)
SOONEST, LATEST = REGROW_FACTOR ** (1 - REGROW_SPREAD), REGROW_FACTOR ** (1 + REGROW_SPREAD)


def auto(learner, **words):
    return learner(n_estimators=6, min_samples=2, update="auto", random_state=3, **words)


def weight_below(view, node):
    return view.examples.weight[view.rows(node)].sum()


def views(forest):
    return [TreeView(forest, number) for number in range(forest.n_trees_)]


@pytest.mark.parametrize("learner", LEARNERS)
def test_the_limit_of_a_new_node_is_within_the_stated_range(rng, learner):
    X, y = stream(rng)
    factors = []
    for view in views(auto(learner).fit(X, y)):
        for node in view.nodes():
            factor = view.tree.nodes["limit"][node] / weight_below(view, node)
            if view.is_leaf(node):
                slots = set(view.examples.slot[view.rows(node)].tolist())
                never_tried = len(slots) == 1 or weight_below(view, node) <= 2 * 1.2
                assert factor == pytest.approx(1.0 if never_tried else LEAF_REGROW_FACTOR, rel=1e-6)
            else:
                factors.append(factor)
    assert min(factors) >= SOONEST * (1 - 1e-6)
    assert max(factors) <= LATEST * (1 + 1e-6)
    # Uniform on a logarithmic scale, so the median is the middle of the range.
    assert math.log(np.median(factors)) == pytest.approx(math.log(REGROW_FACTOR), abs=0.5)


@pytest.mark.parametrize("learner", LEARNERS)
def test_no_outgrown_node_remains(rng, learner):
    X, y = stream(rng, n_classes=30)
    forest = auto(learner).fit(X[y < 3], y[y < 3])
    for classes in np.array_split(np.arange(3, 30), 6):
        forest.partial_fit(X[np.isin(y, classes)], y[np.isin(y, classes)])
        require_consistent(forest)
        for view in views(forest):
            for node in view.nodes():
                assert weight_below(view, node) <= view.tree.nodes["limit"][node] * (1 + 1e-6)


def test_a_leaf_of_one_class_is_split_when_another_joins_it(rng):
    X = np.concatenate([rng.standard_normal((20, 3)), 6.0 + rng.standard_normal((8, 3))])
    y = np.repeat([0, 1], [20, 8])
    forest = auto(NCMForest).fit(X[y == 0], y[y == 0])
    np.testing.assert_array_equal(forest.n_nodes_, 1)
    forest.partial_fit(X[y == 1], y[y == 1])
    np.testing.assert_array_equal(forest.predict(X), y)


def test_only_outgrown_nodes_are_regrown(rng):
    """A batch that no node outgrows leaves every splitting function as it was."""
    X, y = stream(rng)
    forest = auto(NCMForest).fit(X, y)
    for view in views(forest):
        view.tree.nodes["limit"][:] = np.inf
    before = [splits_of(view) for view in views(forest)]
    forest.partial_fit(X + 9.0, y + 16)
    assert [splits_of(view) for view in views(forest)] == before
    # Now one child of each root is outgrown; the other child and the root stay.
    for view in views(forest):
        view.tree.nodes["limit"][view.tree.nodes["left"][0]] = 0.0
    kept = [splits_of(TreeView(forest, number)) for number in range(6)]
    forest.partial_fit(X, y)
    changed = 0
    for old, view in zip(kept, views(forest), strict=True):
        new = splits_of(view)
        assert new[0] == old[0]
        right = [n for n in view.nodes(view.tree.nodes["right"][0]) if not view.is_leaf(n)]
        assert all(list(old.values()).count(new[n]) for n in right)
        changed += new != old
    assert changed == 6


def test_a_regrown_root_equals_a_tree_trained_from_scratch(rng):
    X, y = stream(rng)
    forest = auto(NCMForest).fit(X[y < 6], y[y < 6])
    for view in views(forest):
        view.tree.nodes["limit"][:] = 0.0
    forest.partial_fit(X[y >= 6], y[y >= 6])
    for view in views(forest):
        require_centroids_are_means(view)


def test_a_root_is_regrown_logarithmically_often_with_any_batch_size(rng):
    X, y = stream(rng, n_classes=12, per_class=40)
    order = rng.permutation(len(X))
    forest = auto(NCMForest).fit(X[order[:10]], y[order[:10]])
    regrowths = np.zeros(6, int)
    roots = [splits_of(view).get(0) for view in views(forest)]
    for row in order[10:]:
        forest.partial_fit(X[row : row + 1], y[row : row + 1])
        now = [splits_of(view).get(0) for view in views(forest)]
        regrowths += [a != b for a, b in zip(roots, now, strict=True)]
        roots = now
    most = math.log(len(X) / 10) / math.log(SOONEST)
    assert np.all(regrowths <= math.ceil(most) + 1)
    assert regrowths.sum() > 0


def test_with_a_budget_the_represented_weight_counts(rng):
    """Stored examples count with the weight of all examples that they represent."""
    X, y = stream(rng, n_classes=4, per_class=400)
    order = rng.permutation(len(X))
    forest = auto(NCMForest, n_exemplars=10).fit(X[order[:40]], y[order[:40]])
    first = [splits_of(view) for view in views(forest)]
    for part in np.array_split(order[40:], 10):
        forest.partial_fit(X[part], y[part])
        require_consistent(forest)
    assert forest.n_stored_ == 40
    assert all(splits_of(view) != old for view, old in zip(views(forest), first, strict=True))
