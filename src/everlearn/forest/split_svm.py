"""Linear-SVM nodes: an example goes to one side of a hyperplane.

    f(x) = sgn(w·x − b)                                                                     (Eq. 3)
    w = argmin λ/2 ‖w‖² + mean max(0, 1 − y (w·x − b)),  y one random meta-label per class  (Eq. 4)
    RUST: training of w continues, once for either side of a new class; the better one is kept

w is a node's vector, b its threshold, its members are the classes at the node with their
meta-labels, λ is ``regularization``. Training costs O(candidates · d) per step, at least 200 and at
most ``max_steps`` steps; routing O(d) per example; memory d numbers per node. What can be merged
and forgotten is in ``classifier.py``.

Deviations from the paper: hyperplanes have an intercept, the weight of an additional feature that
is always 1; q new classes at once are tried with 2q of the 2^q meta-labelings; a known class
without a meta-label at a node takes the side on which most of its examples are.
"""

from typing import Any, NamedTuple

import numpy as np

from everlearn.compiled import inner
from everlearn.forest.buffers import Bytes, Floats32, Ints, flags, vectors, zero_table, zeros
from everlearn.forest.gain import AtNode, assignments, best_assignment
from everlearn.forest.grow import extend_split, find_split
from everlearn.forest.randomness import random_index
from everlearn.forest.route import dot, send
from everlearn.forest.settings import NONE, ForestSettings, Side
from everlearn.forest.tree import Records, Tree, TreeRows

# Minimum number of gradient steps per node, so that small nodes converge.
FEWEST_STEPS = 200


class SVMSplit(NamedTuple):
    """Settings of linear-SVM nodes: candidates, λ of Eq. 4, passes, and maximum steps."""

    n_candidates: int
    regularization: float
    epochs: int
    max_steps: int

    def room(self, n_slots: int) -> tuple[int, int]:
        """The most members and vectors that one node needs."""
        return n_slots, 1

    def fits(self, splits: Records, n_features: int) -> Any:
        """Which splitting nodes have what this kind needs: one vector."""
        return splits["n_vectors"] == 1


class Hyperplanes(NamedTuple):
    """Candidates for a node: meta-labels of its classes (rows), w, and threshold of each."""

    labels: Bytes
    W: Floats32
    thresholds: Floats32


# Training (Eq. 4).


@find_split.register(SVMSplit)
def find_svm_split(
    split: SVMSplit, tree: Tree, node: int, rows: TreeRows, at: AtNode, settings: ForestSettings
) -> float:
    """Train a linear SVM for each of some random meta-labels of the classes; use the best."""
    k, d = at.slots.shape[0], rows.X.shape[1]
    free = assignments(k - 1, split.n_candidates, True, tree.random)
    labels = flags(free.shape[0], k)
    for c in range(free.shape[0]):
        for i in range(k - 1):
            labels[c, i] = free[c, i]
    planes = Hyperplanes(labels, vectors(free.shape[0], d), vectors(1, free.shape[0])[0])
    return train_and_store(split, tree, node, rows, at, planes, settings)


@inner
def train_and_store(
    split: SVMSplit,
    tree: Tree,
    node: int,
    rows: TreeRows,
    at: AtNode,
    planes: Hyperplanes,
    settings: ForestSettings,
) -> float:
    """Continue to train hyperplanes, and give a node the best one with its meta-labels."""
    train(split, tree, rows, at, planes)
    best, gain = best_hyperplane(rows, at, planes.W, planes.thresholds, settings)
    if best < 0:
        return 0.0
    member = tree.used[0].members
    for i in range(at.slots.shape[0]):
        tree.members[member + i].slot = at.slots[i]
        tree.members[member + i].side = planes.labels[best, i]
    tree.nodes[node].member = member
    tree.nodes[node].size = at.slots.shape[0]
    tree.used[0].members += at.slots.shape[0]
    store_hyperplane(tree, node, planes.W[best], planes.thresholds[best])
    return gain


