"""Teaching a tree by growing again what has been outgrown (``update="auto"``).

A splitting function that was the best for w examples is kept while no more than w·p have come to
its node; when more come, the node and all below it are grown again, from all of them. A leaf that
could not be split is tried again when it is q times as heavy. Between two renewals of a node the
examples that pay for the second arrive, so an example costs O(p / (p − 1)) growths of each node it
passes, however many came before it and however small the batches are. (Drawing a share of all
nodes at every call, as RTST and RUST do, costs in proportion to what was learned before.)
"""

import numpy as np

from everlearn.kernels.compile import compiled
from everlearn.kernels.forest.route import partition, sides_of
from everlearn.kernels.forest.tree import (
    NODES,
    NONE,
    Bytes,
    Floats64,
    Ints,
    Rows,
    Settings,
    Tree,
    collapse,
    leaf_weight,
    link,
    subtree,
)


@compiled
def node_weights(tree: Tree, rows: Rows) -> Floats64:
    """The weight of the examples below each node (indexed by node)."""
    nodes = subtree(tree, 0)
    weights = np.zeros(tree.nodes.shape[0])
    for i in range(nodes.shape[0] - 1, -1, -1):
        node = nodes[i]
        if tree.nodes[node].left == NONE:
            weights[node] = leaf_weight(tree, rows, node)
        else:
            weights[node] = weights[tree.nodes[node].left] + weights[tree.nodes[node].right]
    return weights


@compiled
def pass_down_or_renew(
    tree: Tree, rows: Rows, index: Ints, touched: Bytes, settings: Settings
) -> None:
    """Pass new examples down to leaves; a node they make too heavy is cut to a leaf with them all.

    Leaves that are due to be grown are marked as touched.
    """
    weights = node_weights(tree, rows)
    index = index.copy()
    sides = np.empty(index.shape[0], np.int32)
    nodes = np.empty(tree.used[NODES] + 1, np.int32)
    begins = np.empty(tree.used[NODES] + 1, np.int64)
    ends = np.empty(tree.used[NODES] + 1, np.int64)
    nodes[0], begins[0], ends[0] = 0, 0, index.shape[0]
    depth = 1
    while depth:
        depth -= 1
        node, begin, end = nodes[depth], begins[depth], ends[depth]
        if begin == end:
            continue
        arriving = index[begin:end]
        weight = weights[node]
        for row in arriving:
            weight += rows.weight[row]
        outgrown = weight > tree.nodes[node].limit
        if outgrown and tree.nodes[node].left != NONE:
            collapse(tree, node)
        if tree.nodes[node].left == NONE:
            for i in range(arriving.shape[0] - 1, -1, -1):
                link(tree, arriving[i], node)
            touched[node] = outgrown
            continue
        part = sides[begin:end]
        sides_of(tree, settings.kind, node, rows.X, arriving, part)
        middle = begin + partition(arriving, part)
        here = tree.nodes[node]
        nodes[depth], begins[depth], ends[depth] = here.right, middle, end
        depth += 1
        nodes[depth], begins[depth], ends[depth] = here.left, begin, middle
        depth += 1
