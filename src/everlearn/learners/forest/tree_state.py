"""A tree as arrays of plain numbers, and back.

Compiled code follows the numbers in a tree wherever they point. What comes from a file is therefore
checked to be a tree, each example in one leaf, before anything is asked of it.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from everlearn.learners.forest.examples import NONE, Examples
from everlearn.statistics.stored import stored

if TYPE_CHECKING:
    from everlearn.kernels.forest.tree import Tree

Arrays = dict[str, NDArray[Any]]


def plain_arrays(tree: "Tree", n_features: int) -> Arrays:
    """A tree as arrays, without the room it has for more."""
    from everlearn.kernels.forest.tree import gathered_vectors

    nodes, members = (int(count) for count in tree.used)
    vectors, half_squares, counts = gathered_vectors(tree, n_features)
    return {
        **{f"node.{name}": tree.nodes[name][:nodes] for name in tree.nodes.dtype.names or ()},
        "member_slot": tree.member_slot[:members],
        "member_side": tree.member_side[:members],
        "vectors": vectors,
        "half_square": half_squares,
        "vector_count": counts,
        **{f"link.{name}": tree.links[name] for name in tree.links.dtype.names or ()},
        "random": tree.random,
    }


def tree_from(parts: Arrays, kind: int, examples: Examples) -> "Tree":
    """What :func:`plain_arrays` took apart; ``ValueError`` if that is not a tree."""
    from everlearn.kernels.forest.tree import LINK, NODE, Tree, scattered_vectors

    n_nodes, n_rows = len(parts["node.left"]), len(parts["link.leaf"])
    n_members, n_vectors = len(parts["member_slot"]), len(parts["vectors"])
    n_features = examples.X.shape[1]
    nodes, links = np.empty(n_nodes, NODE), np.empty(n_rows, LINK)
    for name in NODE.names or ():
        nodes[name] = stored(parts, f"node.{name}", n_nodes, dtype=NODE[name])
    for name in LINK.names or ():
        links[name] = stored(parts, f"link.{name}", n_rows, dtype=LINK[name])
    counts = stored(parts, "vector_count", n_nodes, dtype=np.int32)
    _require(np.all(counts >= 0) and counts.sum() == n_vectors, "has lost vectors")
    vectors, half_squares = scattered_vectors(
        stored(parts, "vectors", n_vectors, n_features, dtype=np.float32),
        stored(parts, "half_square", n_vectors, dtype=np.float32),
        counts,
    )
    tree = Tree(
        nodes=nodes,
        member_slot=stored(parts, "member_slot", n_members, dtype=np.int32),
        member_side=stored(parts, "member_side", n_members, dtype=np.uint8),
        vectors=vectors,
        half_squares=half_squares,
        links=links,
        used=np.array([n_nodes, n_members]),
        random=stored(parts, "random", 1, dtype=np.uint64),
    )
    _require(_within(tree.member_slot, NONE, examples.n_slots), "has members of no class")
    _require(_within(tree.member_side, 0, 2), "sends classes to no side")
    _require(n_rows <= len(examples.slot), "holds examples that are not stored")
    if n_nodes:
        _require_nodes(nodes, n_members, counts, kind, n_features)
    _require_links(nodes, links, examples.slot)
    return tree


def _require_nodes(
    nodes: NDArray[Any], n_members: int, n_vectors: NDArray[np.int32], kind: int, n_features: int
) -> None:
    from everlearn.kernels.forest.tree import AXIS, DEAD, NCM

    inner = np.flatnonzero((nodes["parent"] != DEAD) & (nodes["left"] != NONE))
    splits, parent, n = nodes[inner], nodes["parent"], len(nodes)
    _require(parent[0] == NONE, "has a root with a parent")
    _require(_within(splits["left"], 1, n) and _within(splits["right"], 1, n), "has lost branches")
    # With one parent each, which agrees, children can neither be shared nor form a circle.
    agree = (parent[splits["left"]] == inner) & (parent[splits["right"]] == inner)
    _require(np.all(agree & (splits["left"] != splits["right"])), "has branches that cross")
    member, size = splits["member"].astype(np.int64), splits["size"]
    inside = (member >= 0) & (size >= 0) & (member + size <= n_members)
    _require(np.all(inside), "has nodes with members it does not have")
    if kind == NCM:
        fits = (n_vectors[inner] == size) & (size > 0)
    elif kind == AXIS:
        fits = (splits["feature"] >= 0) & (splits["feature"] < n_features)
    else:
        fits = n_vectors[inner] == 1
    _require(np.all(fits), "has nodes without the vectors they need")


def _require_links(nodes: NDArray[Any], links: NDArray[Any], slot: NDArray[np.int32]) -> None:
    from everlearn.kernels.forest.tree import DEAD

    n, n_rows = len(nodes), len(links)
    leaf, after, before = links["leaf"], links["next"], links["previous"]
    _require(_within(leaf, NONE, n), "has examples in no leaf")
    held = np.flatnonzero(leaf != NONE)
    _require(np.all(slot[held] != NONE), "holds examples that are not stored")
    _require(np.all(nodes["left"][leaf[held]] == NONE), "has examples above the leaves")
    _require(_within(after[held], NONE, n_rows) and _within(before[held], NONE, n_rows), LISTS)
    last, first = after[held] == NONE, before[held] == NONE
    follower, leader = after[held[~last]], before[held[~first]]
    _require(np.all(before[follower] == held[~last]), LISTS)
    _require(np.all(after[leader] == held[~first]), LISTS)
    _require(np.all(leaf[follower] == leaf[held[~last]]), LISTS)
    head = np.where(nodes["parent"] == DEAD, NONE, nodes["head"])
    _require(_within(head, NONE, n_rows), LISTS)
    heads = np.flatnonzero(head != NONE)
    firsts = (before[head[heads]] == NONE) & (leaf[head[heads]] == heads)
    _require(np.all(firsts), LISTS)
    _require(np.all(head[leaf[held[first]]] == held[first]), LISTS)


LISTS = "has lists of examples that cross"


def _within(numbers: NDArray[Any], least: int, end: int) -> bool:
    return bool(np.all((numbers >= least) & (numbers < end)))


def _require(condition: bool | np.bool, what: str) -> None:
    if not condition:
        raise ValueError(f"a tree {what}")
