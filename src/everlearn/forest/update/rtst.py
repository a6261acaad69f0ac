"""RTST, retrain subtree (Sec. 4.3): drawn nodes become leaves again and are grown from all classes.

A share π of the splitting nodes is drawn (Sec. 4.5). π = 0 is IGT; drawing the root gives a new
tree. Growing a drawn node costs in proportion to all examples below it, however old.

Deviations from the paper: new examples are passed down before nodes are drawn, so that the quality
of a node includes all classes; the root may be drawn.
"""

from everlearn.forest.grow import with_leaves_grown
from everlearn.forest.settings import DEAD, NONE, ForestSettings
from everlearn.forest.tree import Tree, collapse
from everlearn.forest.update.batch import TreeBatch
from everlearn.forest.update.node_sampling import nodes_to_update
from everlearn.forest.update.uls import pass_down


def taught(tree: Tree, batch: TreeBatch, settings: ForestSettings) -> Tree:
    """The tree with new examples in its leaves; drawn nodes and reached leaves are grown."""
    touched = pass_down(tree, batch, settings)
    for node in nodes_to_update(tree, batch, settings).tolist():
        # A node below one that was drawn before it no longer exists.
        if tree.nodes["parent"][node] != DEAD and tree.nodes["left"][node] != NONE:
            collapse(tree, node)
            touched[node] = True
    return with_leaves_grown(tree, batch.rows, touched, settings)
