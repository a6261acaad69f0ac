from .checks import check_learner as check_learner
from .cluster.sharded_model import ShardedModel as ShardedModel
from .cluster.sharded_model import Trained as Trained
from .forest.ncm_forest import NCMForest as NCMForest
from .forest.svm_forest import SVMForest as SVMForest
from .images.embedders import EfficientNetLite0 as EfficientNetLite0
from .images.embedders import OnnxEmbedder as OnnxEmbedder
from .images.embedders import Pixels as Pixels
from .images.torch_embedder import TorchEmbedder as TorchEmbedder
from .learners.auto.classifier import AutoClassifier as AutoClassifier
from .learners.exstream import ExStream as ExStream
from .learners.fixed_lda import FixedCovarianceLDA as FixedCovarianceLDA
from .learners.lda import StreamingLDA as StreamingLDA
from .learners.ncm import NearestClassMean as NearestClassMean
from .learners.rlsc import RecursiveRLSC as RecursiveRLSC
from .learners.window import SlidingWindow as SlidingWindow
from .memory.memory import Memory as Memory
from .persistence import load as load
from .persistence import register as register
from .persistence import save as save
from .pipeline import StreamPipeline as StreamPipeline
from .preprocessing.class_whitening import ClassWhitening as ClassWhitening
from .preprocessing.normalization import PowerNormalizer as PowerNormalizer
from .preprocessing.random_features import RandomFeatures as RandomFeatures
from .preprocessing.whitening import InitialWhitening as InitialWhitening
from .service.client import Client as Client
from .subspace.robust import RobustStreamingPCA as RobustStreamingPCA
from .subspace.streaming import StreamingPCA as StreamingPCA
from .transfer.least_squares_svm import LeastSquaresSVM as LeastSquaresSVM
from .transfer.multi_kt import MultiKT as MultiKT
from .transfer.online_transfer import OnlineTransfer as OnlineTransfer
from .transfer.passive_aggressive import PassiveAggressive as PassiveAggressive
from .transfer.transfer_classifier import TransferClassifier as TransferClassifier
from .transfer.trol import TROL as TROL
from .transfer.trol_plus import TROLPlus as TROLPlus

__all__: list[str]
__version__: str
