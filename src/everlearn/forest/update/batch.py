"""New examples for a tree, as every update gets them."""

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
