"""The path of one example through a tree, as data and as a picture (Fig. 15).

Every node lists its classes, the side of each, the distance of its centroid from the example, and
the stored examples of its cell that are nearest to that centroid. Examples are given by their
ordinal, 0 = first, so they can be looked up in a list of images in the order of teaching.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from everlearn.errors import InvalidParameter
from everlearn.forest.classifier import ForestClassifier
from everlearn.forest.grove import Grove
from everlearn.forest.settings import NONE
from everlearn.statistics.labels import Label

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Member:
    """One of the classes that decide at a node.

    ``label`` is ``None`` if the class was forgotten since. ``distance`` (in whitened features) and
    ``examples`` refer to its centroid, and are empty if the node has none.
    """

    label: Label | None
    goes_right: bool
    distance: float | None
    examples: tuple[int, ...]


@dataclass(frozen=True)
class Step:
    """One node of the path: a decision or, at the end, a leaf with its class distribution."""

    depth: int
    node: int
    n_examples: int
    members: tuple[Member, ...]
    nearest: int | None
    margin: float | None
    goes_right: bool | None
    distribution: dict[Label, float]


def path(
    forest: ForestClassifier, x: ArrayLike, *, tree: int = 0, n_examples: int = 3
) -> list[Step]:
    """The nodes on the path of an example in one tree, from the root to its leaf.

    Parameters
    ----------
    forest : NCMForest or SVMForest
    x : array-like of shape (n_features,)
    tree : int, default=0
        Which tree; the trees of a merged forest are numbered consecutively.
    n_examples : int, default=3
        Number of nearest stored examples listed for each centroid.

    Returns
    -------
    list of Step
        The last is the leaf; its ``distribution`` is the tree's answer.
    """
    from everlearn.forest.tree import rows_below

    forest = forest._as_it_is()
    forest._require_fitted()
    grove, number = _find(forest, tree)
    arrays = grove.trees[number]
    whitened = grove.whitening(forest._vector(x, "path")[None])
    steps: list[Step] = []
    node = 0
    while True:
        rows = rows_below(arrays, node)
        record = arrays.nodes[node]
        if record["left"] == NONE:
            shares = _shares(forest, grove, rows)
            steps.append(Step(len(steps), node, len(rows), (), None, None, None, shares))
            return steps
        step = _decision(forest, grove, arrays, node, rows, whitened[0], n_examples)
        steps.append(Step(len(steps), node, len(rows), *step, _shares(forest, grove, rows)))
        node = int(record["right"] if steps[-1].goes_right else record["left"])


def draw(
    steps: Sequence[Step],
    image_of: Callable[[int], NDArray[Any]],
    *,
    image: NDArray[Any] | None = None,
    most_members: int = 5,
) -> "Figure":
    """Draw a path: one row per node, each centroid shown as its nearest examples.

    Frames are dashed for centroids that send left, dotted for right, and thick around the nearest,
    as in Fig. 15 of Ristin et al.

    Parameters
    ----------
    steps : result of :func:`path`, of an NCM forest
    image_of : callable
        The image of an example by its number.
    image : ndarray, optional
        The example whose path it is, shown on top.
    most_members : int, default=5
        Centroids per row; those nearest to the example come first.
    """
    from matplotlib.figure import Figure

    decisions = [step for step in steps if step.nearest is not None]
    per_member = max((len(m.examples) for step in decisions for m in step.members), default=1)
    per_member = max(per_member, 1)
    n_columns = most_members * per_member
    figure = Figure(figsize=(0.9 * n_columns, 1.35 * (len(decisions) + 1)), layout="constrained")
    grid = figure.subplots(len(decisions) + 1, n_columns, squeeze=False)
    for cell in grid.ravel():
        cell.axis("off")
    if image is not None:
        grid[0, 0].imshow(image, cmap="gray")
    leaf = max(steps[-1].distribution.items(), key=lambda item: item[1])
    grid[0, 0].set_title(f"→ {leaf[0]} ({leaf[1]:.0%})", loc="left", fontsize=9)
    for row, step in zip(grid[1:], decisions, strict=True):
        order = sorted(range(len(step.members)), key=lambda m: step.members[m].distance or 0.0)
        for position, index in enumerate(order[:most_members]):
            member = step.members[index]
            cells = row[position * per_member : (position + 1) * per_member]
            cells[0].set_title(f"{member.label}", loc="left", fontsize=7)
            for cell, example in zip(cells, member.examples, strict=False):
                cell.imshow(image_of(example), cmap="gray")
                cell.axis("on")
                cell.set_xticks([])
                cell.set_yticks([])
                for edge in cell.spines.values():
                    edge.set_linestyle(":" if member.goes_right else "--")
                    edge.set_linewidth(3.0 if index == step.nearest else 1.0)
    return figure


def _find(forest: ForestClassifier, tree: int) -> tuple[Grove, int]:
    number = tree
    for grove in forest.groves_:
        if 0 <= number < len(grove.trees):
            return grove, number
        number -= len(grove.trees)
    raise InvalidParameter(f"tree must be a number from 0 to {forest.n_trees_ - 1}, not {tree!r}")


def _shares(forest: ForestClassifier, grove: Grove, rows: NDArray[Any]) -> dict[Label, float]:
    """The class distribution of some stored examples."""
    stored = grove.examples.rows()
    weights = np.bincount(stored.slot[rows], stored.weight[rows], grove.examples.n_slots)
    total = weights.sum()
    return {
        forest._label_at(int(slot)): float(weights[slot] / total)
        for slot in np.flatnonzero(weights)
    }


def _decision(
    forest: ForestClassifier,
    grove: Grove,
    tree: Any,
    node: int,
    rows: NDArray[Any],
    x: NDArray[np.float32],
    n_examples: int,
) -> tuple[tuple[Member, ...], int | None, float | None, bool]:
    """Members, the nearest of them, the margin, and the next node."""
    record, vectors = tree.nodes[node], tree.vectors_of(node)
    slots, sides = tree.members_of(node)["slot"], tree.members_of(node)["side"]
    labels = [None if slot == NONE else forest.registry_.by_slot[slot] for slot in slots]
    if not len(vectors):
        margin = float(x[record["feature"]] - record["threshold"])
        return (), None, margin, margin > 0
    if len(vectors) == 1:
        margin = float(x @ vectors[0] - record["threshold"])
        known = tuple(
            Member(label, bool(side), None, ()) for label, side in zip(labels, sides, strict=True)
        )
        return known, None, margin, margin > 0
    centroids = vectors.astype(float)
    here = grove.examples.X[rows].astype(float)
    to_centroids = np.linalg.norm(here[:, None] - centroids[None], axis=2)
    distances = np.linalg.norm(centroids - x, axis=1)
    found = []
    for member, label in enumerate(labels):
        cell = np.flatnonzero(to_centroids.argmin(axis=1) == member)
        closest = cell[np.argsort(to_centroids[cell, member], kind="stable")[:n_examples]]
        numbers = tuple(int(n) for n in grove.examples.number[rows[closest]])
        found.append(Member(label, bool(sides[member]), float(distances[member]), numbers))
    nearest = int(distances.argmin())
    return tuple(found), nearest, None, bool(sides[nearest])
