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
from everlearn.forest.gain import AtNode, count_classes, total_of
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

# With update="auto" a node is grown again when it is REGROW_FACTOR^(1 + s) times as heavy as when
# it was grown, with a random s between −REGROW_SPREAD and REGROW_SPREAD for each node; a leaf that
# could not be split is tried again when it is LEAF_REGROW_FACTOR times as heavy. All three were
# chosen on held-out training examples of CIFAR-100.
REGROW_FACTOR = 8.0
REGROW_SPREAD = 0.75
LEAF_REGROW_FACTOR = 3.0
# Capacity for splits is extended by this many nodes at a time.
NODES_AT_A_TIME = 8


@by_type
def find_split(
    split: Any, tree: Tree, node: int, rows: TreeRows, at: AtNode, settings: ForestSettings
) -> float:
    """Find the splitting function of a node, and the side of each of its examples.

    Implemented per kind of split. Returns the gain; without a gain, returns 0 and leaves the node
    unchanged.
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
    """Extend the splitting function of a node by the classes ``arriving``.

    Implemented per kind of split. ``at.sides`` holds the side of each example, and is overwritten.
    Returns the gain; without a gain, returns 0 and leaves the node unchanged.
    """
    raise NotImplementedError


class OpenLeaves(NamedTuple):
    """A stack of leaves to be grown, each with a run of ``rows``; the last segment is next."""

    rows: Ints
    sides: Ints
    segments: Records
    n_open: NDArray[np.int64]


def grow_first_tree(tree: Tree, rows: TreeRows, index: Ints, settings: ForestSettings) -> Tree:
    """A tree trained on these examples, from an empty root."""
    n_leaves = len(index) / (1.0 + 2.0 * settings.smallest)
    n_nodes, n_vectors = int(2 * n_leaves), int(n_leaves * settings.vectors_per_node)
    # Memory that is never written to costs nothing. Vectors are at most as many as examples.
    tree = with_room(tree, n_nodes, 0, min(n_vectors, len(index)))
    segments = np.empty(1 + len(index), SEGMENT)
    segments[0] = (0, 0, len(index))
    pending = OpenLeaves(index.copy(), np.empty(len(index), np.int32), segments, np.array([1]))
    return _grown(tree, rows, pending, settings)


def with_leaves_grown(
    tree: Tree, rows: TreeRows, touched: NDArray[np.bool_], settings: ForestSettings
) -> Tree:
    """The tree with every touched leaf grown; space of cut nodes is reclaimed first."""
    tree, touched = compacted(tree, touched)
    return _grown(tree, rows, open_leaves(tree, touched), settings)


@compiled
def open_leaves(tree: Tree, touched: NDArray[np.bool_]) -> OpenLeaves:
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
        push(segments, n_leaves - 1 - i, leaves[i], begin, end)  # so that the first leaf is next
    n_open = np.empty(1, np.int64)
    n_open[0] = n_leaves
    return OpenLeaves(index, sides, segments, n_open)


def _grown(tree: Tree, rows: TreeRows, pending: OpenLeaves, settings: ForestSettings) -> Tree:
    while pending.n_open[0]:
        grow_within_room(tree, rows, pending, settings)
        if pending.n_open[0]:
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
def grow_within_room(
    tree: Tree, rows: TreeRows, pending: OpenLeaves, settings: ForestSettings
) -> None:
    """Grow until nothing is left to grow, or the capacity might not suffice for the next split."""
    while pending.n_open[0] and has_room(tree, settings):
        pending.n_open[0] -= 1
        top = pending.n_open[0]
        node = pending.segments[top].node
        begin, end = pending.segments[top].begin, pending.segments[top].end
        here, sides = pending.rows[begin:end], pending.sides[begin:end]
        at = count_classes(rows, here, sides, settings.n_slots)
        weight, gain = total_of(at.weights), 0.0
        if at.slots.shape[0] > 1 and weight > 2.0 * settings.smallest:
            gain = find_split(settings.split, tree, node, rows, at, settings)
        tree.nodes[node].limit = regrow_limit(at, weight, gain > 0.0, settings, tree)
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
        push(pending.segments, top, right, middle, end)
        push(pending.segments, top + 1, left, begin, middle)
        pending.n_open[0] += 2


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
def regrow_limit(
    at: AtNode, weight: float, splits: bool, settings: ForestSettings, tree: Tree
) -> float:
    """The weight a node grown from these examples may reach before it is grown again.

    The factor for splitting nodes is random, so that the trees of a forest are regrown at different
    times. A leaf that no split was tried for, because it is too light or has one class, is grown
    when its next example arrives.
    """
    if splits:
        power = 1.0 + REGROW_SPREAD * (2.0 * random_unit(tree.random) - 1.0)
        return weight * REGROW_FACTOR**power
    if at.slots.shape[0] == 1 or weight <= 2.0 * settings.smallest:
        return weight
    return weight * LEAF_REGROW_FACTOR
