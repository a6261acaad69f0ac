"""``update="auto"``, not from the paper: nodes that became much heavier are grown again.

A splitting function chosen from examples of weight w is kept until the examples at its node weigh
more than p w; then the node and everything below it are grown again, from all of them. A leaf that
could not be split is tried again when it is q times as heavy. p is ``REGROW_FACTOR``, randomised
for each node, and q ``LEAF_REGROW_FACTOR`` in grow.py, where each node gets its ``limit``.

The amortised cost of an example is O(p / (p − 1)) growths of each node it passes, however many came
before it and however small the batches are. RTST and RUST draw a share of all nodes at every call,
which costs in proportion to everything learned before.
"""

import numpy as np
from numpy.typing import NDArray

from everlearn.compiled import compiled, inner
from everlearn.forest.buffers import Floats64, Ints, ints, zeros
from everlearn.forest.grow import with_leaves_grown
from everlearn.forest.route import partition, push, send
from everlearn.forest.settings import NONE, ROOT, ForestSettings
from everlearn.forest.tree import (
    SEGMENT,
    Tree,
    TreeRows,
    collapse,
    leaf_weight,
    link,
    subtree,
)
from everlearn.forest.update.batch import TreeBatch


def taught(tree: Tree, batch: TreeBatch, settings: ForestSettings) -> Tree:
    """The tree with new examples passed down, and outgrown nodes grown again."""
    touched = np.zeros(len(tree.nodes), np.bool_)
    pass_down_or_regrow(tree, batch.rows, batch.arrived.copy(), touched, settings)
    return with_leaves_grown(tree, batch.rows, touched, settings)


@inner
def node_weights(tree: Tree, rows: TreeRows) -> Floats64:
    """The weight of the examples below each node (indexed by node)."""
    nodes = subtree(tree, ROOT)
    weights = zeros(tree.nodes.shape[0])
    for i in range(nodes.shape[0] - 1, -1, -1):
        node = nodes[i]
        if tree.nodes[node].left == NONE:
            weights[node] = leaf_weight(tree, rows, node)
        else:
            weights[node] = weights[tree.nodes[node].left] + weights[tree.nodes[node].right]
    return weights


@compiled
def pass_down_or_regrow(
    tree: Tree, rows: TreeRows, index: Ints, touched: NDArray[np.bool_], settings: ForestSettings
) -> None:
    """Pass new examples down to leaves; a node that becomes too heavy is cut to a leaf.

    Leaves that are due to be grown are marked as touched. ``index`` is reordered.
    """
    weights = node_weights(tree, rows)
    sides = ints(index.shape[0], 0)
    segments = np.empty(tree.used[0].nodes + 1, SEGMENT)
    push(segments, 0, 0, 0, index.shape[0])
    depth = 1
    while depth:
        depth -= 1
        node, begin, end = segments[depth].node, segments[depth].begin, segments[depth].end
        if begin == end:
            continue
        arriving, part = index[begin:end], sides[begin:end]
        weight = weights[node]
        for i in range(arriving.shape[0]):
            weight += rows.weight[arriving[i]]
        outgrown = weight > tree.nodes[node].limit
        if outgrown and tree.nodes[node].left != NONE:
            collapse(tree, node)
        left, right = tree.nodes[node].left, tree.nodes[node].right
        if left == NONE:
            for i in range(arriving.shape[0] - 1, -1, -1):
                link(tree, arriving[i], node)
            touched[node] = outgrown
            continue
        send(settings.split, tree, node, rows.X, arriving, part)
        middle = begin + partition(arriving, part)
        push(segments, depth, right, middle, end)
        push(segments, depth + 1, left, begin, middle)
        depth += 2
