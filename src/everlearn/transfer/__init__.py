"""Transfer learning: a new class starts from prior models."""

from everlearn.public_names import public_names

__getattr__, __dir__, __all__ = public_names(__name__)
