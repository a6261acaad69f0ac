"""Class distributions at the leaves, averaged over the trees.

    κ*(x) = argmax_κ 1/T Σ_t P^t_l(x)(κ)                                                     (Eq. 2)

κ is a slot, T the number of trees, and P^t_l(x) the shares of the classes in the leaf l of tree t
that x falls into, by weight. A tree costs one splitting function per level for each row.

Deviation from the paper: if all examples of a leaf were forgotten, the nearest ancestor that has
any gives the distribution.
"""

from typing import Any

import numpy as np

from everlearn.compiled import compiled, inner
from everlearn.forest.buffers import Floats32, Floats64, Ints, ints, zeros
from everlearn.forest.route import leaves_of
from everlearn.forest.settings import DEAD, NONE, ROOT
from everlearn.forest.tree import Tree, TreeRows, leaf_weight, rows_below


def add_answers(tree: Tree, split: Any, rows: TreeRows, X: Floats32, answers: Floats64) -> None:
    """answers[i, κ] += P_l(x_i)(κ)."""
    if not add_leaves(tree, split, rows, X, answers):
        return
    leaves = leaves_of(tree, split, ROOT, X, np.arange(len(X), dtype=np.int32))
    for i in np.flatnonzero(tree.nodes["head"][leaves] == NONE):
        add_nearest_ancestor(tree, rows, leaves[i], answers[i])


@compiled
def add_leaves(tree: Tree, split: Any, rows: TreeRows, X: Floats32, answers: Floats64) -> bool:
    """Add the distribution at the leaf of each row; returns whether a leaf was empty.

    For many rows the distributions of all leaves are computed once, in a table; for few rows, those
    of their leaves directly.
    """
    n = X.shape[0]
    index = ints(n, 0)
    for i in range(n):
        index[i] = i
    leaves = leaves_of(tree, split, ROOT, X, index)
    if 2 * n > tree.used[0].nodes:
        add_from_table(tree, rows, leaves, answers)
    else:
        for i in range(n):
            total = leaf_weight(tree, rows, leaves[i])
            row = tree.nodes[leaves[i]].head
            while row != NONE:
                answers[i, rows.slot[row]] += rows.weight[row] / total
                row = tree.links[row].next
    n_empty = 0
    for i in range(n):
        n_empty += tree.nodes[leaves[i]].head == NONE
    return n_empty > 0


@inner
def add_from_table(tree: Tree, rows: TreeRows, leaves: Ints, answers: Floats64) -> None:
    """Add the distributions of many leaves, each computed once.

    The distribution at a leaf is entries ``first[leaf]`` to ``first[leaf + 1]`` of the table.
    """
    n_nodes = tree.used[0].nodes
    first, slots = ints(n_nodes + 1, 0), ints(tree.links.shape[0], NONE)
    shares, weights = zeros(tree.links.shape[0]), zeros(answers.shape[1])
    count = 0
    for node in range(n_nodes):
        first[node] = count
        if tree.nodes[node].parent == DEAD:
            continue
        total = 0.0
        row = tree.nodes[node].head
        while row != NONE:
            slot = rows.slot[row]
            if weights[slot] == 0.0:
                slots[count] = slot
                count += 1
            weights[slot] += rows.weight[row]
            total += rows.weight[row]
            row = tree.links[row].next
        for i in range(first[node], count):
            shares[i] = weights[slots[i]] / total
            weights[slots[i]] = 0.0
    first[n_nodes] = count
    for i in range(leaves.shape[0]):
        for j in range(first[leaves[i]], first[leaves[i] + 1]):
            answers[i, slots[j]] += shares[j]


def add_nearest_ancestor(tree: Tree, rows: TreeRows, leaf: int, answer: Floats64) -> None:
    """Add the class distribution of the nearest ancestor that has examples, if there is one."""
    node = int(leaf)
    found = rows_below(tree, node)
    while not len(found) and tree.nodes["parent"][node] != NONE:
        node = int(tree.nodes["parent"][node])
        found = rows_below(tree, node)
    weights = rows.weight[found]
    np.add.at(answer, rows.slot[found], weights / weights.sum())
