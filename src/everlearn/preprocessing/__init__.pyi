from .class_whitening import ClassWhitening as ClassWhitening
from .normalization import PowerNormalizer as PowerNormalizer
from .random_features import RandomFeatures as RandomFeatures
from .scaling import StreamingScaler as StreamingScaler
from .whitening import InitialWhitening as InitialWhitening

__all__: list[str]
