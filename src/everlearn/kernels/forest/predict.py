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
    leaves_of,
    rows_below,
)


@compiled
def answering_rows(tree: Tree, leaf: int) -> Ints:
    """The examples that speak for a leaf: its own, or those below its nearest ancestor with any."""
    node = leaf
    members = rows_below(tree, node)
    while not members.shape[0] and tree.parent[node] != NONE:
        node = tree.parent[node]
        members = rows_below(tree, node)
    return members


@compiled
def add_answers(
    tree: Tree, kind: int, rows: Rows, class_scale: Floats64, X: Floats32, answers: Floats64
) -> None:
    """answers[i, κ] += P_l(x_i)(κ), the class distribution at the leaf (Eq. 2).

    ``class_scale`` says how many examples of its class each stored one stands for.
    """
    index = np.arange(X.shape[0]).astype(np.int32)
    leaves = leaves_of(tree, kind, 0, X, index)
    for i in range(X.shape[0]):
        leaf = leaves[i]
        answer = answers[i]
        total = 0.0
        row = tree.head[leaf]
        while row != NONE:
            total += rows.weight[row] * class_scale[rows.slot[row]]
            row = tree.next[row]
        if total > 0.0:
            row = tree.head[leaf]
            while row != NONE:
                slot = rows.slot[row]
                answer[slot] += rows.weight[row] * class_scale[slot] / total
                row = tree.next[row]
            continue
        members = answering_rows(tree, leaf)
        for row in members:
            total += rows.weight[row] * class_scale[rows.slot[row]]
        for row in members:
            slot = rows.slot[row]
            answer[slot] += rows.weight[row] * class_scale[slot] / total