@inner
def store_hyperplane(tree: Tree, node: int, w: Floats32, threshold: float) -> None:
    """Append a hyperplane to the tree's vectors, and assign it to a node."""
    vector = tree.used[0].vectors
    for j in range(w.shape[0]):
        tree.vectors[vector, j] = w[j]
    tree.half_square[vector] = 0.0
    tree.nodes[node].vector = vector
    tree.nodes[node].n_vectors = 1
    tree.nodes[node].threshold = threshold
    tree.used[0].vectors += 1


@inner
def train(split: SVMSplit, tree: Tree, rows: TreeRows, at: AtNode, planes: Hyperplanes) -> None:
    """One hyperplane per row of meta-labels, by stochastic gradient on the hinge loss (Eq. 4).

    Pegasos keeps w_t = z_t / (λ t) with z_{t+1} = z_t + [y w·x < 1] y x. All hyperplanes see the
    same examples, each drawn with probability proportional to its weight. t starts where the
    step 1/(λ t) is 1/E‖x‖², so that no step overshoots. The intercept is the weight of an
    additional feature that is always 1; a threshold is its negative.
    """
    n, d = at.rows.shape[0], rows.X.shape[1]
    count = planes.W.shape[0]
    cumulative = zeros(n)
    weight, square = 0.0, 0.0
    for i in range(n):
        x = rows.X[at.rows[i]]
        weight += rows.weight[at.rows[i]]
        square += rows.weight[at.rows[i]] * (1.0 + dot(x, x))
        cumulative[i] = weight
    t_start = max(1.0, square / (weight * split.regularization))
    scale = np.float32(split.regularization * t_start)
    z, z_one = planes.W, planes.thresholds
    for c in range(count):
        w = z[c]
        for j in range(d):
            w[j] *= scale
        z_one[c] *= -scale
    steps = min(max(int(split.epochs * weight), FEWEST_STEPS), split.max_steps)
    for t in range(steps):
        row = at.rows[random_index(cumulative, tree.random)]
        x = rows.X[row]
        position = at.position[rows.slot[row]]
        shrink = np.float32(split.regularization * (t_start + t))
        for c in range(count):
            w = z[c]
            right = planes.labels[c, position] == Side.RIGHT
            y = np.float32(1.0) if right else np.float32(-1.0)
            if y * (dot(x, w) + z_one[c]) < shrink:
                z_one[c] += y
                for j in range(d):
                    w[j] += y * x[j]
    final = np.float32(1.0 / (split.regularization * (t_start + steps)))
    for c in range(count):
        w = z[c]
        for j in range(d):
            w[j] *= final
        z_one[c] *= -final


@inner
def best_hyperplane(
    rows: TreeRows, at: AtNode, W: Floats32, thresholds: Floats32, settings: ForestSettings
) -> tuple[int, float]:
    """The hyperplane with the highest gain, and the gain; fills in the side of each example."""
    right = zero_table(W.shape[0], at.slots.shape[0])
    for i in range(at.rows.shape[0]):
        row = at.rows[i]
        position = at.position[rows.slot[row]]
        x = rows.X[row]
        for c in range(W.shape[0]):
            if dot(x, W[c]) > thresholds[c]:
                right[c, position] += rows.weight[row]
    partition, histogram = flags(1, 2), zero_table(2, at.slots.shape[0])
    partition[0, 0], partition[0, 1] = Side.RIGHT, Side.LEFT
    best, best_gain = -1, 0.0
    for c in range(W.shape[0]):
        for j in range(at.slots.shape[0]):
            histogram[0, j] = right[c, j]
            histogram[1, j] = at.weights[j] - right[c, j]
        found, gain = best_assignment(partition, histogram, settings.smallest, settings.entropies)
        if found >= 0 and gain > best_gain:
            best, best_gain = c, gain
    if best >= 0:
        sides_of_plane(rows.X, at.rows, W[best], thresholds[best], at.sides)
    return best, best_gain


