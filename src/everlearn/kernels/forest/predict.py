"""Asking trees."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from everlearn.kernels.compile import compiled
from everlearn.kernels.forest.route import leaves_of
from everlearn.kernels.forest.tree import (
    DEAD,
    NODES,
    NONE,
    Arrays,
    Floats32,
    Floats64,
    Ints,
    Rows,
    Tree,
    leaf_weight,
    rows_below,
    whole,
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


class LeafShares(NamedTuple):
    """The class distribution at every leaf: entries ``first[leaf]`` to ``first[leaf + 1]``."""

    first: NDArray[np.int64]
    slots: Ints
    shares: Floats64


@compiled
def leaf_shares(tree: Tree, rows: Rows, n_slots: int) -> LeafShares:
    """P_l(κ) for all leaves, in one walk over the examples."""
    n_nodes = tree.used[NODES]
    first = np.zeros(n_nodes + 1, np.int64)
    slots = np.empty(tree.links.shape[0], np.int32)
    shares = np.empty(tree.links.shape[0])
    weights = np.zeros(n_slots)
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
    return LeafShares(first, slots[:count], shares[:count])


@compiled
def ask(
    arrays: Arrays,
    vectors: Any,
    half_squares: Any,
    kind: int,
    rows: Rows,
    X: Floats32,
    answers: Floats64,
) -> None:
    """Ask a tree given in parts."""
    add_answers(whole(arrays, vectors, half_squares), kind, rows, X, answers)


@compiled
def add_answers(tree: Tree, kind: int, rows: Rows, X: Floats32, answers: Floats64) -> None:
    """answers[i, κ] += P_l(x_i)(κ), the class distribution at the leaf (Eq. 2).

    Many rows share one table of the leaves' distributions; few find theirs on their own.
    """
    leaves = leaves_of(tree, kind, 0, X, np.arange(X.shape[0]).astype(np.int32))
    if 2 * X.shape[0] > tree.used[NODES]:
        table = leaf_shares(tree, rows, answers.shape[1])
        for i in range(X.shape[0]):
            begin, end = table.first[leaves[i]], table.first[leaves[i] + 1]
            for j in range(begin, end):
                answers[i, table.slots[j]] += table.shares[j]
            if begin == end:
                add_answer_of(tree, rows, leaves[i], answers[i])
    else:
        for i in range(X.shape[0]):
            add_answer_of(tree, rows, leaves[i], answers[i])


@compiled
def add_answer_of(tree: Tree, rows: Rows, leaf: int, answer: Floats64) -> None:
    """Add the class distribution at one leaf."""
    total = leaf_weight(tree, rows, leaf)
    if total > 0.0:
        row = tree.nodes[leaf].head
        while row != NONE:
            answer[rows.slot[row]] += rows.weight[row] / total
            row = tree.links[row].next
        return
    members = answering_rows(tree, leaf)
    for row in members:
        total += rows.weight[row]
    for row in members:
        answer[rows.slot[row]] += rows.weight[row] / total
