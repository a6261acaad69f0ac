"""How well, how fast and how lastingly an estimator learns from a stream."""

from everlearn.evaluation.protocols import Run, checkpointed, prequential
from everlearn.evaluation.table import Table

__all__ = ["Run", "Table", "checkpointed", "prequential"]
