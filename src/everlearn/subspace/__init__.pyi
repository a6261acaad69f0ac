from .robust import RobustStreamingPCA as RobustStreamingPCA
from .streaming import StreamingPCA as StreamingPCA

__all__: list[str]
