"""Eigenspaces that learn image by image, and repair what they are shown."""

from everlearn.public_names import public_names

__getattr__, __dir__, __all__ = public_names(__name__)
