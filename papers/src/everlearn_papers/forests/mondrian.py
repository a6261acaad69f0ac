"""Mondrian forest, a baseline in Table 1a of Ristin et al. (2015); trained on all examples at once.

A node splits after a time E ~ Exp(Σ(u − l)) since its parent did, where [l, u] is the box of its
examples: at a feature drawn in proportion to u − l, uniformly within [l, u], whatever the labels.
Nodes with examples of one class are not split. Labels are used for predictions only:

    G_j = (c_j − d_j t_j + d_j Σt_j G_parent) / Σc_j,    d_j = exp(−γ Δ_j),   t_j = min(c_j, 1)

with c_j the classes' counts at a leaf, or the sum of t over the children, and Δ_j the time between
a node and its parent. On its path, an example at a distance η from the box of node j leaves the
tree above j with probability 1 − exp(−Δ_j η); its prediction is then that of a node inserted there.

A tree drawn from all examples has the same distribution as one updated with them one by one, so an
online update is not needed for this comparison. As in the reference, features are scaled to [0, 1]
and γ = 10 d.

References
----------
Lakshminarayanan, Roy, Teh. Mondrian Forests: Efficient Online Random Forests. NIPS 2014.
"""

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from everlearn.arrays import Array

Indices = NDArray[np.intp]

DISCOUNT = 10.0


@dataclass
class Node:
    """Box of examples, its split and the time until it (infinite for a leaf)."""

    lower: Array
    upper: Array
    wait: float
    counts: Array
    feature: int = -1
    threshold: float = 0.0
    children: list["Node"] = field(default_factory=list)

    @property
    def tables(self) -> Array:
        return np.minimum(self.counts, 1.0)


class MondrianForest:
    """Mondrian forest; trees are drawn at prediction, one at a time, to bound memory."""

    def __init__(self, n_estimators: int = 10, seed: int = 0) -> None:
        self.n_estimators = n_estimators
        self.seed = seed

    def fit(self, X: Array, y: NDArray[Any]) -> Self:
        self.classes_, self.slots_ = np.unique(y, return_inverse=True)
        self.least_ = X.min(axis=0)
        extent = X.max(axis=0) - self.least_
        self.extent_ = np.where(extent > 0, extent, 1.0)
        self.X_ = (X - self.least_) / self.extent_
        return self

    def predict_proba(self, X: Array) -> Array:
        asked = (X - self.least_) / self.extent_
        shares = np.zeros((len(X), len(self.classes_)))
        for tree in range(self.n_estimators):
            rng = np.random.default_rng([self.seed, tree])
            root = drawn_tree(self.X_, self.slots_, len(self.classes_), rng)
            shares += answers(root, asked)
        return shares / self.n_estimators

    def predict(self, X: Array) -> NDArray[Any]:
        named: NDArray[Any] = self.classes_[self.predict_proba(X).argmax(axis=1)]
        return named


def drawn_tree(X: Array, slots: Indices, n_classes: int, rng: np.random.Generator) -> Node:
    """Draw a Mondrian tree over the examples, with the counts needed for predictions."""

    def node(rows: Indices) -> Node:
        own = X[rows]
        counts = np.bincount(slots[rows], minlength=n_classes).astype(float)
        return Node(own.min(axis=0), own.max(axis=0), np.inf, counts)

    root = node(np.arange(len(X)))
    open_nodes, split = [(root, np.arange(len(X)))], []
    while open_nodes:
        here, rows = open_nodes.pop()
        sides = here.upper - here.lower
        if np.count_nonzero(here.counts) == 1 or not sides.any():
            continue
        length = sides.cumsum()
        here.wait = rng.exponential(1.0 / length[-1])
        here.feature = int(np.searchsorted(length, rng.random() * length[-1], side="right"))
        here.threshold = rng.uniform(here.lower[here.feature], here.upper[here.feature])
        right = X[rows, here.feature] > here.threshold
        for part in (rows[~right], rows[right]):
            here.children.append(node(part))
            open_nodes.append((here.children[-1], part))
        split.append(here)
    for here in reversed(split):  # children before their parents
        here.counts = np.sum([child.tables for child in here.children], axis=0)
    return root


def answers(root: Node, X: Array) -> Array:
    """Class probabilities of examples in one tree."""
    discount = DISCOUNT * X.shape[1]
    n_classes = len(root.counts)
    shares = np.zeros((len(X), n_classes))
    ways = [(root, np.arange(len(X)), np.ones(len(X)), np.full(n_classes, 1.0 / n_classes))]
    while ways:
        here, rows, staying, above = ways.pop()
        own = X[rows]
        outside = np.maximum(own - here.upper, 0.0) + np.maximum(here.lower - own, 0.0)
        distance = outside.sum(axis=1)
        with np.errstate(invalid="ignore"):  # inf * 0: never leaves its own box
            leaving = np.where(distance > 0, -np.expm1(-here.wait * distance), 0.0)
        tables = here.tables
        # The expected discount of a node inserted at a random time before this one was split.
        rate = distance + discount
        reached = -np.expm1(-rate * here.wait)
        faded = np.divide(
            distance * reached, rate * leaving, out=np.zeros(len(rows)), where=leaving > 0
        )
        inserted = (1 - faded)[:, None] * (tables / tables.sum()) + faded[:, None] * above
        shares[rows] += (staying * leaving)[:, None] * inserted
        staying = staying * (1 - leaving)
        fading = np.exp(-discount * here.wait)
        mixed = here.counts - fading * tables + fading * tables.sum() * above
        mixed = mixed / here.counts.sum()
        if not here.children:
            shares[rows] += staying[:, None] * mixed
            continue
        right = own[:, here.feature] > here.threshold
        for child, chosen in zip(here.children, (~right, right), strict=True):
            if chosen.any():
                ways.append((child, rows[chosen], staying[chosen], mixed))
    return shares
