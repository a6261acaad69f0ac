"""Which way examples go: at a node, and down a tree."""

from typing import Any

import numpy as np

from everlearn.kernels.compile import compiled
from everlearn.kernels.forest.tree import AXIS, LEFT, NCM, NODES, NONE, RIGHT, Floats32, Ints, Tree


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
def sides_of(tree: Tree, kind: int, node: int, X: Floats32, index: Ints, sides: Ints) -> None:
    """To which child a splitting node sends each of several rows."""
    if kind == NCM:
        nearest_cells(X, index, tree.vectors[node], tree.half_squares[node], sides)
        for i in range(index.shape[0]):
            sides[i] = tree.member_side[tree.nodes[node].member + sides[i]]
    elif kind == AXIS:
        feature, threshold = tree.nodes[node].feature, tree.nodes[node].threshold
        for i in range(index.shape[0]):
            sides[i] = RIGHT if X[index[i], feature] > threshold else LEFT
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
