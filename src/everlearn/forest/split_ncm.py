"""Nearest-class-mean nodes: an example goes to the side of its nearest class mean.

    c_κ^n = mean of the examples of class κ at node n, for κ in a random subset K^n         (Eq. 7)
    f(x) = e_κ*,  κ* = argmin over K^n of ‖x − c_κ^n‖,  e_κ ∈ {left, right} by highest gain  (Eq. 8)
    RUST: new classes join K^n by reservoir sampling, and their e_κ are chosen by gain      (Eq. 9)

K^n are a node's members, e_κ their sides, c_κ^n its vectors; ‖x − c‖ is least where x·c − ½‖c‖² is
greatest. With k = |K^n|: training costs O(k d) per example and O(k · classes) per candidate,
routing O(k d) per example, memory k d numbers per node. What can be merged and forgotten is in
``classifier.py``.

Deviations from the paper: all partitions of the centroids, 2^(k−1) − 1, are tried if there are no
more than ``n_candidates``, by a Gray code; the last centroid stays left, since a partition and its
mirror image are the same; several new classes join a node together. Those of the whole forest are
in the notes of :class:`NCMForest`.
"""

from typing import Any, NamedTuple

import numpy as np

from everlearn.compiled import inner
from everlearn.forest.buffers import (
    Bytes,
    Floats32,
    Floats64,
    Ints,
    flags,
    ints,
    vectors,
    zero_table,
    zeros,
)
from everlearn.forest.gain import AtNode, assignments, best_assignment, best_partition
from everlearn.forest.grow import extend_split, find_split
from everlearn.forest.randomness import random_below, random_subset
from everlearn.forest.route import dot, send
from everlearn.forest.settings import NONE, ForestSettings
from everlearn.forest.tree import Records, Tree, TreeRows

# 2^(k−1) must not overflow before it is compared with the number of candidates.
MOST_CELLS = 40


class NCMSplit(NamedTuple):
    """Settings of nearest-class-mean nodes: number of centroids, and of partitions tried."""

    subset: int
    n_candidates: int

    def room(self, n_slots: int) -> tuple[int, int]:
        """The most members and vectors that one node needs."""
        return self.subset, self.subset

    def fits(self, splits: Records, n_features: int) -> Any:
        """Which splitting nodes have what this kind needs: a vector for each member."""
        return (splits["size"] > 0) & (splits["n_vectors"] == splits["size"])


# Training (Eq. 7, 8).


@find_split.register(NCMSplit)
def find_ncm_split(
    split: NCMSplit, tree: Tree, node: int, rows: TreeRows, at: AtNode, settings: ForestSettings
) -> float:
    """Use the class means of a random subset of classes, with their best partition into sides."""
    k = min(split.subset, at.slots.shape[0])
    member, vector = tree.used[0].members, tree.used[0].vectors
    chosen = random_subset(at.slots.shape[0], k, tree.random)
    member_of = ints(settings.n_slots, NONE)
    for i in range(k):
        slot = at.slots[chosen[i]]
        tree.members[member + i].slot = slot
        member_of[slot] = i
    means, half_square = tree.vectors[vector : vector + k], tree.half_square[vector : vector + k]
    class_means(rows, at.rows, member_of, means, half_square)
    nearest_cells(rows.X, at.rows, means, half_square, at.sides)
    histogram = cell_histogram(rows, at, k)
    member_side = flags(1, k)[0]
    if k <= MOST_CELLS and (np.int64(1) << np.int64(k - 1)) - 1 <= split.n_candidates:
        code, gain = best_partition(histogram, settings.smallest, settings.entropies)
        for i in range(k - 1):
            member_side[i] = (code >> i) & 1
    else:
        gain = best_of_random(split, tree, histogram, member_side, settings)
    if gain > 0.0:
        store_centroids(tree, node, at, member_side)
    return gain


@inner
def best_of_random(
    split: NCMSplit, tree: Tree, histogram: Floats64, member_side: Bytes, settings: ForestSettings
) -> float:
    """The best of some random partitions of the centroids; the last stays left."""
    k = member_side.shape[0]
    free = assignments(k - 1, split.n_candidates, True, tree.random)
    candidates = flags(free.shape[0], k)
    for c in range(free.shape[0]):
        for i in range(k - 1):
            candidates[c, i] = free[c, i]
    best, gain = best_assignment(candidates, histogram, settings.smallest, settings.entropies)
    for i in range(k):
        member_side[i] = candidates[max(best, 0), i]
    return gain


