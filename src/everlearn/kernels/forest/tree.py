"""A tree as flat arrays, the examples its leaves refer to, and moving examples about in it."""

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
def nearest_cells(
    X: Floats32, index: Ints, vectors: Floats32, half_square: Floats32, cells: Ints
) -> None:
    """cells_i = argmin_k ‖x_i − c_k‖ = argmax_k x_i·c_k − ½‖c_k‖² for the rows in ``index``.

    Four rows at a time, two centroids at a time: eight products for six loads.
    """
    n, k, d = index.shape[0], vectors.shape[0], X.shape[1]
    best = np.empty(4, np.float32)
    score = np.empty(4, np.float32)
    whole = n - n % 4
    for i in range(0, whole, 4):
        p, q, r, s = X[index[i]], X[index[i + 1]], X[index[i + 2]], X[index[i + 3]]
        best[:] = -np.inf
        for c in range(0, k - 1, 2):
            a, b = vectors[c], vectors[c + 1]
            pa = pb = qa = qb = ra = rb = sa = sb = np.float32(0.0)
            for j in range(d):
                pa += p[j] * a[j]
                pb += p[j] * b[j]
                qa += q[j] * a[j]
                qb += q[j] * b[j]
                ra += r[j] * a[j]
                rb += r[j] * b[j]
                sa += s[j] * a[j]
                sb += s[j] * b[j]
            score[0], score[1], score[2], score[3] = pa, qa, ra, sa
            keep_best(score, half_square[c], c, best, cells[i : i + 4])
            score[0], score[1], score[2], score[3] = pb, qb, rb, sb
            keep_best(score, half_square[c + 1], c + 1, best, cells[i : i + 4])
        if k % 2:
            a = vectors[k - 1]
            pa = qa = ra = sa = np.float32(0.0)
            for j in range(d):
                pa += p[j] * a[j]
                qa += q[j] * a[j]
                ra += r[j] * a[j]
                sa += s[j] * a[j]
            score[0], score[1], score[2], score[3] = pa, qa, ra, sa
            keep_best(score, half_square[k - 1], k - 1, best, cells[i : i + 4])
    for i in range(whole, n):
        cells[i] = nearest_cell(X[index[i]], vectors, half_square)


@compiled
def keep_best(score: Floats32, offset: float, cell: int, best: Floats32, cells: Ints) -> None:
    """For four rows: note a centroid that is nearer than those before."""
    for row in range(4):
        if score[row] - offset > best[row]:
            best[row] = score[row] - offset
            cells[row] = cell


@compiled
def nearest_cell(x: Floats32, vectors: Floats32, half_square: Floats32) -> int:
    """argmax_k x·c_k − ½‖c_k‖² for one row, four centroids at a time."""
    k, d = vectors.shape
    best, cell = np.float32(-np.inf), 0
    whole = k - k % 4
    for c in range(0, whole, 4):
        p, q, r, s = vectors[c], vectors[c + 1], vectors[c + 2], vectors[c + 3]
        xp = xq = xr = xs = np.float32(0.0)
        for j in range(d):
            xp += x[j] * p[j]
            xq += x[j] * q[j]
            xr += x[j] * r[j]
            xs += x[j] * s[j]
        if xp - half_square[c] > best:
            best, cell = xp - half_square[c], c
        if xq - half_square[c + 1] > best:
            best, cell = xq - half_square[c + 1], c + 1
        if xr - half_square[c + 2] > best:
            best, cell = xr - half_square[c + 2], c + 2
        if xs - half_square[c + 3] > best:
            best, cell = xs - half_square[c + 3], c + 3
    for c in range(whole, k):
        score = inner(x, vectors[c]) - half_square[c]
        if score > best:
            best, cell = score, c
    return cell


@compiled
def inner(x: Floats32, w: Floats32) -> Any:
    """x·w"""
    total = np.float32(0.0)
    for j in range(x.shape[0]):
        total += x[j] * w[j]
    return total


