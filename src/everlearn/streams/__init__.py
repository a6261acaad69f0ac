"""Labelled examples, their sources, and orderings of streams."""

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
from everlearn.streams.sources import from_loader, image_folder, read_images, split_folders

__all__ = [
    "DataSet",
    "Examples",
    "alternating",
    "balanced_then_rare",
    "class_batches",
    "class_iid",
    "class_instance",
    "from_loader",
    "iid",
    "image_folder",
    "instance",
    "read_images",
    "split_folders",
]
