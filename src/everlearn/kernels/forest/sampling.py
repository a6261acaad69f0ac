"""Which splitting nodes an update works on (Sec. 4.5)."""

import numpy as np

from everlearn.kernels.compile import compiled
from everlearn.kernels.forest.splits import entropy_term
from everlearn.kernels.forest.tree import (
    NONE,
    Floats64,
    Ints,
    Rows,
    Settings,
    Tree,
    random_unit,
    rows_below,
    subtree,
)

QUALITY = 0
SIZE = 1
UNIFORM = 2
SMALLEST_QUALITY = 1e-6


@compiled
def row_counts(tree: Tree, nodes: Ints) -> tuple[Ints, Ints]:
    """How many examples and how many nodes are below each node (indexed by node)."""
    n = tree.nodes.shape[0]
    counts, sizes = np.zeros(n, np.int32), np.zeros(n, np.int32)
    for i in range(nodes.shape[0] - 1, -1, -1):
        node = nodes[i]
        sizes[node] = 1
        if tree.nodes[node].left == NONE:
            row = tree.nodes[node].head
            while row != NONE:
                counts[node] += 1
                row = tree.links[row].next
        else:
            left, right = tree.nodes[node].left, tree.nodes[node].right
            counts[node] = counts[left] + counts[right]
            sizes[node] += sizes[left] + sizes[right]
    return counts, sizes


@compiled
def node_entropies(
    tree: Tree, rows: Rows, nodes: Ints, settings: Settings
) -> tuple[Floats64, Floats64]:
    """|S| H(S) and |S| of every node (indexed by node)."""
    n = tree.nodes.shape[0]
    counts, _ = row_counts(tree, nodes)
    members = rows_below(tree, nodes[0])
    begin = np.zeros(n, np.int64)
    begin[nodes[0]] = 0
    entropy, total = np.zeros(n), np.zeros(n)
    weights = np.zeros(settings.n_slots)
    for node in nodes:
        if tree.nodes[node].left != NONE:
            left = tree.nodes[node].left
            begin[left] = begin[node]
            begin[tree.nodes[node].right] = begin[node] + counts[left]
        here = members[begin[node] : begin[node] + counts[node]]
        for row in here:
            weights[rows.slot[row]] += rows.weight[row]
        terms = 0.0
        for row in here:
            slot = rows.slot[row]
            if weights[slot] > 0.0:
                total[node] += weights[slot]
                terms += entropy_term(weights[slot], settings.entropies)
                weights[slot] = 0.0
        entropy[node] = entropy_term(total[node], settings.entropies) - terms
    return entropy, total


@compiled
def qualities(tree: Tree, rows: Rows, settings: Settings) -> Floats64:
    """Q(n) = H(S^n) − Σ_leaves |S^l|/|S^n| H(S^l), zero where n does not split (Eq. 10)."""
    nodes = subtree(tree, 0)
    entropy, total = node_entropies(tree, rows, nodes, settings)
    below = np.zeros(tree.nodes.shape[0])
    quality = np.zeros(tree.nodes.shape[0])
    for i in range(nodes.shape[0] - 1, -1, -1):
        node = nodes[i]
        if tree.nodes[node].left == NONE:
            below[node] = entropy[node]
        else:
            below[node] = below[tree.nodes[node].left] + below[tree.nodes[node].right]
            if total[node] > 0.0:
                quality[node] = (entropy[node] - below[node]) / total[node]
    return quality


@compiled
def n_splits(tree: Tree) -> int:
    """How many splitting nodes a tree has: one less than it has leaves."""
    return subtree(tree, 0).shape[0] // 2


@compiled
def sampled_nodes(tree: Tree, rows: Rows, by: int, n_wanted: int, settings: Settings) -> Ints:
    """Splitting nodes drawn without replacement, a parent always before its children.

    p ∝ 1/Q, 1/(|T_n| + 1) or 1. The n with the smallest −ln(u)/p are such a draw.
    """
    nodes = subtree(tree, 0)
    if by == QUALITY:
        quality = qualities(tree, rows, settings)
    _, sizes = row_counts(tree, nodes)
    keys = np.full(nodes.shape[0], np.inf)
    n_nodes = 0
    for i in range(nodes.shape[0]):
        node = nodes[i]
        if tree.nodes[node].left == NONE:
            continue
        n_nodes += 1
        inverse = 1.0
        if by == QUALITY:
            inverse = max(quality[node], SMALLEST_QUALITY)
        elif by == SIZE:
            inverse = sizes[node] + 1.0
        keys[i] = -np.log(random_unit(tree.random)) * inverse
    chosen = np.argsort(keys)[: min(n_wanted, n_nodes)]
    return nodes[np.sort(chosen)]
