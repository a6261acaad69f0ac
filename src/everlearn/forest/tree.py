"""A tree as flat arrays over stored examples, with copies, links and cuts.

Node 0 is the root; a node is a leaf if its left child is NONE. A splitting node owns ``size``
members from ``member`` on, each a class with its side, and vectors from ``vector`` on: an NCM node
one centroid c_κ per member with ½‖c_κ‖², a hyperplane node one w with a threshold. A leaf's
examples are a doubly linked list over the rows, which gives the distribution P_l(κ).

A tree is never changed while it is read: teaching works on a copy. The copy shares members and
vectors, which are most of a tree; they are only appended to, so the part that a reader's ``used``
counts does not change. A tree that two forests will teach needs an :func:`independent_copy`.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from everlearn.compiled import compiled, inner
from everlearn.forest.buffers import Floats32, Floats64, Ints, ints
from everlearn.forest.settings import DEAD, NONE, ROOT

Records = NDArray[Any]

NODE = np.dtype(
    [
        ("left", np.int32),
        ("right", np.int32),
        ("parent", np.int32),
        ("feature", np.int32),
        ("member", np.int32),
        ("size", np.int32),
        ("head", np.int32),
        ("threshold", np.float32),
        ("limit", np.float32),
        ("vector", np.int32),
        ("n_vectors", np.int32),
    ]
)
MEMBER = np.dtype([("slot", np.int32), ("side", np.uint8)])
LINK = np.dtype([("leaf", np.int32), ("next", np.int32), ("previous", np.int32)])
USED = np.dtype([("nodes", np.int64), ("members", np.int64), ("vectors", np.int64)])
# A run of examples at a node that they have reached on their way down.
SEGMENT = np.dtype([("node", np.int32), ("begin", np.int64), ("end", np.int64)])
# Capacity of vectors, as a multiple of those in use.
VECTOR_CAPACITY = 2
LEAF = (NONE, NONE, NONE, NONE, NONE, 0, NONE, 0.0, 0.0, NONE, 0)


class TreeRows(NamedTuple):
    """Stored examples. A row whose slot is NONE holds no example."""

    X: Floats32
    slot: Ints
    weight: Floats64


class Tree(NamedTuple):
    """One tree.

    Attributes
    ----------
    nodes : NODE records
        ``limit`` is the weight up to which a node need not be grown again.
    members : MEMBER records
    vectors, half_square : float32 arrays of shape (capacity, n_features) and (capacity,)
    links : LINK records, one per row
    used : one USED record
        How much of the arrays is in use.
    random : uint64 array of one number
        The state of the tree's random number generator.
    """

    nodes: Records
    members: Records
    vectors: Floats32
    half_square: Floats32
    links: Records
    used: Records
    random: NDArray[np.uint64]

    def members_of(self, node: int) -> Records:
        """The classes that decide at a node, and their sides."""
        first = self.nodes["member"][node]
        return self.members[first : first + self.nodes["size"][node]]

    def vectors_of(self, node: int) -> Floats32:
        """The centroids of a node, or its hyperplane."""
        first = self.nodes["vector"][node]
        return self.vectors[first : first + self.nodes["n_vectors"][node]]


# Creation, copies, capacity.


def empty_tree(n_features: int, seed: np.uint64) -> Tree:
    """A tree that is a root without examples."""
    nodes = np.array([LEAF], NODE)
    return Tree(
        nodes,
        np.empty(0, MEMBER),
        np.empty((0, n_features), np.float32),
        np.empty(0, np.float32),
        np.empty(0, LINK),
        np.array([(1, 0, 0)], USED),
        np.array([seed], np.uint64),
    )


def own_copy(tree: Tree, n_rows: int) -> Tree:
    """A copy to be taught, with links for this many rows; the original is not affected."""
    links = lengthened(tree.links, len(tree.links), n_rows)
    links["leaf"][len(tree.links) :] = NONE
    return tree._replace(
        nodes=lengthened(tree.nodes, len(tree.nodes), len(tree.nodes)),
        links=links,
        used=tree.used.copy(),
        random=tree.random.copy(),
    )


def independent_copy(tree: Tree) -> Tree:
    """A copy that shares no array with the original."""
    return Tree._make(array.copy() for array in tree)


def with_room(tree: Tree, n_nodes: int, n_members: int, n_vectors: int) -> Tree:
    """The tree with capacity for this many more nodes, members and vectors."""
    nodes, members, vectors = tree.used[0].tolist()
    tree = tree._replace(
        nodes=_longer(tree.nodes, nodes, n_nodes), members=_longer(tree.members, members, n_members)
    )
    return (
        tree if vectors + n_vectors <= len(tree.vectors) else _with_vectors_moved(tree, n_vectors)
    )


def _with_vectors_moved(tree: Tree, n_more: int) -> Tree:
    """The tree with its vectors moved to a larger array.

    They are most of a tree, so vectors that no node uses any more are dropped.
    """
    nodes = tree.nodes[: tree.used["nodes"][0]]
    live = np.flatnonzero(nodes["parent"] != DEAD)
    kept, nodes["vector"][live] = _run_indices(nodes["vector"][live], nodes["n_vectors"][live])
    tree.used["vectors"] = len(kept)
    length = max(len(kept) + n_more, VECTOR_CAPACITY * len(kept))
    return tree._replace(
        vectors=_moved(tree.vectors, kept, length),
        half_square=_moved(tree.half_square, kept, length),
    )


def _moved(array: NDArray[Any], indices: NDArray[np.intp], length: int) -> NDArray[Any]:
    """Some rows of an array, with spare capacity, which costs nothing until it is written to."""
    moved = np.empty((length, *array.shape[1:]), array.dtype)
    np.take(array, indices, axis=0, out=moved[: len(indices)], mode="clip")
    return moved


def _longer(array: NDArray[Any], used: int, n_more: int) -> NDArray[Any]:
    if used + n_more <= len(array):
        return array
    # By a factor, so that copying stays in proportion to the size.
    return lengthened(array, used, max(used + n_more, used + used // 2))


def lengthened(array: NDArray[Any], used: int, length: int) -> NDArray[Any]:
    """A copy of the first rows, with spare capacity behind them.

    As bytes: numpy copies records field by field, which takes ten times as long.
    """
    copy = np.empty((length, *array.shape[1:]), array.dtype)
    size = array[:used].nbytes
    copy.reshape(-1).view(np.uint8)[:size] = array.reshape(-1).view(np.uint8)[:size]
    return copy


def compacted(tree: Tree, marks: NDArray[np.bool_]) -> tuple[Tree, NDArray[np.bool_]]:
    """The tree without cut nodes, if those are half of it, and the marks of its nodes.

    Nodes are then in depth-first order.
    """
    used_nodes, used_members, used_vectors = tree.used[0].tolist()
    nodes = tree.nodes[:used_nodes]
    kept = nodes["parent"] != DEAD
    n_members, n_vectors = int(nodes["size"] @ kept), int(nodes["n_vectors"] @ kept)
    is_wasteful = (
        used_nodes > 2 * np.count_nonzero(kept) + 16
        or used_members > 2 * n_members + 64
        or used_vectors > 2 * n_vectors + 64
    )
    if not is_wasteful:
        return tree, marks
    live = subtree(tree, ROOT)
    nodes = tree.nodes[live]
    new_index = np.full(used_nodes + 1, NONE, np.int32)  # the last entry is for NONE itself
    new_index[live] = np.arange(len(live))
    for name in ("left", "right", "parent"):
        nodes[name] = new_index[nodes[name]]
    links = tree.links.copy()
    links["leaf"] = new_index[links["leaf"]]
    members, nodes["member"] = _run_indices(nodes["member"], nodes["size"])
    vectors, nodes["vector"] = _run_indices(nodes["vector"], nodes["n_vectors"])
    return Tree(
        nodes,
        tree.members[members],
        _moved(tree.vectors, vectors, VECTOR_CAPACITY * n_vectors),
        _moved(tree.half_square, vectors, VECTOR_CAPACITY * n_vectors),
        links,
        np.array([(len(live), n_members, n_vectors)], USED),
        tree.random,
    ), marks[live]


def _run_indices(first: Ints, count: Ints) -> tuple[NDArray[np.intp], Ints]:
    """The indices of concatenated runs, and the new beginning of each."""
    begin = np.cumsum(count) - count
    indices = np.repeat(first - begin, count) + np.arange(count.sum())
    return indices, begin.astype(np.int32)


# Links between leaves and rows.


@inner
def link(tree: Tree, row: int, leaf: int) -> None:
    """Put an example into a leaf, first in its list."""
    head = tree.nodes[leaf].head
    tree.links[row].leaf = leaf
    tree.links[row].next = head
    tree.links[row].previous = NONE
    if head != NONE:
        tree.links[head].previous = row
    tree.nodes[leaf].head = row


@inner
def unlink(tree: Tree, row: int) -> None:
    """Remove an example from its leaf, if it is in one."""
    leaf = tree.links[row].leaf
    if leaf == NONE:
        return
    before, after = tree.links[row].previous, tree.links[row].next
    if before == NONE:
        tree.nodes[leaf].head = after
    else:
        tree.links[before].next = after
    if after != NONE:
        tree.links[after].previous = before
    tree.links[row].leaf = NONE


@compiled
def insert_rows(tree: Tree, index: Ints, leaves: Ints) -> None:
    """Move examples into leaves, at the front of the leaves' lists and in the given order."""
    for i in range(index.shape[0] - 1, -1, -1):
        unlink(tree, index[i])
        link(tree, index[i], leaves[i])


