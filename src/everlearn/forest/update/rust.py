"""RUST, reuse subtree (Sec. 4.4): splitting functions of drawn nodes are extended by new classes.

    for a share π of the splitting nodes n (Sec. 4.5), a parent before its children:
        f^n → f'^n, extended by the classes that are new at n       NCM: Eq. 9   SVM: Sec. 4.4.2
        examples with f'^n(x) ≠ f^n(x) pass through the subtree on the other side
        leaves whose weight is then μ or less are merged into their parents

The subtree below a node stays. So a drawn node costs one splitting function, and routing the
examples that change sides; in RTST it costs training its whole subtree.

Deviations from the paper: new examples are passed down before nodes are drawn; several new classes
are added to a node together; nodes are visited depth first instead of breadth first; a node that
became a leaf by a merge may grow again. As in the paper, a
node without new classes, or where no extension gains, is not changed.
"""

import numpy as np
from numpy.typing import NDArray

from everlearn.compiled import compiled, inner
from everlearn.forest.buffers import Bytes, Ints, ints
from everlearn.forest.gain import count_classes
from everlearn.forest.grow import (
    extend_split,
    has_room,
    with_leaves_grown,
    with_room_for_splits,
)
from everlearn.forest.route import leaves_of
from everlearn.forest.settings import DEAD, NONE, ForestSettings, Side
from everlearn.forest.tree import (
    Tree,
    TreeRows,
    collapse,
    insert_rows,
    leaf_weight,
    rows_of,
    subtree,
)
from everlearn.forest.update.batch import TreeBatch
from everlearn.forest.update.node_sampling import nodes_to_update
from everlearn.forest.update.uls import pass_down


def taught(tree: Tree, batch: TreeBatch, settings: ForestSettings) -> Tree:
    """The tree with drawn nodes extended, and reached leaves grown."""
    touched = pass_down(tree, batch, settings)
    new = np.zeros(len(batch.rows.slot), np.uint8)
    new[batch.arrived] = 1
    nodes = nodes_to_update(tree, batch, settings)
    # Extended nodes keep their members, which may be more than a node grown now would have.
    for_extension = settings._replace(
        members_per_node=int(tree.nodes["size"][nodes].max(initial=settings.members_per_node)),
        vectors_per_node=int(tree.nodes["n_vectors"][nodes].max(initial=settings.vectors_per_node)),
    )
    while len(nodes):
        n_done = reuse_within_room(tree, nodes, batch.rows, new, touched, for_extension)
        nodes = nodes[n_done:]
        if len(nodes):
            tree = with_room_for_splits(tree, for_extension)
    return with_leaves_grown(tree, batch.rows, touched, settings)


@compiled
def reuse_within_room(
    tree: Tree,
    nodes: Ints,
    rows: TreeRows,
    new: Bytes,
    touched: NDArray[np.bool_],
    settings: ForestSettings,
) -> int:
    """Extend nodes, one after another, while there is capacity; returns how many were processed."""
    for i in range(nodes.shape[0]):
        if not has_room(tree, settings):
            return i
        # A node below a cut no longer exists.
        if tree.nodes[nodes[i]].parent != DEAD and tree.nodes[nodes[i]].left != NONE:
            reuse(tree, nodes[i], rows, new, touched, settings)
    return nodes.shape[0]


@inner
def reuse(
    tree: Tree,
    node: int,
    rows: TreeRows,
    new: Bytes,
    touched: NDArray[np.bool_],
    settings: ForestSettings,
) -> None:
    """Extend the splitting function of one node, and move its examples accordingly."""
    index, n_left = rows_by_side(tree, node)
    sides = ints(index.shape[0], 0)
    for i in range(index.shape[0]):
        sides[i] = Side.LEFT if i < n_left else Side.RIGHT
    if extend_node(tree, node, rows, new, index, sides, settings) <= 0.0:
        return
    left, right = tree.nodes[node].left, tree.nodes[node].right
    move(tree, left, rows, index[n_left:], sides[n_left:], Side.LEFT, touched, settings)
    move(tree, right, rows, index[:n_left], sides[:n_left], Side.RIGHT, touched, settings)
    cut_small_leaves(tree, rows, node, settings.smallest, touched)


@inner
def rows_by_side(tree: Tree, node: int) -> tuple[Ints, int]:
    """The examples below a splitting node, left ones first, and the number of left ones."""
    nodes = subtree(tree, node)
    index, counts = rows_of(tree, nodes)
    n_left, i = 0, 0
    # Nodes come left before right, and so do their examples.
    while nodes[i] != tree.nodes[node].right:
        n_left += counts[i]
        i += 1
    return index, n_left


@inner
def move(
    tree: Tree,
    top: int,
    rows: TreeRows,
    index: Ints,
    sides: Ints,
    side: int,
    touched: NDArray[np.bool_],
    settings: ForestSettings,
) -> None:
    """Pass the examples that changed sides through the subtree on the other side."""
    moving = ints(index.shape[0], NONE)
    count = 0
    for i in range(index.shape[0] - 1, -1, -1):
        if sides[i] == side:
            moving[count] = index[i]
            count += 1
    moving = moving[:count]
    leaves = leaves_of(tree, settings.split, top, rows.X, moving)
    insert_rows(tree, moving, leaves)
    for i in range(count):
        touched[leaves[i]] = True


@inner
def extend_node(
    tree: Tree,
    node: int,
    rows: TreeRows,
    new: Bytes,
    index: Ints,
    sides: Ints,
    settings: ForestSettings,
) -> float:
    """f^n → f'^n by the classes all of whose examples at the node came with this batch."""
    at = count_classes(rows, index, sides, settings.n_slots)
    known, arriving = ints(at.slots.shape[0], 0), ints(at.slots.shape[0], NONE)
    for i in range(index.shape[0]):
        if not new[index[i]]:
            known[at.position[rows.slot[index[i]]]] = 1
    count = 0
    for i in range(at.slots.shape[0]):
        if not known[i]:
            arriving[count] = at.slots[i]
            count += 1
    if count == 0:
        return 0.0
    return extend_split(settings.split, tree, node, rows, at, arriving[:count], settings)


@inner
def cut_small_leaves(
    tree: Tree, rows: TreeRows, top: int, smallest: float, touched: NDArray[np.bool_]
) -> None:
    """Merge leaves at or below ``top`` with too little weight into their parents, repeatedly.

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
            touched[node] = True
