"""everlearn: open-ended visual learning. Show it an example and a name, and it knows it at once."""

from typing import TYPE_CHECKING, Any

from everlearn.names import HOME, find

if TYPE_CHECKING:
    from everlearn.checks import check_learner
    from everlearn.learners.exstream import ExStream
    from everlearn.learners.forest.ncm_forest import NCMForest
    from everlearn.learners.forest.svm_forest import SVMForest
    from everlearn.learners.ncm import NearestClassMean
    from everlearn.learners.rlsc import RecursiveRLSC
    from everlearn.learners.slda import StreamingLDA
    from everlearn.learners.whitening import InitialWhitening
    from everlearn.memory.learner import Learner
    from everlearn.persistence import load, save
    from everlearn.pipeline import StreamPipeline
    from everlearn.subspace.robust import RobustStreamingPCA
    from everlearn.subspace.streaming import StreamingPCA
    from everlearn.transfer.least_squares_svm import LeastSquaresSVM
    from everlearn.transfer.multi_kt import MultiKT
    from everlearn.transfer.online_transfer import OnlineTransfer
    from everlearn.transfer.passive_aggressive import PassiveAggressive
    from everlearn.transfer.transfer_classifier import TransferClassifier
    from everlearn.transfer.trol import TROL
    from everlearn.transfer.trol_plus import TROLPlus

__all__ = [
    "TROL",
    "ExStream",
    "InitialWhitening",
    "Learner",
    "LeastSquaresSVM",
    "MultiKT",
    "NCMForest",
    "NearestClassMean",
    "OnlineTransfer",
    "PassiveAggressive",
    "RecursiveRLSC",
    "RobustStreamingPCA",
    "SVMForest",
    "StreamPipeline",
    "StreamingLDA",
    "StreamingPCA",
    "TROLPlus",
    "TransferClassifier",
    "check_learner",
    "load",
    "save",
]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name not in HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = find(name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
