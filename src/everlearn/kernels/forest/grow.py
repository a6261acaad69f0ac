"""Growing leaves into subtrees, and cutting what has become too small."""

import numpy as np
from numpy.typing import NDArray

from everlearn.kernels.compile import compiled
from everlearn.kernels.forest.route import partition
from everlearn.kernels.forest.splits import Split, best_split
from everlearn.kernels.forest.tree import (
    DEAD,
    MEMBERS,
    NONE,
    Bytes,
    Ints,
    Rows,
    Settings,
    Tree,
    add_leaf,
    collapse,
    leaf_weight,
    link,
    make_leaf,
    random_unit,
    rows_below,
    subtree,
    with_room,
)


@compiled
def write_split(tree: Tree, node: int, split: Split) -> Tree:
    """Give a node a splitting function, in fresh storage: readers may still use the old one."""
    size = split.member_slot.shape[0]
    tree = with_room(tree, 0, size)
    member = tree.used[MEMBERS]
    tree.used[MEMBERS] += size
    tree.member_slot[member : member + size] = split.member_slot
    tree.member_side[member : member + size] = split.member_side
    tree.vectors[node] = split.vectors
    tree.half_squares[node] = split.half_square
    tree.nodes[node].member = member
    tree.nodes[node].size = size
    tree.nodes[node].feature = split.feature
    tree.nodes[node].threshold = split.threshold
    return tree


@compiled
def limit_of(
    rows: Rows, index: Ints, splits: bool, settings: Settings, random: NDArray[np.uint64]
) -> float:
    """How heavy a node grown from these examples may become before it is worth growing again.

    The factor for splitting nodes is random, so that the trees of a forest come due in turn. A
    leaf that was never tried, because it is too light or of one class, is due at once.
    """
    weight, one_class = 0.0, True
    for row in index:
        weight += rows.weight[row]
        one_class &= rows.slot[row] == rows.slot[index[0]]
    if splits:
        power = 1.0 + settings.spread * (2.0 * random_unit(random) - 1.0)
        return weight * settings.patience**power
    if one_class or weight <= 2.0 * settings.smallest:
        return weight
    return weight * settings.leaf_patience


@compiled
def grown(tree: Tree, rows: Rows, leaf: int, settings: Settings) -> Tree:
    """The tree with one leaf grown until no node can be split."""
    index = rows_below(tree, leaf)
    make_leaf(tree, leaf)
    n = index.shape[0]
    sides = np.empty(n, np.int32)
    # A split leaves at least one example on each side, so no more than n segments are open.
    nodes = np.empty(n + 1, np.int32)
    begins = np.empty(n + 1, np.int64)
    ends = np.empty(n + 1, np.int64)
    nodes[0], begins[0], ends[0] = leaf, 0, n
    open_segments = 1
    while open_segments:
        open_segments -= 1
        node, begin, end = nodes[open_segments], begins[open_segments], ends[open_segments]
        here = index[begin:end]
        split = best_split(rows, here, settings, tree.random, sides[begin:end])
        tree.nodes[node].limit = limit_of(rows, here, split.gain > 0.0, settings, tree.random)
        if split.gain <= 0.0:
            for i in range(end - 1, begin - 1, -1):
                link(tree, index[i], node)
            continue
        tree = write_split(with_room(tree, 2, 0), node, split)
        left, right = add_leaf(tree, node), add_leaf(tree, node)
        tree.nodes[node].left, tree.nodes[node].right = left, right
        middle = begin + partition(here, sides[begin:end])
        nodes[open_segments], begins[open_segments], ends[open_segments] = right, middle, end
        open_segments += 1
        nodes[open_segments], begins[open_segments], ends[open_segments] = left, begin, middle
        open_segments += 1
    return tree


@compiled
def cut_small_leaves(tree: Tree, rows: Rows, top: int, smallest: float, touched: Bytes) -> None:
    """Cut leaves at or below ``top`` that hold too little into their parents, until none is left.

    A node that becomes a leaf is marked as touched: it may grow again.
    """
    nodes = subtree(tree, top)
    # From the bottom up: a parent comes before its children in this order.
    for i in range(nodes.shape[0] - 1, -1, -1):
        node = nodes[i]
        while (
            tree.nodes[node].parent != DEAD
            and tree.nodes[node].left == NONE
            and leaf_weight(tree, rows, node) <= smallest
            and tree.nodes[node].parent != NONE
        ):
            node = tree.nodes[node].parent
            collapse(tree, node)
            touched[node] = 1
