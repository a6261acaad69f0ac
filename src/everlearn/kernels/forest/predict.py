"""Asking trees."""

import numpy as np

from everlearn.kernels.compile import compiled
from everlearn.kernels.forest.tree import (
    NONE,
    Floats32,
    Floats64,
    Ints,
    Rows,
    Tree,
    leaf_weight,
    leaves_of,
    rows_below,
)


@compiled
def answering_rows(tree: Tree, leaf: int) -> Ints:
    """The examples that speak for a leaf: its own, or those below its nearest ancestor with any."""
    node = leaf
    members = rows_below(tree, node)
    while not members.shape[0] and tree.nodes[node].parent != NONE:
        node = tree.nodes[node].parent
        members = rows_below(tree, node)
    return members


@compiled
def add_answers(tree: Tree, kind: int, rows: Rows, X: Floats32, answers: Floats64) -> None:
    """answers[i, κ] += P_l(x_i)(κ), the class distribution at the leaf (Eq. 2)."""
    leaves = leaves_of(tree, kind, 0, X, np.arange(X.shape[0]).astype(np.int32))
    for i in range(X.shape[0]):
        leaf = leaves[i]
        answer = answers[i]
        total = leaf_weight(tree, rows, leaf)
        if total > 0.0:
            row = tree.nodes[leaf].head
            while row != NONE:
                answer[rows.slot[row]] += rows.weight[row] / total
                row = tree.links[row].next
            continue
        members = answering_rows(tree, leaf)
        for row in members:
            total += rows.weight[row]
        for row in members:
            answer[rows.slot[row]] += rows.weight[row] / total
