"""RTST, retrain subtree (Sec. 4.3): some nodes become leaves again and grow anew, from all classes.

π of the splitting nodes are drawn (Sec. 4.5). π = 0 is IGT; a draw of the root is a new tree. The
examples below a node that is drawn pay for its growth, however long ago they came.

Against the paper: new examples are passed down before nodes are drawn, so that the quality of a
node speaks of all classes; the root may be drawn.
"""

from everlearn.forest.grow import with_leaves_grown
from everlearn.forest.settings import DEAD, NONE, ForestSettings
from everlearn.forest.tree import Tree, collapse
from everlearn.forest.update import TreeBatch
from everlearn.forest.update.node_sampling import nodes_to_update
from everlearn.forest.update.uls import pass_down


def taught(tree: Tree, batch: TreeBatch, settings: ForestSettings) -> Tree:
    """The tree with new examples in its leaves, and nodes drawn and leaves reached grown."""
    touched = pass_down(tree, batch, settings)
    for node in nodes_to_update(tree, batch, settings).tolist():
        # A node below one that was drawn before it is gone.
        if tree.nodes["parent"][node] != DEAD and tree.nodes["left"][node] != NONE:
            collapse(tree, node)
            touched[node] = True
    return with_leaves_grown(tree, batch.rows, touched, settings)
