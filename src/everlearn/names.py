"""Where each public name lives.

Names are looked up when they are first used, so ``import everlearn`` costs nothing and a program
waits only for the rooms it enters. The same table says which classes a model file may name.
"""

from importlib import import_module
from typing import Any

HOME = {
    "ExStream": "everlearn.learners.exstream",
    "Learner": "everlearn.memory.learner",
    "NearestClassMean": "everlearn.learners.ncm",
    "RecursiveRLSC": "everlearn.learners.rlsc",
    "StreamingLDA": "everlearn.learners.slda",
    "LeastSquaresSVM": "everlearn.transfer.least_squares_svm",
    "MultiKT": "everlearn.transfer.multi_kt",
    "OnlineTransfer": "everlearn.transfer.online_transfer",
    "PassiveAggressive": "everlearn.transfer.passive_aggressive",
    "TROL": "everlearn.transfer.trol",
    "TROLPlus": "everlearn.transfer.trol_plus",
    "TransferClassifier": "everlearn.transfer.transfer_classifier",
    "check_learner": "everlearn.checks",
    "load": "everlearn.persistence",
    "save": "everlearn.persistence",
}


def find(name: str) -> Any:
    """The object behind a public name; ``KeyError`` for any other."""
    return getattr(import_module(HOME[name]), name)
