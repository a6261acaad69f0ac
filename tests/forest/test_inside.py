"""The path of an example through a tree, against the tree's arrays."""

from itertools import pairwise

import numpy as np
import pytest

from everlearn import NCMForest, SVMForest
from everlearn.errors import InvalidParameter
from everlearn.forest.inside import draw, path
from tests.forest.forest_oracles import TreeView


@pytest.fixture
def taught(rng):
    y = np.repeat(np.array(["cat", "dog", "owl", "fox"]), 25)
    X = 4.0 * rng.standard_normal((4, 6)).repeat(25, axis=0) + rng.standard_normal((100, 6))
    shuffled = rng.permutation(100)
    return X[shuffled], y[shuffled]


@pytest.mark.parametrize("learner", [NCMForest, SVMForest])
def test_a_path_lists_the_decisions_of_the_tree(rng, taught, learner):
    X, y = taught
    forest = learner(n_estimators=3, random_state=0).fit(X, y)
    for x in X[:10] + 0.5:
        for tree in range(3):
            steps = path(forest, x, tree=tree)
            view = TreeView(forest, tree)
            whitened = forest.groves_[0].whitening(x[None]).astype(float)[0]
            assert steps[-1].node == view.leaf_of(whitened)
            assert [s.n_examples for s in steps] == [len(view.rows(s.node)) for s in steps]
            for step, after in pairwise(steps):
                assert after.node == view.children(step.node)[int(step.goes_right)]


def test_the_answer_of_a_forest_is_the_mean_of_its_leaf_distributions(taught):
    X, y = taught
    forest = NCMForest(n_estimators=4, random_state=0).fit(X, y)
    leaves = [path(forest, X[0] + 1.0, tree=tree)[-1].distribution for tree in range(4)]
    for label, share in zip(forest.classes_, forest.predict_proba(X[:1] + 1.0)[0], strict=True):
        assert share == pytest.approx(np.mean([leaf.get(label, 0.0) for leaf in leaves]))


def test_examples_are_the_nearest_of_the_cell_by_their_number(taught):
    X, y = taught
    forest = NCMForest(n_estimators=1, random_state=0).fit(X, y)
    root = path(forest, X[0])[0]
    view = TreeView(forest)
    whitened = forest.groves_[0].whitening(X).astype(float)
    centroids = view.centroids(0)
    to_centroids = np.linalg.norm(whitened[:, None] - centroids[None], axis=2)
    for index, member in enumerate(root.members):
        cell = np.flatnonzero(to_centroids.argmin(axis=1) == index)
        expected = cell[np.argsort(to_centroids[cell, index])[:3]]
        assert set(member.examples) == set(expected.tolist())
    assert root.members[root.nearest].distance == min(m.distance for m in root.members)


def test_a_picture_shows_every_decision(taught):
    X, y = taught
    forest = NCMForest(n_estimators=1, random_state=0).fit(X, y)
    steps = path(forest, X[3])
    figure = draw(steps, lambda number: X[number].reshape(2, 3), image=X[3].reshape(2, 3))
    shown = sum(len(axes.images) for axes in figure.axes)
    named = sum(len(m.examples) for s in steps for m in s.members[:5])
    assert shown == 1 + named


def test_an_index_of_a_missing_tree_is_refused(taught):
    forest = NCMForest(n_estimators=2, random_state=0).fit(*taught)
    with pytest.raises(InvalidParameter, match="from 0 to 1"):
        path(forest, taught[0][0], tree=2)
