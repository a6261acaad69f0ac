"""Converts a tree to plain arrays, and back.

Compiled code follows the indices in a tree without checking them. Arrays from a file are therefore
validated first: they must form a tree, with each stored example in one leaf and every number
finite. Errors name the array that is wrong.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from everlearn.errors import DamagedModel
from everlearn.forest.examples import ExampleStore
from everlearn.forest.settings import DEAD, NONE
from everlearn.statistics.validated import validated_array

if TYPE_CHECKING:
    from everlearn.forest.tree import Tree

Arrays = dict[str, NDArray[Any]]


def plain_arrays(tree: "Tree") -> Arrays:
    """A tree as arrays, without spare capacity."""
    used = tree.used[0]
    nodes = tree.nodes[: used["nodes"]]
    return {
        **{f"node.{name}": nodes[name] for name in nodes.dtype.names or ()},
        "member_slot": tree.members["slot"][: used["members"]],
        "member_side": tree.members["side"][: used["members"]],
        "vectors": tree.vectors[: used["vectors"]],
        "half_square": tree.half_square[: used["vectors"]],
        **{f"link.{name}": tree.links[name] for name in tree.links.dtype.names or ()},
        "random": tree.random,
    }


def tree_from(parts: Arrays, split: Any, examples: ExampleStore) -> "Tree":
    """Inverse of :func:`plain_arrays`; ``DamagedModel`` if the arrays are not a tree."""
    from everlearn.forest.tree import LINK, MEMBER, NODE, USED, Tree

    for name in ("node.left", "link.leaf", "member_slot", "vectors"):
        _require(name in parts, name, "is missing")
    n_nodes, n_rows = len(parts["node.left"]), len(parts["link.leaf"])
    n_members, n_vectors = len(parts["member_slot"]), len(parts["vectors"])
    n_features = examples.X.shape[1]
    nodes, links = np.empty(n_nodes, NODE), np.empty(n_rows, LINK)
    members = np.empty(n_members, MEMBER)
    for name in NODE.names or ():
        nodes[name] = validated_array(parts, f"node.{name}", n_nodes, dtype=NODE[name])
    for name in LINK.names or ():
        links[name] = validated_array(parts, f"link.{name}", n_rows, dtype=LINK[name])
    for name in MEMBER.names or ():
        members[name] = validated_array(parts, f"member_{name}", n_members, dtype=MEMBER[name])
    tree = Tree(
        nodes,
        members,
        validated_array(parts, "vectors", n_vectors, n_features, dtype=np.float32),
        validated_array(parts, "half_square", n_vectors, dtype=np.float32, least=0.0),
        links,
        np.array([(n_nodes, n_members, n_vectors)], USED),
        validated_array(parts, "random", 1, dtype=np.uint64),
    )
    _require(_within(members["slot"], NONE, examples.n_slots), "member_slot", "is not a class")
    _require(_within(members["side"], 0, 2), "member_side", "is not a side")
    _require_nodes(tree, split)
    _require_links(nodes, links, examples.slot)
    return tree


def _require_nodes(tree: "Tree", split: Any) -> None:
    nodes, n = tree.nodes, len(tree.nodes)
    _require(n > 0, "node.left", "has no root")
    inner = np.flatnonzero((nodes["parent"] != DEAD) & (nodes["left"] != NONE))
    splits, parent = nodes[inner], nodes["parent"]
    _require(parent[0] == NONE, "node.parent", "gives the root a parent")
    _require(_within(parent, DEAD, n), "node.parent", "is not a node")
    for child in ("left", "right"):
        _require(_within(splits[child], 1, n), f"node.{child}", "is not a node")
        # With one matching parent each, children can be neither shared nor circular.
        _require(np.all(parent[splits[child]] == inner), f"node.{child}", "crosses node.parent")
    _require(np.all(splits["left"] != splits["right"]), "node.right", "is node.left")
    # Leaves too: they own nothing, but the count is used when a tree is packed.
    live = nodes[parent != DEAD]
    for first, count, end, name in (
        (live["member"], live["size"], len(tree.members), "node.member"),
        (live["vector"], live["n_vectors"], len(tree.vectors), "node.vector"),
    ):
        inside = (first >= 0) & (count >= 0) & (first.astype(np.int64) + count <= end)
        _require(np.all(inside | (count == 0)), name, "points to unused entries")
    fits = np.all(split.fits(splits, tree.vectors.shape[1]))
    _require(fits, "node.n_vectors", "does not match this kind of forest")
    _require(np.all(nodes["limit"] >= 0), "node.limit", "is not a weight")


def _require_links(nodes: NDArray[Any], links: NDArray[Any], slot: NDArray[np.int32]) -> None:
    n, n_rows = len(nodes), len(links)
    leaf, after, before = links["leaf"], links["next"], links["previous"]
    _require(n_rows <= len(slot), "link.leaf", "has more rows than there are examples")
    _require(_within(leaf, NONE, n), "link.leaf", "is not a node")
    held = np.flatnonzero(leaf != NONE)
    stored_rows = np.flatnonzero(slot != NONE)
    _require(np.array_equal(held, stored_rows), "link.leaf", "is not one leaf for each example")
    splits = (nodes["left"] != NONE) | (nodes["parent"] == DEAD)
    _require(not splits[leaf[held]].any(), "link.leaf", "is not a leaf")
    _require(_within(after[held], NONE, n_rows), "link.next", CROSSING)
    _require(_within(before[held], NONE, n_rows), "link.previous", CROSSING)
    last, first = after[held] == NONE, before[held] == NONE
    follower, leader = after[held[~last]], before[held[~first]]
    _require(np.all(before[follower] == held[~last]), "link.previous", CROSSING)
    _require(np.all(after[leader] == held[~first]), "link.next", CROSSING)
    _require(np.all(leaf[follower] == leaf[held[~last]]), "link.leaf", CROSSING)
    head = np.where(splits, NONE, nodes["head"])
    _require(np.array_equal(head, nodes["head"]), "node.head", "is set where there is no leaf")
    _require(_within(head, NONE, n_rows), "node.head", CROSSING)
    heads = np.flatnonzero(head != NONE)
    firsts = (before[head[heads]] == NONE) & (leaf[head[heads]] == heads)
    _require(np.all(firsts), "node.head", CROSSING)
    _require(np.all(head[leaf[held[first]]] == held[first]), "node.head", CROSSING)


CROSSING = "makes lists of examples that cross"


def _within(numbers: NDArray[Any], least: int, end: int) -> bool:
    return bool(np.all((numbers >= least) & (numbers < end)))


def _require(condition: bool | np.bool, name: str, what: str) -> None:
    if not condition:
        raise DamagedModel(f"trees.{name} {what}")
