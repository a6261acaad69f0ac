"""Incremental eigenspaces (PCA), and a robust form that repairs occluded images."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
