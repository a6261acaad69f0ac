"""Learners: one algorithm per file. The public ones are listed in ``everlearn/__init__.pyi``."""

from everlearn.public_names import public_names

__getattr__, __dir__, __all__ = public_names(__name__)
