"""Data sets, and the order in which they are shown."""

from everlearn.streams.catalogue import find, get
from everlearn.streams.examples import DataSet, Examples
from everlearn.streams.orderings import (
    alternating,
    balanced_then_rare,
    class_batches,
    class_iid,
    class_instance,
    iid,
    instance,
)

__all__ = [
    "DataSet",
    "Examples",
    "alternating",
    "balanced_then_rare",
    "class_batches",
    "class_iid",
    "class_instance",
    "find",
    "get",
    "iid",
    "instance",
]
