from .ncm_forest import NCMForest as NCMForest
from .svm_forest import SVMForest as SVMForest

__all__: list[str]
