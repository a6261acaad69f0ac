"""everlearn: open-ended visual learning. Show it an example and a name, and it knows it at once."""

from everlearn.learners.ncm import NearestClassMean
from everlearn.persistence import load, save
from everlearn.subspace.streaming import StreamingPCA

__all__ = ["NearestClassMean", "StreamingPCA", "load", "save"]
__version__ = "0.1.0"
