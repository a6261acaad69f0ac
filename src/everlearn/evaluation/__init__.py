"""Evaluation of estimators on streams: protocols, metrics, tables, plots."""

from everlearn.evaluation.protocols import Run, checkpointed, prequential
from everlearn.evaluation.table import Table

__all__ = ["Run", "Table", "checkpointed", "prequential"]
