"""Learners: one algorithm, one file."""

from everlearn.learners.auto import AutoClassifier
from everlearn.learners.exstream import ExStream
from everlearn.learners.fixed_lda import FixedCovarianceLDA
from everlearn.learners.least_squares_svm import LeastSquaresSVM
from everlearn.learners.ncm import NearestClassMean
from everlearn.learners.normalization import PowerNormalizer
from everlearn.learners.passive_aggressive import PassiveAggressive
from everlearn.learners.random_features import RandomFeatures
from everlearn.learners.rlsc import RecursiveRLSC
from everlearn.learners.slda import StreamingLDA
from everlearn.learners.whitening import InitialWhitening
from everlearn.learners.window import SlidingWindow

__all__ = [
    "AutoClassifier",
    "ExStream",
    "FixedCovarianceLDA",
    "InitialWhitening",
    "LeastSquaresSVM",
    "NearestClassMean",
    "PassiveAggressive",
    "PowerNormalizer",
    "RandomFeatures",
    "RecursiveRLSC",
    "SlidingWindow",
    "StreamingLDA",
]
