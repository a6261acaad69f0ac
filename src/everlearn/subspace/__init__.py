"""Eigenspaces that learn image by image, and repair what they are shown."""

from everlearn.subspace.robust import RobustStreamingPCA
from everlearn.subspace.streaming import StreamingPCA

__all__ = ["RobustStreamingPCA", "StreamingPCA"]