@inner
def store_centroids(tree: Tree, node: int, at: AtNode, member_side: Bytes) -> None:
    """Give a node the members and vectors written after the used ones; turn cells into sides."""
    k = member_side.shape[0]
    member = tree.used[0].members
    for i in range(k):
        tree.members[member + i].side = member_side[i]
    for i in range(at.rows.shape[0]):
        at.sides[i] = member_side[at.sides[i]]
    tree.nodes[node].member = member
    tree.nodes[node].size = k
    tree.nodes[node].vector = tree.used[0].vectors
    tree.nodes[node].n_vectors = k
    tree.used[0].members += k
    tree.used[0].vectors += k


@inner
def class_means(
    rows: TreeRows, index: Ints, member_of: Ints, means: Floats32, half_square: Floats32
) -> None:
    """c_κ = mean of the examples of class κ (Eq. 7), and ½‖c_κ‖²; member_of[slot] is its index.

    One class after another, so that the current sum stays in the processor's first-level cache.
    """
    k, d = means.shape
    begin = ints(k + 2, 0)
    for i in range(index.shape[0]):
        begin[member_of[rows.slot[index[i]]] + 2] += 1
    begin[1] = 0  # examples of no member
    for member in range(k):
        begin[member + 2] += begin[member + 1]
    own = ints(begin[k + 1], NONE)
    for i in range(index.shape[0]):
        member = member_of[rows.slot[index[i]]]
        if member != NONE:
            own[begin[member + 1]] = index[i]
            begin[member + 1] += 1
    # Now begin[m] and begin[m + 1] delimit the examples of member m.
    total = zeros(d)
    for member in range(k):
        for j in range(d):
            total[j] = 0.0
        weights = 0.0
        for i in range(begin[member], begin[member + 1]):
            weight, x = rows.weight[own[i]], rows.X[own[i]]
            weights += weight
            for j in range(d):
                total[j] += weight * x[j]
        mean, scale, square = means[member], 1.0 / weights, 0.0
        for j in range(d):
            mean[j] = total[j] * scale
            square += np.float64(mean[j]) * np.float64(mean[j])
        half_square[member] = 0.5 * square


@inner
def cell_histogram(rows: TreeRows, at: AtNode, k: int) -> Floats64:
    """The weight of each class in each cell."""
    histogram = zero_table(k, at.slots.shape[0])
    for i in range(at.rows.shape[0]):
        row = at.rows[i]
        histogram[at.sides[i], at.position[rows.slot[row]]] += rows.weight[row]
    return histogram


# Routing (Eq. 8).


@send.register(NCMSplit)
def send_to_nearest(
    split: NCMSplit, tree: Tree, node: int, X: Floats32, index: Ints, sides: Ints
) -> None:
    """The side of the nearest centroid."""
    first, k = tree.nodes[node].vector, tree.nodes[node].n_vectors
    nearest_cells(
        X, index, tree.vectors[first : first + k], tree.half_square[first : first + k], sides
    )
    for i in range(index.shape[0]):
        sides[i] = tree.members[tree.nodes[node].member + sides[i]].side


@inner
def nearest_cells(
    X: Floats32, index: Ints, centroids: Floats32, half_square: Floats32, cells: Ints
) -> None:
    """cells_i = argmax_k x_i·c_k − ½‖c_k‖² for the rows in ``index``; 0 if there is none.

    Four rows and two centroids at a time, so that a loaded value is used several times.
    """
    n, k, d = index.shape[0], centroids.shape[0], X.shape[1]
    best, score = vectors(1, 4)[0], vectors(1, 4)[0]
    whole = n - n % 4
    for i in range(0, whole, 4):
        p, q, r, s = X[index[i]], X[index[i + 1]], X[index[i + 2]], X[index[i + 3]]
        for row in range(4):
            best[row], cells[i + row] = -np.inf, 0
        for c in range(0, k - 1, 2):
            a, b = centroids[c], centroids[c + 1]
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
            keep_best(score, half_square[c], c, best, cells, i)
            score[0], score[1], score[2], score[3] = pb, qb, rb, sb
            keep_best(score, half_square[c + 1], c + 1, best, cells, i)
        if k % 2:
            a = centroids[k - 1]
            pa = qa = ra = sa = np.float32(0.0)
            for j in range(d):
                pa += p[j] * a[j]
                qa += q[j] * a[j]
                ra += r[j] * a[j]
                sa += s[j] * a[j]
            score[0], score[1], score[2], score[3] = pa, qa, ra, sa
            keep_best(score, half_square[k - 1], k - 1, best, cells, i)
    for i in range(whole, n):
        cells[i] = nearest_cell(X[index[i]], centroids, half_square)


