"""ULS, update leaf statistics (Sec. 4.1): new examples join the leaves they fall into.

P_l(κ) changes, the structure of the tree does not. An example costs O(depth) splitting functions.
"""

import numpy as np
from numpy.typing import NDArray

from everlearn.forest.route import leaves_of
from everlearn.forest.settings import ROOT, ForestSettings
from everlearn.forest.tree import Tree, insert_rows
from everlearn.forest.update.batch import TreeBatch


def taught(tree: Tree, batch: TreeBatch, settings: ForestSettings) -> Tree:
    """The tree with new examples in its leaves."""
    pass_down(tree, batch, settings)
    return tree


def pass_down(tree: Tree, batch: TreeBatch, settings: ForestSettings) -> NDArray[np.bool_]:
    """Put new examples into their leaves; returns a mask of these leaves."""
    leaves = leaves_of(tree, settings.split, ROOT, batch.rows.X, batch.arrived)
    insert_rows(tree, batch.arrived, leaves)
    touched = np.zeros(len(tree.nodes), np.bool_)
    touched[leaves] = True
    return touched
