"""IGT, incrementally grow tree (Sec. 4.2): leaves that received examples are grown.

Existing splitting functions stay. This is ULS followed by growing the leaves reached.
"""

from everlearn.forest.grow import with_leaves_grown
from everlearn.forest.settings import ForestSettings
from everlearn.forest.tree import Tree
from everlearn.forest.update.batch import TreeBatch
from everlearn.forest.update.uls import pass_down


def taught(tree: Tree, batch: TreeBatch, settings: ForestSettings) -> Tree:
    """The tree with new examples in its leaves, and those leaves grown."""
    touched = pass_down(tree, batch, settings)
    return with_leaves_grown(tree, batch.rows, touched, settings)