# Routing (Eq. 3).


@send.register(SVMSplit)
def send_by_plane(
    split: SVMSplit, tree: Tree, node: int, X: Floats32, index: Ints, sides: Ints
) -> None:
    """The side of the hyperplane."""
    vector, threshold = tree.nodes[node].vector, tree.nodes[node].threshold
    sides_of_plane(X, index, tree.vectors[vector], threshold, sides)


@inner
def sides_of_plane(X: Floats32, index: Ints, w: Floats32, threshold: float, sides: Ints) -> None:
    """The side of a hyperplane for several rows; four at a time share w."""
    whole = index.shape[0] - index.shape[0] % 4
    for i in range(0, whole, 4):
        p, q, r, s = X[index[i]], X[index[i + 1]], X[index[i + 2]], X[index[i + 3]]
        wp = wq = wr = ws = np.float32(0.0)
        for j in range(w.shape[0]):
            wp += p[j] * w[j]
            wq += q[j] * w[j]
            wr += r[j] * w[j]
            ws += s[j] * w[j]
        sides[i] = Side.RIGHT if wp > threshold else Side.LEFT
        sides[i + 1] = Side.RIGHT if wq > threshold else Side.LEFT
        sides[i + 2] = Side.RIGHT if wr > threshold else Side.LEFT
        sides[i + 3] = Side.RIGHT if ws > threshold else Side.LEFT
    for i in range(whole, index.shape[0]):
        sides[i] = Side.RIGHT if dot(X[index[i]], w) > threshold else Side.LEFT


# Reuse (Sec. 4.4.2).


@extend_split.register(SVMSplit)
def extend_svm_split(
    split: SVMSplit,
    tree: Tree,
    node: int,
    rows: TreeRows,
    at: AtNode,
    arriving: Ints,
    settings: ForestSettings,
) -> float:
    """Continue to train a node's hyperplane, with meta-labels for new classes.

    One new class is tried on both sides (two SVMs); q new classes are tried with 2q of the 2^q
    meta-labelings.
    """
    known = known_sides(tree, node, rows, at)
    n_new, k, d = arriving.shape[0], at.slots.shape[0], rows.X.shape[1]
    free = assignments(n_new, min(2 * n_new, split.n_candidates), False, tree.random)
    count = free.shape[0]
    labels, W, thresholds = flags(count, k), vectors(count, d), vectors(1, count)[0]
    w = tree.vectors[tree.nodes[node].vector]
    for c in range(count):
        for i in range(k):
            labels[c, i] = known[i]
        for i in range(n_new):
            labels[c, at.position[arriving[i]]] = free[c, i]
        for j in range(d):
            W[c, j] = w[j]
        thresholds[c] = tree.nodes[node].threshold
    planes = Hyperplanes(labels, W, thresholds)
    return train_and_store(split, tree, node, rows, at, planes, settings)


@inner
def known_sides(tree: Tree, node: int, rows: TreeRows, at: AtNode) -> Bytes:
    """The meta-label of each class at a node: as trained, else the side of most of its examples.

    ``at.sides`` holds the current side of each example.
    """
    majority = zeros(at.slots.shape[0])
    for i in range(at.rows.shape[0]):
        row = at.rows[i]
        sign = 1.0 if at.sides[i] == Side.RIGHT else -1.0
        majority[at.position[rows.slot[row]]] += sign * rows.weight[row]
    known = flags(1, at.slots.shape[0])[0]
    for i in range(at.slots.shape[0]):
        known[i] = majority[i] > 0.0
    first = tree.nodes[node].member
    for member in range(first, first + tree.nodes[node].size):
        slot = tree.members[member].slot
        if slot != NONE and at.position[slot] != NONE:
            known[at.position[slot]] = tree.members[member].side
    return known
