"""Incremental eigenspaces (PCA), and a robust form that repairs occluded images."""

from everlearn.public_names import public_names

__getattr__, __dir__, __all__ = public_names(__name__)