@compiled
def remove_rows(tree: Tree, index: Ints) -> None:
    """Remove examples from their leaves; the structure stays."""
    for i in range(index.shape[0]):
        unlink(tree, index[i])


@inner
def leaf_weight(tree: Tree, rows: TreeRows, leaf: int) -> float:
    """The weight of the examples in a leaf."""
    total = 0.0
    row = tree.nodes[leaf].head
    while row != NONE:
        total += rows.weight[row]
        row = tree.links[row].next
    return total


# Subtrees.


@compiled
def subtree(tree: Tree, top: int) -> Ints:
    """The nodes at and below ``top``, each before its children and left before right."""
    n = tree.used[0].nodes
    nodes, stack = ints(n, NONE), ints(n + 1, NONE)
    stack[0] = top
    depth, count = 1, 0
    while depth:
        depth -= 1
        node = stack[depth]
        nodes[count] = node
        count += 1
        if tree.nodes[node].left != NONE:
            stack[depth] = tree.nodes[node].right
            stack[depth + 1] = tree.nodes[node].left
            depth += 2
    return nodes[:count]


@compiled
def rows_of(tree: Tree, nodes: Ints) -> tuple[Ints, Ints]:
    """The examples in some leaves, leaf by leaf, and how many each has; other nodes have none."""
    counts = ints(nodes.shape[0], 0)
    total = 0
    for i in range(nodes.shape[0]):
        row = tree.nodes[nodes[i]].head
        while row != NONE:
            counts[i] += 1
            row = tree.links[row].next
        total += counts[i]
    found = ints(total, NONE)
    total = 0
    for i in range(nodes.shape[0]):
        row = tree.nodes[nodes[i]].head
        while row != NONE:
            found[total] = row
            total += 1
            row = tree.links[row].next
    return found, counts


