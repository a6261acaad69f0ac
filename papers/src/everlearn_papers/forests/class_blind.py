"""Class-blind splitting functions, compiled: one feature or one random direction and a threshold.

    axis    f(x) = sgn(x_j − b),   j a random feature
    linear  f(x) = sgn(w·x − b),   w a random direction

b lies halfway between two random examples of the node; the candidate with the highest gain stays
(Eq. 1 of Ristin et al.). A node has no members, so there is nothing for RUST to extend.
"""

from typing import Any, NamedTuple

import numpy as np

from everlearn.compiled import Array, inner
from everlearn.forest.buffers import Floats32, Ints, flags, vectors, zero_table, zeros
from everlearn.forest.gain import AtNode, best_assignment
from everlearn.forest.grow import find_split
from everlearn.forest.randomness import random_below, random_index, random_unit
from everlearn.forest.route import dot, send
from everlearn.forest.settings import ForestSettings, Side
from everlearn.forest.split_svm import best_hyperplane, sides_of_plane, store_hyperplane
from everlearn.forest.tree import Records, Tree, TreeRows


class AxisSplit(NamedTuple):
    """Split on one feature; ``n_candidates`` are tried per node."""

    n_candidates: int

    def room(self, n_slots: int) -> tuple[int, int]:
        """The most members and vectors that one node needs."""
        return 0, 0

    def fits(self, splits: Records, n_features: int) -> Any:
        """Mask of the split nodes with a valid feature."""
        return (splits["feature"] >= 0) & (splits["feature"] < n_features)


class LinearSplit(NamedTuple):
    """Split on a projection; ``n_candidates`` are tried per node."""

    n_candidates: int

    def room(self, n_slots: int) -> tuple[int, int]:
        """The most members and vectors that one node needs."""
        return 0, 1

    def fits(self, splits: Records, n_features: int) -> Any:
        """Mask of the split nodes with exactly one vector."""
        return splits["n_vectors"] == 1


@inner
def cumulative_weights(rows: TreeRows, index: Ints) -> Array:
    """Cumulative sums of the weights: w_1, w_1 + w_2, …"""
    cumulative, total = zeros(index.shape[0]), 0.0
    for i in range(index.shape[0]):
        total += rows.weight[index[i]]
        cumulative[i] = total
    return cumulative


@find_split.register(AxisSplit)
def find_axis_split(
    split: AxisSplit, tree: Tree, node: int, rows: TreeRows, at: AtNode, settings: ForestSettings
) -> float:
    """Set the best of several random features and thresholds at a node; return its gain."""
    index, d = at.rows, rows.X.shape[1]
    cumulative = cumulative_weights(rows, index)
    ways, histogram = flags(1, 2), zero_table(2, at.slots.shape[0])
    ways[0, 0], ways[0, 1] = Side.RIGHT, Side.LEFT
    best_gain, best_feature, best_threshold = 0.0, 0, np.float32(0.0)
    for _ in range(split.n_candidates):
        feature = random_below(tree.random, d)
        low = rows.X[index[random_index(cumulative, tree.random)], feature]
        high = rows.X[index[random_index(cumulative, tree.random)], feature]
        if low == high:
            continue
        threshold = np.float32(0.5) * (low + high)
        for j in range(at.slots.shape[0]):
            histogram[0, j], histogram[1, j] = 0.0, at.weights[j]
        for i in range(index.shape[0]):
            if rows.X[index[i], feature] > threshold:
                position = at.position[rows.slot[index[i]]]
                histogram[0, position] += rows.weight[index[i]]
        for j in range(at.slots.shape[0]):
            histogram[1, j] -= histogram[0, j]
        found, gain = best_assignment(ways, histogram, settings.smallest, settings.entropies)
        if found >= 0 and gain > best_gain:
            best_gain, best_feature, best_threshold = gain, feature, threshold
    if best_gain > 0.0:
        tree.nodes[node].feature = best_feature
        tree.nodes[node].threshold = best_threshold
        send_by_feature(split, tree, node, rows.X, index, at.sides)
    return best_gain


@inner
def send_by_feature(
    split: AxisSplit, tree: Tree, node: int, X: Floats32, index: Ints, sides: Ints
) -> None:
    """The side of the threshold."""
    feature, threshold = tree.nodes[node].feature, tree.nodes[node].threshold
    for i in range(index.shape[0]):
        sides[i] = Side.RIGHT if X[index[i], feature] > threshold else Side.LEFT


@send.register(AxisSplit)
def send_by_axis(
    split: AxisSplit, tree: Tree, node: int, X: Floats32, index: Ints, sides: Ints
) -> None:
    """The side of the threshold."""
    send_by_feature(split, tree, node, X, index, sides)


@find_split.register(LinearSplit)
def find_linear_split(
    split: LinearSplit, tree: Tree, node: int, rows: TreeRows, at: AtNode, settings: ForestSettings
) -> float:
    """Set the best of several random directions and thresholds at a node; return its gain."""
    d, random = rows.X.shape[1], tree.random
    cumulative = cumulative_weights(rows, at.rows)
    W, thresholds = vectors(split.n_candidates, d), vectors(1, split.n_candidates)[0]
    for c in range(split.n_candidates):
        w = W[c]
        for j in range(d):
            radius = np.sqrt(-2.0 * np.log(random_unit(random)))
            w[j] = radius * np.cos(2.0 * np.pi * random_unit(random))
        low = dot(rows.X[at.rows[random_index(cumulative, random)]], w)
        high = dot(rows.X[at.rows[random_index(cumulative, random)]], w)
        thresholds[c] = np.float32(0.5) * (low + high) if low != high else np.float32(np.inf)
    best, gain = best_hyperplane(rows, at, W, thresholds, settings)
    if best < 0:
        return 0.0
    tree.nodes[node].member, tree.nodes[node].size = 0, 0
    store_hyperplane(tree, node, W[best], thresholds[best])
    return gain


@send.register(LinearSplit)
def send_by_direction(
    split: LinearSplit, tree: Tree, node: int, X: Floats32, index: Ints, sides: Ints
) -> None:
    """Write the side of the hyperplane of each example to ``sides``."""
    vector, threshold = tree.nodes[node].vector, tree.nodes[node].threshold
    sides_of_plane(X, index, tree.vectors[vector], threshold, sides)
