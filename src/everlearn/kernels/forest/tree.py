"""A tree as flat arrays, the examples its leaves refer to, and its life: grow, cut, copy."""

from typing import Any, NamedTuple

import numpy as np
from numba import float32
from numba.typed import List
from numpy.typing import NDArray

from everlearn.kernels.compile import compiled

Floats32 = NDArray[np.float32]
Floats64 = NDArray[np.float64]
Ints = NDArray[np.int32]
Bytes = NDArray[np.uint8]
Records = NDArray[Any]

NONE = -1
DEAD = -2
LEFT = 0
RIGHT = 1
# Kinds of splitting function.
NCM = 0
SVM = 1
AXIS = 2
LINEAR = 3
# Positions in Tree.used.
NODES = 0
MEMBERS = 1
# What the lists of a tree hold.
MATRIX = float32[:, ::1]
COLUMN = float32[::1]


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
    ]
)
LINK = np.dtype([("leaf", np.int32), ("next", np.int32), ("previous", np.int32)])


class Rows(NamedTuple):
    """Stored examples. A row whose slot is NONE holds no example."""

    X: Floats32
    slot: Ints
    weight: Floats64


class Tree(NamedTuple):
    """One tree. Node 0 is the root; a node is a leaf when its left child is NONE.

    The members of a splitting node are pairs of a class and a side. An NCM node has one vector per
    member, its centroid, and goes to the side of the nearest; an SVM or linear node has one vector,
    and goes right where x·w > threshold; an axis node has none, and compares ``feature``. The
    vectors of each node, and half their squares, are arrays of their own that are never changed:
    trees that have a node in common share them.
    A leaf's examples are a doubly linked list over the rows. ``limit`` is the weight up to which a
    node is as good as when it was grown.
    """

    nodes: Records
    member_slot: Ints
    member_side: Bytes
    vectors: Any
    half_squares: Any
    links: Records
    used: NDArray[np.int64]
    random: NDArray[np.uint64]


class Arrays(NamedTuple):
    """A tree but for its lists. Calls find their compiled code faster for a tree in parts."""

    nodes: Records
    member_slot: Ints
    member_side: Bytes
    links: Records
    used: NDArray[np.int64]
    random: NDArray[np.uint64]


Parts = tuple[Arrays, Any, Any]


def parts_of(tree: Tree) -> Parts:
    """A tree in parts: the arrays, and the two lists."""
    arrays = Arrays(
        tree.nodes, tree.member_slot, tree.member_side, tree.links, tree.used, tree.random
    )
    return arrays, tree.vectors, tree.half_squares


class Settings(NamedTuple):
    """What growing needs to know."""

    kind: int
    n_slots: int
    subset: int
    n_candidates: int
    smallest: float
    regularisation: float
    epochs: int
    patience: float
    spread: float
    leaf_patience: float
    entropies: Floats64


@compiled
def whole(arrays: Arrays, vectors: Any, half_squares: Any) -> Tree:
    """The tree that :func:`parts_of` took apart."""
    return Tree(
        arrays.nodes,
        arrays.member_slot,
        arrays.member_side,
        vectors,
        half_squares,
        arrays.links,
        arrays.used,
        arrays.random,
    )


