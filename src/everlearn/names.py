"""Where each public name lives.

Names are looked up when they are first used, so ``import everlearn`` costs nothing and a program
waits only for the rooms it enters. The same table says which classes a model file may name.
"""

from importlib import import_module
from typing import Any

HOME = {
    "check_learner": "everlearn.checks",
    "ExStream": "everlearn.learners.exstream",
    "InitialWhitening": "everlearn.learners.whitening",
    "Learner": "everlearn.memory.learner",
    "LeastSquaresSVM": "everlearn.transfer.least_squares_svm",
    "load": "everlearn.persistence",
    "MultiKT": "everlearn.transfer.multi_kt",
    "NCMForest": "everlearn.learners.forest.ncm_forest",
    "NearestClassMean": "everlearn.learners.ncm",
    "OnlineTransfer": "everlearn.transfer.online_transfer",
    "PassiveAggressive": "everlearn.transfer.passive_aggressive",
    "RecursiveRLSC": "everlearn.learners.rlsc",
    "RobustStreamingPCA": "everlearn.subspace.robust",
    "save": "everlearn.persistence",
    "StreamingLDA": "everlearn.learners.slda",
    "StreamingPCA": "everlearn.subspace.streaming",
    "StreamPipeline": "everlearn.pipeline",
    "SVMForest": "everlearn.learners.forest.svm_forest",
    "TransferClassifier": "everlearn.transfer.transfer_classifier",
    "TROL": "everlearn.transfer.trol",
    "TROLPlus": "everlearn.transfer.trol_plus",
}


def find(name: str) -> Any:
    """The object behind a public name; ``KeyError`` for any other."""
    return getattr(import_module(HOME[name]), name)
