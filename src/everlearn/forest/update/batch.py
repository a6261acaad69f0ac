"""The input of an update: new examples for a tree."""

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
        1 for a batch with a new class; otherwise the weight of the batch as a share of the average
        weight of a class, at most 1.
    """

    rows: TreeRows
    arrived: Ints
    intensity: float
