"""everlearn: open-ended visual learning. Show it an example and a name, and it knows it at once."""

from everlearn.learners.ncm import NearestClassMean
from everlearn.learners.rlsc import RecursiveRLSC
from everlearn.learners.slda import StreamingLDA
from everlearn.persistence import load, save

__all__ = ["NearestClassMean", "RecursiveRLSC", "StreamingLDA", "load", "save"]
__version__ = "0.1.0"
