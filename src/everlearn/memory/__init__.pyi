from .memory import Memory as Memory

__all__: list[str]
