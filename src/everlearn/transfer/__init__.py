"""Learning a new class from what is already known."""

from everlearn.transfer.multi_kt import MultiKT
from everlearn.transfer.online_transfer import OnlineTransfer
from everlearn.transfer.transfer_classifier import TransferClassifier
from everlearn.transfer.trol import TROL
from everlearn.transfer.trol_plus import TROLPlus

__all__ = ["TROL", "MultiKT", "OnlineTransfer", "TROLPlus", "TransferClassifier"]
