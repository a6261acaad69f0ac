"""Grows leaves into subtrees (Sec. 3).

A node is split by the best of several random splitting functions (Eq. 1) as long as one gains and
leaves more than μ on both sides, depth first. The result depends only on the examples at a node and
on the tree's own random numbers. Cost: one splitting function per node; a node of n examples costs
O(n) times the cost per example of its kind of split.

Compiled code works within the capacity of a tree. When it is used up, growing stops and continues
with more capacity.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from everlearn.compiled import by_type, compiled, inner
from everlearn.forest.buffers import Ints, ints
from everlearn.forest.gain import AtNode, census, total_of
from everlearn.forest.randomness import random_unit
from everlearn.forest.route import partition, push
from everlearn.forest.settings import DEAD, NONE, ForestSettings
from everlearn.forest.tree import (
    SEGMENT,
    Records,
    Tree,
    TreeRows,
    compacted,
    link,
    make_leaf,
    with_room,
)

# With update="auto" a node is grown again when it is PATIENCE^(1 ± PATIENCE_SPREAD) times as heavy
# as when it was grown, a random power for each node; a leaf that could not be split is tried again
# when it is LEAF_PATIENCE times as heavy. Chosen on held-out training examples of CIFAR-100.
PATIENCE = 8.0
PATIENCE_SPREAD = 0.75
LEAF_PATIENCE = 3.0
# Capacity for splits is extended by this many nodes at a time.
NODES_AT_A_TIME = 8


@by_type
def find_split(
    split: Any, tree: Tree, node: int, rows: TreeRows, at: AtNode, settings: ForestSettings
) -> float:
    """Give a node a splitting function and its examples their sides; implemented per kind of split.

    Returns the gain. If there is none, returns 0 and leaves the node unchanged.
    """
    raise NotImplementedError


@by_type
def extend_split(
    split: Any,
    tree: Tree,
    node: int,
    rows: TreeRows,
    at: AtNode,
    arriving: Ints,
    settings: ForestSettings,
) -> float:
    """Extend the splitting function of a node by new classes; implemented per kind of split.

    ``at.sides`` holds the side of each example, and is overwritten. Returns the gain. If there is
    none, returns 0 and leaves the node unchanged.
    """
    raise NotImplementedError


class Front(NamedTuple):
    """Leaves to be grown: runs of ``rows``; the last of ``segments`` is next."""

    rows: Ints
    sides: Ints
    segments: Records
    n_open: NDArray[np.int64]


def first_grown(tree: Tree, rows: TreeRows, index: Ints, settings: ForestSettings) -> Tree:
    """A tree trained on these examples, from an empty root."""
    n_leaves = len(index) / (1.0 + 2.0 * settings.smallest)
    n_nodes, n_vectors = int(2 * n_leaves), int(n_leaves * settings.vectors_per_node)
    # Unwritten memory costs nothing; still no more than the examples themselves.
    tree = with_room(tree, n_nodes, 0, min(n_vectors, len(index)))
    segments = np.empty(1 + len(index), SEGMENT)
    segments[0] = (0, 0, len(index))
    front = Front(index.copy(), np.empty(len(index), np.int32), segments, np.array([1]))
    return _grown(tree, rows, front, settings)


def with_leaves_grown(
    tree: Tree, rows: TreeRows, touched: NDArray[np.bool_], settings: ForestSettings
) -> Tree:
    """The tree with every touched leaf grown; space of cut nodes is reclaimed first."""
    tree, touched = compacted(tree, touched)
    return _grown(tree, rows, opened(tree, touched), settings)


@compiled
def opened(tree: Tree, touched: NDArray[np.bool_]) -> Front:
    """The touched leaves, to be grown in order, with their examples."""
    leaves = ints(tree.used[0].nodes, NONE)
    n_leaves, n_rows = 0, 0
    for node in range(leaves.shape[0]):
        if touched[node] and tree.nodes[node].left == NONE and tree.nodes[node].parent != DEAD:
            leaves[n_leaves] = node
            n_leaves += 1
            row = tree.nodes[node].head
            while row != NONE:
                n_rows += 1
                row = tree.links[row].next
    index, sides = ints(n_rows, NONE), ints(n_rows, 0)
    # A split leaves at least one example on each side, so no more than these are open at a time.
    segments = np.empty(n_leaves + n_rows, SEGMENT)
    end = 0
    for i in range(n_leaves):
        begin, row = end, tree.nodes[leaves[i]].head
        while row != NONE:
            index[end] = row
            end += 1
            row = tree.links[row].next
        tree.nodes[leaves[i]].head = NONE
        push(segments, n_leaves - 1 - i, leaves[i], begin, end)  # the last of them is next
    n_open = np.empty(1, np.int64)
    n_open[0] = n_leaves
    return Front(index, sides, segments, n_open)


def _grown(tree: Tree, rows: TreeRows, front: Front, settings: ForestSettings) -> Tree:
    while front.n_open[0]:
        grow_within_room(tree, rows, front, settings)
        if front.n_open[0]:
            tree = with_room_for_splits(tree, settings)
    return tree


def with_room_for_splits(tree: Tree, settings: ForestSettings) -> Tree:
    """The tree with capacity for some more splits of any kind."""
    return with_room(
        tree,
        2 * NODES_AT_A_TIME,
        settings.members_per_node * NODES_AT_A_TIME,
        settings.vectors_per_node * NODES_AT_A_TIME,
    )


@compiled
def grow_within_room(tree: Tree, rows: TreeRows, front: Front, settings: ForestSettings) -> None:
    """Grow until nothing is left to grow, or the capacity might not suffice for the next split."""
    while front.n_open[0] and has_room(tree, settings):
        front.n_open[0] -= 1
        place = front.n_open[0]
        node = front.segments[place].node
        begin, end = front.segments[place].begin, front.segments[place].end
        here, sides = front.rows[begin:end], front.sides[begin:end]
        at = census(rows, here, sides, settings.n_slots)
        weight, gain = total_of(at.weights), 0.0
        if at.slots.shape[0] > 1 and weight > 2.0 * settings.smallest:
            gain = find_split(settings.split, tree, node, rows, at, settings)
        tree.nodes[node].limit = limit_of(at, weight, gain > 0.0, settings, tree)
        if gain <= 0.0:
            for i in range(end - begin - 1, -1, -1):
                link(tree, here[i], node)
            continue
        left = tree.used[0].nodes
        right = left + 1
        tree.used[0].nodes += 2
        make_leaf(tree, left, node)
        make_leaf(tree, right, node)
        tree.nodes[node].left, tree.nodes[node].right = left, right
        middle = begin + partition(here, sides)
        push(front.segments, place, right, middle, end)
        push(front.segments, place + 1, left, begin, middle)
        front.n_open[0] += 2


@inner
def has_room(tree: Tree, settings: ForestSettings) -> bool:
    """Whether one more split of any kind can be stored."""
    used = tree.used[0]
    return (
        used.nodes + 2 <= tree.nodes.shape[0]
        and used.members + settings.members_per_node <= tree.members.shape[0]
        and used.vectors + settings.vectors_per_node <= tree.vectors.shape[0]
    )


@inner
def limit_of(
    at: AtNode, weight: float, splits: bool, settings: ForestSettings, tree: Tree
) -> float:
    """The weight a node grown from these examples may reach before it is grown again.

    The factor for splitting nodes is random, so that the trees of a forest are renewed at different
    times. A leaf that was never tried, because it is too light or of one class, is due at once.
    """
    if splits:
        power = 1.0 + PATIENCE_SPREAD * (2.0 * random_unit(tree.random) - 1.0)
        return weight * PATIENCE**power
    if at.slots.shape[0] == 1 or weight <= 2.0 * settings.smallest:
        return weight
    return weight * LEAF_PATIENCE
