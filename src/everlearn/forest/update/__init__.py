"""Updates of an existing tree (Sec. 4), one file each, from cheap to accurate.

uls.py    update leaf statistics            igt.py    also grow leaves
rust.py   also reuse subtrees               rtst.py   also retrain subtrees
auto.py   regrow outgrown nodes             node_sampling.py   which nodes RTST and RUST take

Each has one function, ``taught(tree, batch, settings)``, which may change ``tree`` and returns the
updated tree.
"""

from typing import NamedTuple

from everlearn.forest.buffers import Ints
from everlearn.forest.tree import TreeRows


class TreeBatch(NamedTuple):
    """New examples.

    Attributes
    ----------
    rows : all stored examples, including the new ones
    arrived : the indices of the new examples
    intensity : float
        1 for a batch with a new class; otherwise its weight as a share of a class.
    """

    rows: TreeRows
    arrived: Ints
    intensity: float
