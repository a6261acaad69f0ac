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


def plain_arrays(tree: "Tree") -> Arrays:
    """A tree as arrays, without the room it has for more."""
    nodes, members, vectors = (int(count) for count in tree.used)
    return {
        **{f"node.{name}": tree.nodes[name][:nodes] for name in tree.nodes.dtype.names or ()},
        "member_slot": tree.member_slot[:members],
        "member_side": tree.member_side[:members],
        "vectors": tree.vectors[:vectors],
        "half_square": tree.half_square[:vectors],
        **{f"link.{name}": tree.links[name] for name in tree.links.dtype.names or ()},
        "used": tree.used,
        "random": tree.random,
    }


def tree_from(parts: Arrays) -> "Tree":
    """What :func:`plain_arrays` took apart."""
    from everlearn.kernels.forest.tree import LINK, NODE, Tree

    n_nodes, n_rows = len(parts["node.left"]), len(parts["link.leaf"])
    n_members, n_vectors = len(parts["member_slot"]), len(parts["vectors"])
    nodes, links = np.empty(n_nodes, NODE), np.empty(n_rows, LINK)
    # Files of the first version have no limits: nodes without one are grown again when next due.
    parts = {"node.limit": np.zeros(n_nodes, np.float32)} | parts
    for name in NODE.names or ():
        nodes[name] = stored(parts, f"node.{name}", n_nodes, dtype=NODE[name])
    for name in LINK.names or ():
        links[name] = stored(parts, f"link.{name}", n_rows, dtype=LINK[name])
    return Tree(
        nodes=nodes,
        member_slot=stored(parts, "member_slot", n_members, dtype=np.int32),
        member_side=stored(parts, "member_side", n_members, dtype=np.uint8),
        vectors=stored(parts, "vectors", n_vectors, None, dtype=np.float32),
        half_square=stored(parts, "half_square", n_vectors, dtype=np.float32),
        links=links,
        used=stored(parts, "used", 3, dtype=np.int64),
        random=stored(parts, "random", 1, dtype=np.uint64),
    )


def require_a_tree(tree: "Tree", kind: int, examples: Examples) -> None:
    """``ValueError`` unless every number in a tree points to where it should."""
    counts = [len(tree.nodes), len(tree.member_slot), len(tree.vectors)]
    _require(tree.used.tolist() == counts, "says it has other parts than it has")
    _require(tree.vectors.shape[1] == examples.X.shape[1], "has vectors of another length")
    _require(len(tree.links) <= len(examples.slot), "holds examples that are not stored")
    _require(_within(tree.member_slot, NONE, examples.n_slots), "has members of no class")
    _require(_within(tree.member_side, 0, 2), "sends classes to no side")
    if len(tree.nodes):
        _require_nodes(tree.nodes, tree, kind)
    _require_links(tree.nodes, tree.links, examples.slot)


def _require_nodes(nodes: NDArray[Any], tree: "Tree", kind: int) -> None:
    from everlearn.kernels.forest.tree import AXIS, DEAD, NCM

    alive = nodes["parent"] != DEAD
    inner = np.flatnonzero(alive & (nodes["left"] != NONE))
    splits = nodes[inner]
    n = len(nodes)
    _require(nodes["parent"][0] == NONE, "has a root with a parent")
    _require(_within(splits["left"], 1, n) and _within(splits["right"], 1, n), "has lost branches")
    # With one parent each, which agrees, children can neither be shared nor form a circle.
    parent = nodes["parent"]
    agree = (parent[splits["left"]] == inner) & (parent[splits["right"]] == inner)
    agree &= splits["left"] != splits["right"]
    _require(bool(np.all(agree)), "has branches that cross")
    members = _within_parts(splits["member"], splits["size"], len(tree.member_slot))
    _require(members, "has nodes with members it does not have")
    if kind == NCM:
        _require(bool(np.all(splits["size"] > 0)), "has nodes without centroids")
    n_vectors = splits["size"] if kind == NCM else np.ones_like(splits["size"])
    available = tree.vectors.shape[1] if kind == AXIS else len(tree.vectors)
    vectors = _within_parts(splits["vector"], n_vectors, available)
    _require(vectors, "has nodes with vectors it does not have")


def _require_links(nodes: NDArray[Any], links: NDArray[Any], slot: NDArray[np.int32]) -> None:
    from everlearn.kernels.forest.tree import DEAD

    n, n_rows = len(nodes), len(links)
    leaf, after, before = links["leaf"], links["next"], links["previous"]
    _require(_within(leaf, NONE, n), "has examples in no leaf")
    held = np.flatnonzero(leaf != NONE)
    _require(bool(np.all(slot[held] != NONE)), "holds examples that are not stored")
    _require(bool(np.all(nodes["left"][leaf[held]] == NONE)), "has examples above the leaves")
    _require(_within(after[held], NONE, n_rows) and _within(before[held], NONE, n_rows), LISTS)
    last, first = after[held] == NONE, before[held] == NONE
    follower, leader = after[held[~last]], before[held[~first]]
    _require(bool(np.all(before[follower] == held[~last])), LISTS)
    _require(bool(np.all(after[leader] == held[~first])), LISTS)
    _require(bool(np.all(leaf[follower] == leaf[held[~last]])), LISTS)
    head = np.where(nodes["parent"] == DEAD, NONE, nodes["head"])
    _require(_within(head, NONE, n_rows), LISTS)
    heads = np.flatnonzero(head != NONE)
    _require(
        bool(np.all(before[head[heads]] == NONE) and np.all(leaf[head[heads]] == heads)), LISTS
    )
    _require(bool(np.all(head[leaf[held[first]]] == held[first])), LISTS)


LISTS = "has lists of examples that cross"


def _within(numbers: NDArray[Any], least: int, end: int) -> bool:
    return bool(np.all((numbers >= least) & (numbers < end)))


def _within_parts(first: NDArray[Any], count: NDArray[Any], end: int) -> bool:
    begin = first.astype(np.int64)
    return bool(np.all((begin >= 0) & (count >= 0) & (begin + count <= end)))


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise ValueError(f"a tree {what}")
