from .least_squares_svm import LeastSquaresSVM as LeastSquaresSVM
from .multi_kt import MultiKT as MultiKT
from .online_transfer import OnlineTransfer as OnlineTransfer
from .passive_aggressive import PassiveAggressive as PassiveAggressive
from .transfer_classifier import TransferClassifier as TransferClassifier
from .trol import TROL as TROL
from .trol_plus import TROLPlus as TROLPlus

__all__: list[str]