@compiled
def next_random(random: NDArray[np.uint64]) -> Any:
    """The next 62-bit number of a splitmix64 generator."""
    random[0] += np.uint64(0x9E3779B97F4A7C15)
    z = random[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.int64((z ^ (z >> np.uint64(31))) >> np.uint64(2))


@compiled
def random_below(random: NDArray[np.uint64], n: int) -> Any:
    """A whole number in [0, n)."""
    return next_random(random) % n


@compiled
def random_unit(random: NDArray[np.uint64]) -> Any:
    """A number in (0, 1)."""
    return (next_random(random) + 0.5) / 4611686018427387904.0


@compiled
def longer(array: Any, length: int) -> Any:
    """A copy with room for ``length`` entries."""
    grown = np.empty((length,) + array.shape[1:], array.dtype)  # noqa: RUF005
    grown[: array.shape[0]] = array
    return grown


@compiled
def with_room(tree: Tree, n_nodes: int, n_members: int) -> Tree:
    """The tree with room for so many more nodes and members."""
    nodes, member_slot, member_side = tree.nodes, tree.member_slot, tree.member_side
    needed = tree.used[NODES] + n_nodes
    if needed > nodes.shape[0]:
        nodes = longer(nodes, max(needed, 2 * nodes.shape[0]))
    needed = tree.used[MEMBERS] + n_members
    if needed > member_slot.shape[0]:
        capacity = max(needed, 2 * member_slot.shape[0])
        member_slot, member_side = longer(member_slot, capacity), longer(member_side, capacity)
    return Tree(
        nodes,
        member_slot,
        member_side,
        tree.vectors,
        tree.half_squares,
        tree.links,
        tree.used,
        tree.random,
    )


@compiled
def add_leaf(tree: Tree, parent: int) -> int:
    """A new, empty leaf; there must be room for it."""
    node = tree.used[NODES]
    tree.used[NODES] += 1
    tree.nodes[node].parent = parent
    tree.vectors.append(np.empty((0, 0), np.float32))
    tree.half_squares.append(np.empty(0, np.float32))
    make_leaf(tree, node)
    return node


@compiled
def make_leaf(tree: Tree, node: int) -> None:
    tree.nodes[node].left = NONE
    tree.nodes[node].right = NONE
    tree.nodes[node].feature = NONE
    tree.nodes[node].member = NONE
    tree.nodes[node].size = 0
    tree.nodes[node].threshold = 0.0
    tree.nodes[node].limit = 0.0
    tree.nodes[node].head = NONE
    drop_vectors(tree, node)


@compiled
def drop_vectors(tree: Tree, node: int) -> None:
    tree.vectors[node] = np.empty((0, 0), np.float32)
    tree.half_squares[node] = np.empty(0, np.float32)


@compiled
def link(tree: Tree, row: int, leaf: int) -> None:
    """Put an example into a leaf."""
    head = tree.nodes[leaf].head
    tree.links[row].leaf = leaf
    tree.links[row].next = head
    tree.links[row].previous = NONE
    if head != NONE:
        tree.links[head].previous = row
    tree.nodes[leaf].head = row


@compiled
def unlink(tree: Tree, row: int) -> None:
    """Take an example out of its leaf."""
    leaf = tree.links[row].leaf
    before, after = tree.links[row].previous, tree.links[row].next
    if before == NONE:
        tree.nodes[leaf].head = after
    else:
        tree.links[before].next = after
    if after != NONE:
        tree.links[after].previous = before
    tree.links[row].leaf = NONE


@compiled
def leaf_weight(tree: Tree, rows: Rows, leaf: int) -> float:
    """The weight of the examples in a leaf."""
    total = 0.0
    row = tree.nodes[leaf].head
    while row != NONE:
        total += rows.weight[row]
        row = tree.links[row].next
    return total


@compiled
def subtree(tree: Tree, top: int) -> Ints:
    """The nodes at and below ``top``, each before its children and left before right."""
    nodes = np.empty(tree.used[NODES], np.int32)
    stack = np.empty(tree.used[NODES] + 1, np.int32)
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
def rows_below(tree: Tree, top: int) -> Ints:
    """The examples in the leaves of a subtree, leaf by leaf from left to right."""
    nodes = subtree(tree, top)
    count = 0
    for node in nodes:
        row = tree.nodes[node].head
        while row != NONE:
            count += 1
            row = tree.links[row].next
    found = np.empty(count, np.int32)
    count = 0
    for node in nodes:
        row = tree.nodes[node].head
        while row != NONE:
            found[count] = row
            count += 1
            row = tree.links[row].next
    return found


@compiled
def collapse(tree: Tree, top: int) -> None:
    """Cut everything below a node: it becomes a leaf with all the examples."""
    members = rows_below(tree, top)
    for node in subtree(tree, top)[1:]:
        tree.nodes[node].parent = DEAD
        drop_vectors(tree, node)
    make_leaf(tree, top)
    # From the last to the first, so that the list keeps their order.
    for index in range(members.shape[0] - 1, -1, -1):
        link(tree, members[index], top)


@compiled
def compacted(tree: Tree, marks: Bytes) -> tuple[Tree, Bytes]:
    """The tree without what was cut, once that is half of it, and the marks of its nodes.

    Nodes are then in depth-first order.
    """
    nodes = subtree(tree, 0)
    n, n_members = nodes.shape[0], 0
    for node in nodes:
        n_members += tree.nodes[node].size
    if tree.used[NODES] <= 2 * n + 16 and tree.used[MEMBERS] <= 2 * n_members + 64:
        return tree, marks
    place = np.full(tree.used[NODES], NONE, np.int32)
    for i in range(n):
        place[nodes[i]] = i
    new = empty_tree(tree.used[NODES], tree.used[MEMBERS], tree.links.shape[0])
    new.links[:] = tree.links
    new.random[:] = tree.random
    for row in range(tree.links.shape[0]):
        new.links[row].leaf = NONE if tree.links[row].leaf == NONE else place[tree.links[row].leaf]
    for i in range(n):
        node = nodes[i]
        here = tree.nodes[node]
        add_leaf(new, NONE if here.parent == NONE else place[here.parent])
        new.vectors[i] = tree.vectors[node]
        new.half_squares[i] = tree.half_squares[node]
        new.nodes[i].head = here.head
        new.nodes[i].limit = here.limit
        if here.left == NONE:
            continue
        new.nodes[i].left = place[here.left]
        new.nodes[i].right = place[here.right]
        new.nodes[i].threshold = here.threshold
        new.nodes[i].feature = here.feature
        new.nodes[i].size = here.size
        member = new.used[MEMBERS]
        new.nodes[i].member = member
        last = here.member + here.size
        new.member_slot[member : member + here.size] = tree.member_slot[here.member : last]
        new.member_side[member : member + here.size] = tree.member_side[here.member : last]
        new.used[MEMBERS] += here.size
    return new, marks[nodes]


@compiled
def empty_tree(n_nodes: int, n_members: int, n_rows: int) -> Tree:
    """A tree with no node yet, and room for so many."""
    links = np.empty(n_rows, LINK)
    for row in range(n_rows):
        links[row].leaf = NONE
    return Tree(
        np.empty(n_nodes, NODE),
        np.empty(n_members, np.int32),
        np.empty(n_members, np.uint8),
        List.empty_list(MATRIX),
        List.empty_list(COLUMN),
        links,
        np.zeros(2, np.int64),
        np.zeros(1, np.uint64),
    )


@compiled
def own_copy(tree: Tree, n_rows: int) -> Tree:
    """A tree that can be changed without a reader of this one noticing, for so many rows."""
    links = np.empty(n_rows, LINK)
    links[: tree.links.shape[0]] = tree.links
    for row in range(tree.links.shape[0], n_rows):
        links[row].leaf = NONE
    return Tree(
        tree.nodes.copy(),
        tree.member_slot.copy(),
        tree.member_side.copy(),
        tree.vectors.copy(),
        tree.half_squares.copy(),
        links,
        tree.used.copy(),
        tree.random.copy(),
    )


@compiled
def gathered_vectors(tree: Tree, n_features: int) -> tuple[Floats32, Floats32, Ints]:
    """The vectors of all nodes one after another, half their squares, and how many each has."""
    counts = np.zeros(tree.used[NODES], np.int32)
    for node in range(tree.used[NODES]):
        counts[node] = tree.vectors[node].shape[0]
    vectors = np.empty((counts.sum(), n_features), np.float32)
    half_squares = np.empty(counts.sum(), np.float32)
    begin = 0
    for node in range(tree.used[NODES]):
        end = begin + counts[node]
        if end > begin:
            vectors[begin:end] = tree.vectors[node]
            half_squares[begin:end] = tree.half_squares[node]
        begin = end
    return vectors, half_squares, counts


@compiled
def scattered_vectors(vectors: Floats32, half_squares: Floats32, counts: Ints) -> tuple[Any, Any]:
    """What :func:`gathered_vectors` put together, as the lists of a tree."""
    by_node, squares_by_node = List.empty_list(MATRIX), List.empty_list(COLUMN)
    begin = 0
    for count in counts:
        end = begin + count
        by_node.append(vectors[begin:end].copy())
        squares_by_node.append(half_squares[begin:end].copy())
        begin = end
    return by_node, squares_by_node