@inner
def keep_best(
    score: Floats32, offset: float, cell: int, best: Floats32, cells: Ints, first: int
) -> None:
    """For four rows: record a centroid that is nearer than the previous ones."""
    for row in range(4):
        if score[row] - offset > best[row]:
            best[row] = score[row] - offset
            cells[first + row] = cell


@inner
def nearest_cell(x: Floats32, centroids: Floats32, half_square: Floats32) -> int:
    """argmax_k x·c_k − ½‖c_k‖² for one row, four centroids at a time; 0 if there is none."""
    k, d = centroids.shape
    best, cell = np.float32(-np.inf), 0
    whole = k - k % 4
    for c in range(0, whole, 4):
        p, q, r, s = centroids[c], centroids[c + 1], centroids[c + 2], centroids[c + 3]
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
        score = dot(x, centroids[c]) - half_square[c]
        if score > best:
            best, cell = score, c
    return cell


# Reuse (Eq. 9).


@extend_split.register(NCMSplit)
def extend_ncm_split(
    split: NCMSplit,
    tree: Tree,
    node: int,
    rows: TreeRows,
    at: AtNode,
    arriving: Ints,
    settings: ForestSettings,
) -> float:
    """Add the centroids of new classes to those of a node.

    The sides of the new centroids maximise the gain; the old ones keep theirs.
    """
    source = reservoir(split, tree, node, at, arriving)
    k, vector = source.shape[0], tree.used[0].vectors
    n_new = 0
    for i in range(k):
        n_new += source[i] == NONE
    if not n_new:
        return 0.0
    means, half_square = tree.vectors[vector : vector + k], tree.half_square[vector : vector + k]
    merge_centroids(tree, node, rows, at.rows, source, means, half_square, settings.n_slots)
    nearest_cells(rows.X, at.rows, means, half_square, at.sides)
    histogram = cell_histogram(rows, at, k)
    free = assignments(n_new, split.n_candidates, False, tree.random)
    candidates = flags(free.shape[0], k)
    column = 0
    for i in range(k):
        for c in range(free.shape[0]):
            if source[i] == NONE:
                candidates[c, i] = free[c, column]
            else:
                candidates[c, i] = tree.members[tree.nodes[node].member + source[i]].side
        column += source[i] == NONE
    best, gain = best_assignment(candidates, histogram, settings.smallest, settings.entropies)
    if best >= 0:
        store_centroids(tree, node, at, candidates[best])
    return gain


@inner
def reservoir(split: NCMSplit, tree: Tree, node: int, at: AtNode, arriving: Ints) -> Ints:
    """Choose the members of a node by reservoir sampling (Sec. 4.4.1).

    Their classes are written after the used members. Returns for each the index of the old member,
    or NONE for a new class. A new class joins while there is room; after that it replaces a random
    member with probability (members) / (classes seen so far), and is ignored otherwise.
    """
    size, first = tree.nodes[node].size, tree.nodes[node].member
    n_seen = at.slots.shape[0] - arriving.shape[0]
    room = max(size, min(split.subset, at.slots.shape[0]))
    ready = tree.used[0].members
    source = ints(room, NONE)
    for i in range(size):
        source[i] = i
        tree.members[ready + i].slot = tree.members[first + i].slot
    for i in range(arriving.shape[0]):
        n_seen += 1
        chosen = np.int64(size)
        if size < room:
            size += 1
        else:
            chosen = random_below(tree.random, n_seen)
        if chosen < size:
            source[chosen] = NONE
            tree.members[ready + chosen].slot = arriving[i]
    return source[:size]


@inner
def merge_centroids(
    tree: Tree,
    node: int,
    rows: TreeRows,
    index: Ints,
    source: Ints,
    means: Floats32,
    half_square: Floats32,
    n_slots: int,
) -> None:
    """Write the members' centroids: old ones unchanged, new ones as means of their examples."""
    member_of = ints(n_slots, NONE)
    n_new = 0
    for i in range(source.shape[0]):
        if source[i] == NONE:
            member_of[tree.members[tree.used[0].members + i].slot] = n_new
            n_new += 1
    fresh, fresh_squares = vectors(n_new, means.shape[1]), vectors(1, n_new)[0]
    class_means(rows, index, member_of, fresh, fresh_squares)
    first = tree.nodes[node].vector
    n_written = 0
    for i in range(source.shape[0]):
        new = source[i] == NONE
        row = n_written if new else first + source[i]
        centroid = fresh[row] if new else tree.vectors[row]
        for j in range(means.shape[1]):
            means[i, j] = centroid[j]
        half_square[i] = fresh_squares[row] if new else tree.half_square[row]
        n_written += new
