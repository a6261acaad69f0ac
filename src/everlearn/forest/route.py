"""Routes examples down a tree to their leaves.

At a node f(x) ∈ {left, right} is the splitting function of its kind (Eq. 3 and 8). Rows that pass
the same node are processed together, so that they share its vectors: O(rows · depth) splitting
functions.
"""

from typing import Any

import numpy as np

from everlearn.compiled import by_type, compiled, inner
from everlearn.forest.buffers import Floats32, Ints, ints
from everlearn.forest.settings import NONE, Side
from everlearn.forest.tree import SEGMENT, Records, Tree


@by_type
def send(split: Any, tree: Tree, node: int, X: Floats32, index: Ints, sides: Ints) -> None:
    """sides_i = f(x_i) at a splitting node, for rows ``index``; implemented per kind of split."""


@inner
def dot(x: Floats32, w: Floats32) -> Any:
    """x·w"""
    total = np.float32(0.0)
    for j in range(x.shape[0]):
        total += x[j] * w[j]
    return total


@inner
def partition(index: Ints, sides: Ints) -> int:
    """Move rows that go left to the front, keeping their order; returns how many go left."""
    right = ints(index.shape[0], NONE)
    n_left, n_right = 0, 0
    for i in range(index.shape[0]):
        if sides[i] == Side.LEFT:
            index[n_left] = index[i]
            n_left += 1
        else:
            right[n_right] = index[i]
            n_right += 1
    for i in range(n_right):
        index[n_left + i] = right[i]
    return n_left


@inner
def push(segments: Records, position: int, node: int, begin: int, end: int) -> None:
    """Write a segment at a position of a stack."""
    segments[position].node = node
    segments[position].begin = begin
    segments[position].end = end


@compiled
def leaves_of(tree: Tree, split: Any, top: int, X: Floats32, rows: Ints) -> Ints:
    """The leaf below ``top`` that each of some rows of X falls into."""
    n = rows.shape[0]
    found, sides, order, index = ints(n, NONE), ints(n, 0), ints(n, 0), ints(n, 0)
    for i in range(n):
        order[i], index[i] = i, rows[i]
    segments = np.empty(tree.used[0].nodes + 1, SEGMENT)
    push(segments, 0, top, 0, n)
    depth = 1
    while depth:
        depth -= 1
        node, begin, end = segments[depth].node, segments[depth].begin, segments[depth].end
        if begin == end:
            continue
        left, right = tree.nodes[node].left, tree.nodes[node].right
        if left == NONE:
            for i in range(begin, end):
                found[order[i]] = node
            continue
        part = sides[begin:end]
        send(split, tree, node, X, index[begin:end], part)
        partition(order[begin:end], part)
        middle = begin + partition(index[begin:end], part)
        push(segments, depth, right, middle, end)
        push(segments, depth + 1, left, begin, middle)
        depth += 2
    return found
