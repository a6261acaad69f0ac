"""RUST, reuse subtree (Sec. 4.4): splitting functions of some nodes take up new classes.

    for π of the splitting nodes n (Sec. 4.5), a parent before its children:
        f^n → f'^n, extended by the classes that are new at n       NCM: Eq. 9   SVM: Sec. 4.4.2
        examples with f'^n(x) ≠ f^n(x) pass through the subtree on the other side
        leaves left with μ or less are cut into their parents

What is below a node stays, so RUST costs one splitting function and the examples that change sides
where RTST costs a subtree.

Against the paper: new examples are passed down before nodes are drawn; several new classes are
added to a node together; a node that became a leaf by a cut may grow again. As in the paper, a node
where no class is new, or where no extension gains, stays as it is.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from everlearn.compiled import by_type, compiled
from everlearn.forest.buffers import Bytes, Ints, ints
from everlearn.forest.gain import AtNode, census
from everlearn.forest.grow import with_leaves_grown
from everlearn.forest.route import leaves_of
from everlearn.forest.settings import DEAD, NONE, Settings, Side
from everlearn.forest.tree import (
    Rows,
    Tree,
    collapse,
    leaf_weight,
    put_in,
    rows_of,
    subtree,
    with_room,
)
from everlearn.forest.update import Lesson
from everlearn.forest.update.node_sampling import nodes_to_update
from everlearn.forest.update.uls import pass_down


def taught(tree: Tree, lesson: Lesson, settings: Settings) -> Tree:
    """The tree with nodes drawn extended, and leaves reached grown."""
    touched = pass_down(tree, lesson, settings)
    new = np.zeros(len(lesson.rows.slot), np.uint8)
    new[lesson.arrived] = 1
    for node in nodes_to_update(tree, lesson, settings).tolist():
        # A node below a cut is gone.
        if tree.nodes["parent"][node] != DEAD and tree.nodes["left"][node] != NONE:
            tree = _reused(tree, node, lesson.rows, new, touched, settings)
    return with_leaves_grown(tree, lesson.rows, touched, settings)


def _reused(
    tree: Tree, node: int, rows: Rows, new: Bytes, touched: NDArray[np.bool_], settings: Settings
) -> Tree:
    """One node with its splitting function extended, and its examples where that sends them."""
    size = int(tree.nodes["size"][node])
    tree = with_room(
        tree,
        0,
        max(size, settings.members_per_node),
        max(size, settings.vectors_per_node),
    )
    index, was_right = rows_by_side(tree, node)
    sides = was_right.copy()
    if extend_node(tree, node, rows, new, index, sides, settings) <= 0.0:
        return tree
    for side, child in ((Side.LEFT, "left"), (Side.RIGHT, "right")):
        moving = index[(sides == side) & (was_right != side)][::-1].copy()
        if len(moving):
            top = int(tree.nodes[child][node])
            leaves = leaves_of(tree, settings.split, top, rows.X, moving)
            put_in(tree, moving, leaves)
            touched[leaves] = True
    cut_small_leaves(tree, rows, node, settings.smallest, touched)
    return tree


def rows_by_side(tree: Tree, node: int) -> tuple[Ints, Ints]:
    """The examples below a splitting node, and on which side of it each is."""
    nodes = subtree(tree, node)
    index, counts = rows_of(tree, nodes)
    # Nodes come left before right, and so do their examples.
    n_left = counts[: np.flatnonzero(nodes == tree.nodes["right"][node])[0]].sum()
    sides = np.full(len(index), Side.RIGHT, np.int32)
    sides[:n_left] = Side.LEFT
    return index, sides


@by_type
def extend_split(
    split: Any,
    tree: Tree,
    node: int,
    rows: Rows,
    at: AtNode,
    arriving: Ints,
    settings: Settings,
) -> float:
    """Extend the splitting function of a node by new classes; a body per kind of split.

    ``at.sides`` says on which side examples are, and is overwritten. Returns the gain. Where none
    gains, returns 0 and leaves the node as it is.
    """
    raise NotImplementedError


@compiled
def extend_node(
    tree: Tree, node: int, rows: Rows, new: Bytes, index: Ints, sides: Ints, settings: Settings
) -> float:
    """f^n → f'^n by the classes all of whose examples at the node came with this batch."""
    at = census(rows, index, sides, settings.n_slots)
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


@compiled
def cut_small_leaves(
    tree: Tree, rows: Rows, top: int, smallest: float, touched: NDArray[np.bool_]
) -> None:
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
            touched[node] = True
