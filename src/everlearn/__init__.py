"""everlearn: open-ended visual learning. Show it an example and a name, and it knows it at once."""

from everlearn.checks import check_learner
from everlearn.learners.forest.ncm_forest import NCMForest
from everlearn.learners.forest.svm_forest import SVMForest
from everlearn.learners.ncm import NearestClassMean
from everlearn.learners.rlsc import RecursiveRLSC
from everlearn.learners.slda import StreamingLDA
from everlearn.persistence import load, save

__all__ = [
    "NCMForest",
    "NearestClassMean",
    "RecursiveRLSC",
    "SVMForest",
    "StreamingLDA",
    "check_learner",
    "load",
    "save",
]
__version__ = "0.1.0"
