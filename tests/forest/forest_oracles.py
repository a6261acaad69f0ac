"""Slow and obvious references for the forests, in float64 and plain Python."""

from itertools import product

import numpy as np
from numba import njit
from scipy.stats import entropy

from everlearn.forest import gain

LEFT, RIGHT, NONE = 0, 1, -1


def from_python(inner):
    """A compiled function that has no Python wrapper, made callable."""

    @njit
    def outer(*arguments):
        return inner(*arguments)

    return outer


assignments = from_python(gain.assignments)
best_assignment = from_python(gain.best_assignment)
best_partition = from_python(gain.best_partition)


def class_entropy(slots, weights):
    """H(S), from the definition."""
    _, position = np.unique(slots, return_inverse=True)
    return entropy(np.bincount(position, weights)) if len(slots) else 0.0


def information_gain(slots, weights, sides):
    """U(f) of Eq. 1, from the definition."""
    gain = class_entropy(slots, weights)
    for side in (LEFT, RIGHT):
        here = sides == side
        gain -= weights[here].sum() / weights.sum() * class_entropy(slots[here], weights[here])
    return gain


def best_gain(cells, slots, weights, n_cells, smallest, fixed=None):
    """The highest gain over every way to send cells left and right; ``fixed`` cells stay."""
    best = 0.0
    for sides in product((LEFT, RIGHT), repeat=n_cells):
        if fixed is not None and any(
            side != want for side, want in zip(sides, fixed, strict=True) if want is not None
        ):
            continue
        per_row = np.array(sides)[cells]
        right = weights[per_row == RIGHT].sum()
        if right > smallest and weights.sum() - right > smallest:
            best = max(best, information_gain(slots, weights, per_row))
    return best


class TreeView:
    """Reads a tree from its arrays, one node at a time."""

    def __init__(self, forest, number=0, grove=0):
        self.examples = forest.groves_[grove].examples
        self.tree = forest.groves_[grove].trees[number]
        self.X = self.examples.X.astype(np.float64)

    def is_leaf(self, node):
        return self.tree.nodes["left"][node] == NONE

    def children(self, node):
        return (
            []
            if self.is_leaf(node)
            else [self.tree.nodes["left"][node], self.tree.nodes["right"][node]]
        )

    def nodes(self, top=0):
        yield top
        for child in self.children(top):
            yield from self.nodes(child)

    def leaf_rows(self, leaf):
        row, found = self.tree.nodes["head"][leaf], []
        while row != NONE:
            found.append(row)
            row = self.tree.links["next"][row]
        return found

    def rows(self, top):
        return [r for node in self.nodes(top) if self.is_leaf(node) for r in self.leaf_rows(node)]

    def members(self, node):
        members = self.tree.members_of(node)
        return members["slot"], members["side"]

    def centroids(self, node):
        return self.tree.vectors_of(node).astype(np.float64)

    def cells(self, node, rows):
        distances = ((self.X[rows][:, None] - self.centroids(node)[None]) ** 2).sum(axis=2)
        return distances.argmin(axis=1)

    def side(self, node, x):
        vectors = self.tree.vectors_of(node)
        if len(vectors) > 1:  # centroids
            nearest = ((self.centroids(node) - x) ** 2).sum(axis=1).argmin()
            return self.members(node)[1][nearest]
        if not len(vectors):  # one feature
            return (
                RIGHT
                if x[self.tree.nodes["feature"][node]] > self.tree.nodes["threshold"][node]
                else LEFT
            )
        w = vectors[0].astype(np.float64)
        return RIGHT if x @ w > self.tree.nodes["threshold"][node] else LEFT

    def leaf_of(self, x):
        node = 0
        while not self.is_leaf(node):
            node = self.children(node)[self.side(node, x)]
        return node

    def slots_and_weights(self, rows):
        return self.examples.slot[rows], self.examples.weight[rows]

    def quality(self, node):
        """Q(n) of Eq. 10, from the definition."""
        rows = self.rows(node)
        slots, weights = self.slots_and_weights(rows)
        quality = class_entropy(slots, weights)
        for leaf in self.nodes(node):
            if self.is_leaf(leaf):
                theirs = self.slots_and_weights(self.leaf_rows(leaf))
                quality -= theirs[1].sum() / weights.sum() * class_entropy(*theirs)
        return quality


def naive_probabilities(forest, X):
    """Eq. 2: leaf distributions averaged over trees, columns by slot; every stored row counts."""
    grove = forest.groves_[0]
    scale = grove.examples.scale
    answers = np.zeros((len(X), grove.examples.n_slots))
    for number in range(len(grove.trees)):
        view = TreeView(forest, number)
        for i, x in enumerate(grove.whitening(X).astype(np.float64)):
            slots, weights = view.slots_and_weights(view.leaf_rows(view.leaf_of(x)))
            counts = np.bincount(slots, weights * scale[slots], answers.shape[1])
            answers[i] += counts / counts.sum()
    return answers / len(grove.trees)


def require_consistent(forest):
    """Require that every stored example is in the leaf the tree sends it to, and only there."""
    for index, grove in enumerate(forest.groves_):
        for number, tree in enumerate(grove.trees):
            view = TreeView(forest, number, index)
            found = []
            for node in view.nodes():
                for child in view.children(node):
                    assert tree.nodes["parent"][child] == node
                if not view.is_leaf(node):
                    continue
                rows = view.leaf_rows(node)
                found += rows
                for row in rows:
                    assert tree.links["leaf"][row] == node
                    assert view.leaf_of(view.X[row]) == node
            assert sorted(found) == grove.examples.stored.tolist()


def require_centroids_are_means(view: TreeView) -> None:
    """Require that centroids are the class means of the examples below their node."""
    for node in view.nodes():
        if view.is_leaf(node):
            continue
        rows = np.array(view.rows(node))
        for slot, centroid in zip(view.members(node)[0], view.centroids(node), strict=True):
            own = rows[view.examples.slot[rows] == slot]
            np.testing.assert_allclose(view.X[own].mean(axis=0), centroid, atol=1e-5)
