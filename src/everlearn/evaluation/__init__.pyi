from .protocols import Run as Run
from .protocols import checkpointed as checkpointed
from .protocols import prequential as prequential
from .table import Table as Table

__all__: list[str]