def rows_below(tree: Tree, top: int) -> Ints:
    """The examples in the leaves of a subtree, leaf by leaf from left to right."""
    return rows_of(tree, subtree(tree, top))[0]


@compiled
def collapse(tree: Tree, top: int) -> None:
    """Cut everything below a node: it becomes a leaf with all the examples."""
    nodes = subtree(tree, top)
    found, _ = rows_of(tree, nodes)
    for i in range(1, nodes.shape[0]):
        tree.nodes[nodes[i]].parent = DEAD
        tree.nodes[nodes[i]].head = NONE
    make_leaf(tree, top, tree.nodes[top].parent)
    # From the last to the first, so that the list keeps their order.
    for i in range(found.shape[0] - 1, -1, -1):
        link(tree, found[i], top)


@inner
def make_leaf(tree: Tree, node: int, parent: int) -> None:
    """Make a node a leaf without examples."""
    tree.nodes[node].left = NONE
    tree.nodes[node].right = NONE
    tree.nodes[node].parent = parent
    tree.nodes[node].feature = NONE
    tree.nodes[node].member = NONE
    tree.nodes[node].size = 0
    tree.nodes[node].head = NONE
    tree.nodes[node].threshold = 0.0
    tree.nodes[node].limit = 0.0
    tree.nodes[node].vector = NONE
    tree.nodes[node].n_vectors = 0
