from .decode import Limits as Limits
from .decode import decode as decode
from .embedders import EfficientNetLite0 as EfficientNetLite0
from .embedders import Embedder as Embedder
from .embedders import OnnxEmbedder as OnnxEmbedder
from .embedders import Pixels as Pixels
from .shipped import EfficientNetLite2 as EfficientNetLite2
from .shipped import PPLCNetV2 as PPLCNetV2
from .side_by_side import SideBySide as SideBySide
from .torch_embedder import TorchEmbedder as TorchEmbedder

__all__: list[str]
