"""The durable Memory: images in, names out, nothing lost."""

from everlearn.memory.memory import Memory

__all__ = ["Memory"]
