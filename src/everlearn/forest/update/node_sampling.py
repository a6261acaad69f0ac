"""Which splitting nodes RTST and RUST update (Sec. 4.5).

    uniform   p(n) = 1/N
    size      p(n) ∝ 1/(|T_n| + 1)
    quality   p(n) ∝ 1/Q(n),  Q(n) = H(S^n) − Σ_leaves |S^l|/|S^n| H(S^l)                   (Eq. 10)

⌈πN⌉ nodes are drawn without replacement: those with the smallest −ln(u)/p(n), u uniform. Cost:
O(examples · depth) for quality, O(nodes) for the others.

Deviation from the paper: a call without a new class draws in proportion to the size of its batch,
its ``intensity``, with the expected number rounded up or down at random.
"""

import math

import numpy as np

from everlearn.compiled import compiled
from everlearn.forest.buffers import Floats64, Ints, ints, zeros
from everlearn.forest.gain import entropy_term
from everlearn.forest.randomness import random_units
from everlearn.forest.settings import DEAD, NONE, ROOT, ForestSettings, NodeSampling
from everlearn.forest.tree import Tree, TreeRows, rows_of, subtree
from everlearn.forest.update.batch import TreeBatch

SMALLEST_QUALITY = 1e-6


def nodes_to_update(tree: Tree, batch: TreeBatch, settings: ForestSettings) -> Ints:
    """The splitting nodes to update, a parent always before its children."""
    n_nodes = np.count_nonzero(tree.nodes["parent"][: tree.used["nodes"][0]] != DEAD)
    n_splits = n_nodes // 2  # one less than there are leaves
    wanted = settings.update_fraction * n_splits * batch.intensity
    n_wanted = math.ceil(wanted)
    if batch.intensity < 1.0:
        n_wanted = int(wanted) + int(random_units(tree.random, 1)[0] < wanted % 1.0)
    if not n_wanted:
        return np.empty(0, np.int32)
    return drawn_nodes(tree, batch.rows, n_wanted, settings)


def drawn_nodes(tree: Tree, rows: TreeRows, n_wanted: int, settings: ForestSettings) -> Ints:
    """Splitting nodes drawn without replacement, a parent always before its children."""
    nodes = subtree(tree, ROOT)
    splits = tree.nodes["left"][nodes] != NONE
    splitting = nodes[splits]
    inverse = np.ones(len(splitting))
    if settings.node_sampling == NodeSampling.QUALITY:
        inverse = np.maximum(qualities(tree, rows, nodes, settings)[splits], SMALLEST_QUALITY)
    elif settings.node_sampling == NodeSampling.SIZE:
        inverse = subtree_sizes(tree, nodes)[splits] + 1.0
    keys = -np.log(random_units(tree.random, len(splitting))) * inverse
    return splitting[np.sort(np.argsort(keys, kind="stable")[:n_wanted])]


@compiled
def subtree_sizes(tree: Tree, nodes: Ints) -> Ints:
    """The number of nodes at and below each node; ``nodes`` is the whole tree, parents first."""
    by_node, sizes = ints(tree.used[0].nodes, 0), ints(nodes.shape[0], 1)
    for i in range(nodes.shape[0] - 1, -1, -1):
        node = nodes[i]
        if tree.nodes[node].left != NONE:
            sizes[i] += by_node[tree.nodes[node].left] + by_node[tree.nodes[node].right]
        by_node[node] = sizes[i]
    return sizes


@compiled
def qualities(tree: Tree, rows: TreeRows, nodes: Ints, settings: ForestSettings) -> Floats64:
    """Q(n) of each node (Eq. 10), zero for leaves; ``nodes`` is the whole tree, depth first.

    With |S| H(S) = f(Σ n) − Σ f(n), an example is counted once at each node above it.
    """
    n = tree.used[0].nodes
    members, counts = rows_of(tree, nodes)
    end = 0
    # In this order the examples below a node are consecutive in members.
    ends, last = ints(nodes.shape[0], 0), ints(n, 0)
    for i in range(nodes.shape[0]):
        end += counts[i]
        ends[i] = end
    quality, weights, below = zeros(nodes.shape[0]), zeros(settings.n_slots), zeros(n)
    for i in range(nodes.shape[0] - 1, -1, -1):
        node = nodes[i]
        left, right = tree.nodes[node].left, tree.nodes[node].right
        last[node] = ends[i] if left == NONE else last[right]
        begin = ends[i] - counts[i]
        for j in range(begin, last[node]):
            weights[rows.slot[members[j]]] += rows.weight[members[j]]
        terms, total = 0.0, 0.0
        for j in range(begin, last[node]):
            slot = rows.slot[members[j]]
            if weights[slot] > 0.0:
                total += weights[slot]
                terms += entropy_term(weights[slot], settings.entropies)
                weights[slot] = 0.0
        entropy = entropy_term(total, settings.entropies) - terms
        if left == NONE:
            below[node] = entropy
        else:
            below[node] = below[left] + below[right]
            if total > 0.0:
                quality[i] = (entropy - below[node]) / total
    return quality