@compiled
def side_of(tree: Tree, kind: int, node: int, x: Floats32) -> int:
    """To which child a splitting node sends x."""
    if kind == NCM:
        cell = nearest_cell(x, tree.vectors[node], tree.half_squares[node])
        return tree.member_side[tree.nodes[node].member + cell]
    if kind == AXIS:
        return RIGHT if x[tree.nodes[node].feature] > tree.nodes[node].threshold else LEFT
    return RIGHT if inner(x, tree.vectors[node][0]) > tree.nodes[node].threshold else LEFT


@compiled
def sides_of(tree: Tree, kind: int, node: int, X: Floats32, index: Ints, sides: Ints) -> None:
    """To which child a splitting node sends each of several rows."""
    if kind == NCM:
        nearest_cells(X, index, tree.vectors[node], tree.half_squares[node], sides)
        for i in range(index.shape[0]):
            sides[i] = tree.member_side[tree.nodes[node].member + sides[i]]
    elif kind == AXIS:
        for i in range(index.shape[0]):
            sides[i] = side_of(tree, kind, node, X[index[i]])
    else:
        w, threshold = tree.vectors[node][0], tree.nodes[node].threshold
        sides_of_plane(X, index, w, threshold, sides)


@compiled
def sides_of_plane(X: Floats32, index: Ints, w: Floats32, threshold: float, sides: Ints) -> None:
    """On which side of a hyperplane each of several rows is; four at a time share w."""
    whole = index.shape[0] - index.shape[0] % 4
    for i in range(0, whole, 4):
        p, q, r, s = X[index[i]], X[index[i + 1]], X[index[i + 2]], X[index[i + 3]]
        wp = wq = wr = ws = np.float32(0.0)
        for j in range(w.shape[0]):
            wp += p[j] * w[j]
            wq += q[j] * w[j]
            wr += r[j] * w[j]
            ws += s[j] * w[j]
        sides[i] = RIGHT if wp > threshold else LEFT
        sides[i + 1] = RIGHT if wq > threshold else LEFT
        sides[i + 2] = RIGHT if wr > threshold else LEFT
        sides[i + 3] = RIGHT if ws > threshold else LEFT
    for i in range(whole, index.shape[0]):
        sides[i] = RIGHT if inner(X[index[i]], w) > threshold else LEFT


@compiled
def partition(index: Ints, sides: Ints) -> int:
    """Move what goes left to the front, both parts in order; returns how many go left."""
    right = np.empty(index.shape[0], np.int32)
    n_left, n_right = 0, 0
    for i in range(index.shape[0]):
        if sides[i] == LEFT:
            index[n_left] = index[i]
            n_left += 1
        else:
            right[n_right] = index[i]
            n_right += 1
    index[n_left:] = right[:n_right]
    return n_left


@compiled
def leaves_of(tree: Tree, kind: int, top: int, X: Floats32, index: Ints) -> Ints:
    """The leaf below ``top`` that each row falls into; rows that share a node go together."""
    n = index.shape[0]
    found = np.empty(n, np.int32)
    order = np.arange(n).astype(np.int32)
    index = index.copy()
    sides = np.empty(n, np.int32)
    depth_limit = tree.used[NODES] + 1
    node_stack = np.empty(depth_limit, np.int32)
    begin_stack = np.empty(depth_limit, np.int64)
    end_stack = np.empty(depth_limit, np.int64)
    node_stack[0], begin_stack[0], end_stack[0] = top, 0, n
    depth = 1
    while depth:
        depth -= 1
        node, begin, end = node_stack[depth], begin_stack[depth], end_stack[depth]
        if begin == end:
            continue
        if tree.nodes[node].left == NONE:
            for i in range(begin, end):
                found[order[i]] = node
            continue
        part = sides[begin:end]
        sides_of(tree, kind, node, X, index[begin:end], part)
        partition(order[begin:end], part)
        middle = begin + partition(index[begin:end], part)
        here = tree.nodes[node]
        node_stack[depth], begin_stack[depth], end_stack[depth] = here.right, middle, end
        depth += 1
        node_stack[depth], begin_stack[depth], end_stack[depth] = here.left, begin, middle
        depth += 1
    return found


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
