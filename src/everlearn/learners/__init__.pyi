from .auto.classifier import AutoClassifier as AutoClassifier
from .exstream import ExStream as ExStream
from .fixed_lda import FixedCovarianceLDA as FixedCovarianceLDA
from .lda import StreamingLDA as StreamingLDA
from .ncm import NearestClassMean as NearestClassMean
from .rlsc import RecursiveRLSC as RecursiveRLSC
from .window import SlidingWindow as SlidingWindow

__all__: list[str]
