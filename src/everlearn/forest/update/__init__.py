"""Teaching a tree that exists (Sec. 4). Each file is one way, from cheap to accurate.

uls.py    update leaf statistics            igt.py    also grow leaves
rust.py   also reuse subtrees               rtst.py   also retrain subtrees
auto.py   grow again what is outgrown       node_sampling.py   which nodes RTST and RUST take

All have one function, ``taught(tree, batch, settings)``, which may change ``tree`` and returns
the tree after the batch.
"""

from typing import NamedTuple

from everlearn.forest.buffers import Ints
from everlearn.forest.tree import TreeRows


class TreeBatch(NamedTuple):
    """New examples.

    Attributes
    ----------
    rows : everything stored, the new examples among it
    arrived : where the new examples are
    intensity : float
        1 for a batch that brings a new class; for others, what it brings as a share of a class.
    """

    rows: TreeRows
    arrived: Ints
    intensity: float
