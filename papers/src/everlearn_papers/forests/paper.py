"""Ristin et al. 2015: random forests that grow new classes.

NCM forests (NCMF) and SVM forests (SVMF), trained at once and updated in four ways: leaf
statistics only (ULS), growing leaves (IGT), reusing subtrees (RUST), retraining subtrees (RTST).
The paper's ILSVRC10 is not available; features of CIFAR-100 and Caltech-101 and pixels of Omniglot
replace it. Its figures print few numbers, so the claims of its text are quoted.
"""

from everlearn_papers.forests.further import fifty_trees, memory_budget, smallest_leaf
from everlearn_papers.forests.grids import grids
from everlearn_papers.forests.inside import fig15
from everlearn_papers.forests.large import fig11, fig12, fig13, fig14, table2
from everlearn_papers.forests.parameters import fig4, fig5, fig6, fig7, fig8, fig9, fig10
from everlearn_papers.forests.table1 import table1

TITLE = (
    "Forests: Incremental Learning of Random Forests for Large-Scale Image Classification "
    "(Ristin et al., PAMI 2015)"
)
PARTS = {
    "fig4": fig4,
    "fig5": fig5,
    "fig6": fig6,
    "fig7": fig7,
    "fig8": fig8,
    "fig9": fig9,
    "fig10": fig10,
    "fig11": fig11,
    "fig12": fig12,
    "fig13": fig13,
    "fig14": fig14,
    "fig15": fig15,
    "table1": table1,
    "table2": table2,
    "leaf": smallest_leaf,
    "fifty": fifty_trees,
    "memory": memory_budget,
    "grids": grids,
}
# Run only with --long or --only: takes longer than all other parts of this paper.
LONG = ("table1",)
