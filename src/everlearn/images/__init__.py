"""Images in, vectors out: decoding under hard limits, and embedders."""

from everlearn.images.decode import Limits, decode
from everlearn.images.embedders import (
    EfficientNetLite0,
    Embedder,
    OnnxEmbedder,
    Pixels,
)
from everlearn.images.shipped import EfficientNetLite2, PPLCNetV2
from everlearn.images.side_by_side import SideBySide
from everlearn.images.torch_embedder import TorchEmbedder

__all__ = [
    "EfficientNetLite0",
    "EfficientNetLite2",
    "Embedder",
    "Limits",
    "OnnxEmbedder",
    "PPLCNetV2",
    "Pixels",
    "SideBySide",
    "TorchEmbedder",
    "decode",
]
