"""Labelled examples, and data sets with a training and a test part."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everlearn.errors import WrongShape

Indices = NDArray[np.intp]


@dataclass(frozen=True, repr=False)
class Examples:
    """Rows, their labels and, optionally, their instances.

    Parameters
    ----------
    X : ndarray of shape (n_examples, …)
        Feature vectors, images, or the paths of image files.
    y : ndarray of shape (n_examples,)
    instances : ndarray of shape (n_examples,), optional
        The object or video an example comes from. Examples of one instance are in the order of
        recording.
    """

    X: NDArray[Any]
    y: NDArray[Any]
    instances: NDArray[Any] | None = None

    def __post_init__(self) -> None:
        for name in ("y", "instances"):
            column = getattr(self, name)
            if column is not None and (column.ndim != 1 or len(column) != len(self.X)):
                raise WrongShape(
                    f"{name} has shape {column.shape} but X has {len(self.X)} rows; "
                    "give one value per row"
                )

    def __repr__(self) -> str:
        shape = " × ".join(map(str, self.X.shape))
        return f"<Examples: {shape}, {len(self.classes)} classes>"

    def __len__(self) -> int:
        return len(self.X)

    @property
    def classes(self) -> NDArray[Any]:
        """The labels, sorted."""
        return np.unique(self.y)

    def take(self, indices: Any) -> "Examples":
        """The examples at these positions (or where a mask is true), in this order."""
        instances = None if self.instances is None else self.instances[indices]
        return Examples(self.X[indices], self.y[indices], instances)

    def batches(self, order: Indices, size: int = 1) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
        """A stream of (X, y), ``size`` examples at a time, in the given order."""
        for start in range(0, len(order), size):
            chosen = order[start : start + size]
            yield self.X[chosen], self.y[chosen]


@dataclass(frozen=True)
class DataSet:
    """Examples for training and examples for testing."""

    name: str
    train: Examples
    test: Examples

    def only(self, classes: Any) -> "DataSet":
        """The part with these classes only."""
        return DataSet(
            self.name,
            self.train.take(np.isin(self.train.y, classes)),
            self.test.take(np.isin(self.test.y, classes)),
        )
