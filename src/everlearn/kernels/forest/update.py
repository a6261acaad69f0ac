"""Teaching a tree: the four updates of Sec. 4 and our own, and taking examples back."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from everlearn.kernels.compile import compiled
from everlearn.kernels.forest.grow import cut_small_leaves, grown, write_split
from everlearn.kernels.forest.renew import pass_down_or_renew
from everlearn.kernels.forest.route import leaves_of, nearest_cells
from everlearn.kernels.forest.sampling import n_splits, sampled_nodes
from everlearn.kernels.forest.splits import (
    Split,
    assignments,
    best_assignment,
    best_hyperplane,
    cell_histogram,
    census,
    class_means,
    no_split,
    trained_svms,
)
from everlearn.kernels.forest.tree import (
    DEAD,
    LEFT,
    NCM,
    NODES,
    NONE,
    RIGHT,
    Arrays,
    Bytes,
    Floats32,
    Ints,
    Rows,
    Settings,
    Tree,
    add_leaf,
    collapse,
    compacted,
    link,
    own_copy,
    random_below,
    random_unit,
    rows_below,
    unlink,
    whole,
    with_room,
)

# What an update does with splitting nodes that were there before.
KEEP = 0
RETRAIN = 1
REUSE = 2
RENEW = 3


@compiled
def next_tree(
    arrays: Arrays,
    vectors: Any,
    half_squares: Any,
    rows: Rows,
    index: Ints,
    evicted: Ints,
    grow: bool,
    nodes_do: int,
    sample_by: int,
    fraction: float,
    intensity: float,
    settings: Settings,
) -> Tree:
    """A tree without some examples and taught others; the one given, in parts, stays as it is."""
    tree = own_copy(whole(arrays, vectors, half_squares), rows.slot.shape[0])
    if not tree.used[NODES]:
        return first_tree(tree, rows, index, settings)
    take_out(tree, evicted)
    return taught(tree, rows, index, grow, nodes_do, sample_by, fraction, intensity, settings)


@compiled
def first_tree(tree: Tree, rows: Rows, index: Ints, settings: Settings) -> Tree:
    """Train a tree on these examples; ``tree`` is empty."""
    tree = with_room(tree, 1, 0)
    root = add_leaf(tree, NONE)
    for i in range(index.shape[0] - 1, -1, -1):
        link(tree, index[i], root)
    return grown(tree, rows, root, settings)


@compiled
def taught(
    tree: Tree,
    rows: Rows,
    index: Ints,
    grow: bool,
    nodes_do: int,
    sample_by: int,
    fraction: float,
    intensity: float,
    settings: Settings,
) -> Tree:
    """Teach new examples to a tree that exists.

    They are passed down first, so that the quality of nodes speaks of all classes; then
    ⌈πN⌉ splitting nodes are drawn and retrained or reused, and last the leaves that received
    anything are grown. ``intensity`` below one thins the draw, for batches that bring little.
    """
    touched = np.zeros(tree.nodes.shape[0], np.uint8)
    if nodes_do == RENEW:
        pass_down_or_renew(tree, rows, index, touched, settings)
        return with_leaves_grown(tree, rows, touched, settings)
    leaves = leaves_of(tree, settings.kind, 0, rows.X, index)
    for i in range(index.shape[0] - 1, -1, -1):
        link(tree, index[i], leaves[i])
        touched[leaves[i]] = 1
    if not grow:
        return tree
    if nodes_do != KEEP:
        wanted = fraction * n_splits(tree) * intensity
        n_wanted = int(np.ceil(wanted))
        if intensity < 1.0:
            chance = wanted - np.floor(wanted)
            n_wanted = int(wanted) + (random_unit(tree.random) < chance)
        if n_wanted > 0:
            nodes = sampled_nodes(tree, rows, sample_by, n_wanted, settings)
            if nodes_do == RETRAIN:
                retrain(tree, rows, nodes, touched)
            else:
                new = np.zeros(rows.slot.shape[0], np.uint8)
                new[index] = 1
                tree = reused(tree, rows, nodes, new, touched, settings)
    return with_leaves_grown(tree, rows, touched, settings)


@compiled
def with_leaves_grown(tree: Tree, rows: Rows, touched: Bytes, settings: Settings) -> Tree:
    """The tree with every touched leaf grown; what was cut makes room for it first."""
    tree, touched = compacted(tree, touched)
    for leaf in range(touched.shape[0]):
        if touched[leaf] and tree.nodes[leaf].parent != DEAD and tree.nodes[leaf].left == NONE:
            tree = grown(tree, rows, leaf, settings)
    return tree


@compiled
def retrain(tree: Tree, rows: Rows, nodes: Ints, touched: Bytes) -> None:
    """Turn nodes into leaves, to be grown again (RTST)."""
    for node in nodes:
        if tree.nodes[node].parent != DEAD and tree.nodes[node].left != NONE:
            collapse(tree, node)
            touched[node] = 1


@compiled
def reused(
    tree: Tree, rows: Rows, nodes: Ints, new: Bytes, touched: Bytes, settings: Settings
) -> Tree:
    """Bring the splitting functions of nodes up to date and keep what is below (RUST)."""
    for node in nodes:
        if tree.nodes[node].parent == DEAD or tree.nodes[node].left == NONE:
            continue
        index = rows_below(tree, node)
        sides = np.empty(index.shape[0], np.int32)
        if settings.kind == NCM:
            split = extended_ncm(tree, rows, node, index, new, sides, settings)
        else:
            split = extended_svm(tree, rows, node, index, new, sides, settings)
        if split.gain <= 0.0:
            continue
        tree = write_split(tree, node, split)
        n_left = rows_below(tree, tree.nodes[node].left).shape[0]
        move(tree, rows, node, index, n_left, sides, touched, settings)
        cut_small_leaves(tree, rows, node, settings.smallest, touched)
    return tree


@compiled
def move(
    tree: Tree,
    rows: Rows,
    node: int,
    index: Ints,
    n_left: int,
    sides: Ints,
    touched: Bytes,
    settings: Settings,
) -> None:
    """Pass examples whose side has changed through the subtree on the other side."""
    for side in (LEFT, RIGHT):
        n_moving = 0
        moving = np.empty(index.shape[0], np.int32)
        begin, end = (n_left, index.shape[0]) if side == LEFT else (0, n_left)
        for i in range(begin, end):
            if sides[i] == side:
                moving[n_moving] = index[i]
                n_moving += 1
        if not n_moving:
            continue
        moving = moving[:n_moving]
        child = tree.nodes[node].left if side == LEFT else tree.nodes[node].right
        leaves = leaves_of(tree, settings.kind, child, rows.X, moving)
        for i in range(n_moving):
            unlink(tree, moving[i])
            link(tree, moving[i], leaves[i])
            touched[leaves[i]] = 1


@compiled
def newcomers(rows: Rows, index: Ints, new: Bytes, n_slots: int) -> tuple[Ints, int]:
    """Classes at a node all of whose examples came with this batch, and how many others."""
    old, here = np.zeros(n_slots, np.uint8), np.zeros(n_slots, np.uint8)
    for row in index:
        here[rows.slot[row]] = 1
        if not new[row]:
            old[rows.slot[row]] = 1
    found = np.empty(n_slots, np.int32)
    count, n_old = 0, 0
    for slot in range(n_slots):
        if old[slot]:
            n_old += 1
        elif here[slot]:
            found[count] = slot
            count += 1
    return found[:count], n_old


@compiled
def extended_ncm(
    tree: Tree, rows: Rows, node: int, index: Ints, new: Bytes, sides: Ints, settings: Settings
) -> Split:
    """A node's centroids with those of new classes among them, by reservoir sampling (Eq. 9).

    A new class joins while there is room; after that it takes the place of a random member with
    probability (members) / (classes seen so far), and is ignored otherwise. The sides of the new
    centroids are those with the highest gain; the old keep theirs.
    """
    arriving, n_seen = newcomers(rows, index, new, settings.n_slots)
    if not arriving.shape[0]:
        return no_split()
    size, first = tree.nodes[node].size, tree.nodes[node].member
    room = max(size, min(settings.subset, n_seen + arriving.shape[0]))
    slots = np.empty(room, np.int32)
    slots[:size] = tree.member_slot[first : first + size]
    source = np.arange(room).astype(np.int32)
    n_old = size
    for slot in arriving:
        n_seen += 1
        place = size
        if size < room:
            size += 1
        else:
            place = random_below(tree.random, n_seen)
        if place < size:
            slots[place] = slot
            source[place] = NONE
    slots, source = slots[:size], source[:size]
    is_new = (source == NONE) | (source >= n_old)
    n_new = is_new.sum()
    if not n_new:
        return no_split()
    means, half_square = merged_centroids(tree, rows, node, index, slots, is_new, settings.n_slots)
    nearest_cells(rows.X, index, means, half_square, sides)
    here = census(rows, index, settings.n_slots)
    histogram = cell_histogram(rows, index, sides, size, here)
    free = assignments(n_new, settings.n_candidates, False, tree.random)
    candidates = np.zeros((free.shape[0], size), np.uint8)
    column = 0
    for member in range(size):
        if is_new[member]:
            candidates[:, member] = free[:, column]
            column += 1
        else:
            candidates[:, member] = tree.member_side[first + member]
    best, gain = best_assignment(candidates, histogram, settings.smallest, settings.entropies)
    if best < 0:
        return no_split()
    for i in range(index.shape[0]):
        sides[i] = candidates[best, sides[i]]
    return Split(gain, slots, candidates[best].copy(), means, half_square, NONE, np.float32(0.0))


@compiled
def merged_centroids(
    tree: Tree,
    rows: Rows,
    node: int,
    index: Ints,
    slots: Ints,
    is_new: NDArray[np.bool_],
    n_slots: int,
) -> tuple[Floats32, Floats32]:
    """The old centroids as they are, and those of new classes from the examples at hand."""
    member_of = np.full(n_slots, NONE, np.int32)
    n_new = 0
    for member in range(slots.shape[0]):
        if is_new[member]:
            member_of[slots[member]] = n_new
            n_new += 1
    fresh, fresh_squares = class_means(rows, index, member_of, n_new)
    means = np.empty((slots.shape[0], rows.X.shape[1]), np.float32)
    half_square = np.empty(slots.shape[0], np.float32)
    old, old_squares = tree.vectors[node], tree.half_squares[node]
    for member in range(slots.shape[0]):
        if is_new[member]:
            means[member] = fresh[member_of[slots[member]]]
            half_square[member] = fresh_squares[member_of[slots[member]]]
        else:
            means[member] = old[member]
            half_square[member] = old_squares[member]
    return means, half_square


@compiled
def extended_svm(
    tree: Tree, rows: Rows, node: int, index: Ints, new: Bytes, sides: Ints, settings: Settings
) -> Split:
    """A node's hyperplane trained on from where it is, new classes with meta-labels of their own.

    One new class is tried on either side (two SVMs); q new classes in 2q of the 2^q ways.
    Known classes without a meta-label take the side on which most of their examples are.
    """
    arriving, _ = newcomers(rows, index, new, settings.n_slots)
    n_new = arriving.shape[0]
    if not n_new:
        return no_split()
    here = census(rows, index, settings.n_slots)
    known = majority_sides(tree, rows, node, index, here.slots.shape[0], here.position)
    n_ways = min(2 * n_new, settings.n_candidates)
    free = assignments(n_new, n_ways, False, tree.random)
    labels = np.empty((free.shape[0], here.slots.shape[0]), np.uint8)
    labels[:] = known
    for i in range(n_new):
        labels[:, here.position[arriving[i]]] = free[:, i]
    start, threshold = tree.vectors[node], tree.nodes[node].threshold
    W, thresholds = trained_svms(rows, index, here, labels, start, threshold, settings, tree.random)
    best, gain = best_hyperplane(rows, index, here, W, thresholds, settings, sides)
    if best < 0:
        return no_split()
    return Split(
        gain,
        here.slots,
        labels[best].copy(),
        W[best : best + 1].copy(),
        np.zeros(1, np.float32),
        NONE,
        thresholds[best],
    )


@compiled
def majority_sides(
    tree: Tree, rows: Rows, node: int, index: Ints, n_classes: int, position: Ints
) -> Bytes:
    """The meta-label of each class at a node: as it was trained, else where most of it goes."""
    n_left = rows_below(tree, tree.nodes[node].left).shape[0]
    lean = np.zeros(n_classes)
    for i in range(index.shape[0]):
        row = index[i]
        sign = -1.0 if i < n_left else 1.0
        lean[position[rows.slot[row]]] += sign * rows.weight[row]
    known = (lean > 0.0).astype(np.uint8)
    first = tree.nodes[node].member
    for member in range(first, first + tree.nodes[node].size):
        slot = tree.member_slot[member]
        if slot != NONE and position[slot] != NONE:
            known[position[slot]] = tree.member_side[member]
    return known


@compiled
def take_out(tree: Tree, index: Ints) -> None:
    """Take examples out of their leaves; the structure stays."""
    for row in index:
        if tree.links[row].leaf != NONE:
            unlink(tree, row)
