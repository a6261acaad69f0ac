"""Mondrian forests: how trees are drawn and how they answer, against simulation."""

import numpy as np
import pytest
from everlearn_papers.forests.mondrian import (
    DISCOUNT,
    MondrianForest,
    Node,
    answers,
    drawn_tree,
)
from scipy.stats import kstest


def test_splits_are_drawn_as_a_mondrian_process(rng):
    """Sides of 1 and 3: waiting Exp(4), the second feature three times in four, uniformly."""
    X = np.array([[0.0, 0.0], [1.0, 3.0], [0.3, 2.0], [0.9, 0.1]])
    roots = [drawn_tree(X, np.array([0, 1, 2, 0]), 3, rng) for _ in range(1500)]
    assert kstest([root.wait for root in roots], "expon", args=(0, 0.25)).pvalue > 1e-3
    second = [root.threshold / 3 for root in roots if root.feature == 1]
    assert len(second) / len(roots) == pytest.approx(0.75, abs=0.04)
    assert kstest(second, "uniform").pvalue > 1e-3


def test_boxes_bound_their_examples_and_leaves_are_pure(rng):
    X, slots = rng.random((60, 4)), rng.integers(0, 3, 60)
    root = drawn_tree(X, slots, 3, rng)
    ways, n_found = [(root, np.arange(60))], 0
    while ways:
        node, rows = ways.pop()
        np.testing.assert_array_equal(node.lower, X[rows].min(axis=0))
        np.testing.assert_array_equal(node.upper, X[rows].max(axis=0))
        if not node.children:
            assert len(set(slots[rows])) == 1
            n_found += len(rows)
            continue
        right = X[rows, node.feature] > node.threshold
        ways += [(node.children[0], rows[~right]), (node.children[1], rows[right])]
    assert n_found == 60


def test_an_example_outside_the_box_is_answered_as_if_inserted_at_random(rng):
    """Simulated: it leaves at a time t ~ Exp(η) if that is before the node was split."""
    waits = {"root": 0.02, "left": np.inf, "right": np.inf}
    left = Node(np.array([0.0]), np.array([0.4]), waits["left"], np.array([3.0, 0.0]))
    right = Node(np.array([0.6]), np.array([1.0]), waits["right"], np.array([0.0, 2.0]))
    root = Node(np.array([0.0]), np.array([1.0]), waits["root"], np.array([1.0, 1.0]), 0, 0.5)
    root.children = [left, right]
    x, gamma, prior = 21.0, DISCOUNT * 1, 0.5
    times = rng.exponential(1 / 20.0, 400_000)  # η = 21 − 1 at the root, 20 at its right child
    fade = np.exp(-gamma * times)
    leaves_above_root = times < waits["root"]
    # Inserted above the root: both classes once, mixed with the prior.
    above = (1 - fade) * 0.5 + fade * prior
    # Else it goes right. The root's own shares, then what is inserted above that child.
    root_fade = np.exp(-gamma * waits["root"])
    of_root = (1 - root_fade * 1 + root_fade * 2 * prior) / 2
    again = np.exp(-gamma * rng.exponential(1 / 20.0, len(times)))
    below = (1 - again) * 1.0 + again * of_root
    expected = np.where(leaves_above_root, above, below).mean()
    found = answers(root, np.array([[x]]))[0]
    assert found.sum() == pytest.approx(1.0)
    assert found[1] == pytest.approx(expected, abs=4e-3)


def test_learned_examples_are_answered_and_distant_ones_get_the_prior(rng):
    X, y = rng.random((80, 5)), rng.choice(["cup", "chair", "lamp"], 80)
    forest = MondrianForest(3, seed=1).fit(X, y)
    np.testing.assert_array_equal(forest.predict(X), y)
    far = forest.predict_proba(np.full((1, 5), 1e9))
    np.testing.assert_allclose(far, 1 / 3, atol=1e-3)
    again = MondrianForest(3, seed=1).fit(X, y).predict_proba(X + 0.1)
    np.testing.assert_array_equal(again, forest.predict_proba(X + 0.1))
