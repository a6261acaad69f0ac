"""Settings for growing and updating trees: one record, made from a forest's parameters.

Plain and compiled code read the same record and the same enumerations.
"""

import math
from enum import IntEnum
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

# No node, row or class.
NONE = -1
# The parent of a node that was cut off.
DEAD = -2
# The first node. An int32, as nodes in trees are: with a Python integer numba would compile the
# functions that take a node a second time.
ROOT: Any = np.int32(0)
# The minimum weight of a leaf is at most this share of an average class: with few examples per
# class, a fixed minimum would mix classes unnecessarily.
SMALLEST_SHARE = 0.1


class Side(IntEnum):
    """The side to which a splitting node sends an example."""

    LEFT = 0
    RIGHT = 1


class Update(IntEnum):
    """How existing trees are updated: four ways of the paper (Sec. 4), and AUTO."""

    ULS = 0
    IGT = 1
    RTST = 2
    RUST = 3
    AUTO = 4


UpdateWord = Literal["uls", "igt", "rtst", "rust", "auto"]


class NodeSampling(IntEnum):
    """How RTST and RUST draw nodes (Sec. 4.5)."""

    QUALITY = 0
    SIZE = 1
    UNIFORM = 2


NodeSamplingWord = Literal["quality", "size", "uniform"]
SubsetWord = Literal["sqrt", "log2"]


class ForestSettings(NamedTuple):
    """The settings for growing and updating.

    Attributes
    ----------
    split : NCMSplit or SVMSplit
        The parameters of one kind of splitting function; compiled code is chosen by its type.
    n_slots : int
        Classes are numbers below this.
    members_per_node, vectors_per_node : int
        Upper bounds of what one node needs.
    smallest : float
        μ: both sides of a split keep more than this.
    update, node_sampling : int
        Values of the enumerations; compiled code handles plain integers faster.
    update_fraction : float
        π, the share of splitting nodes that RTST and RUST draw.
    entropies : table of f(v) = v ln v for small whole numbers
    """

    split: Any
    n_slots: int
    members_per_node: int
    vectors_per_node: int
    smallest: float
    update: int
    node_sampling: int
    update_fraction: float
    entropies: NDArray[np.float64]


def smallest_leaf(min_samples: float, seen: NDArray[np.float64]) -> float:
    """μ, or a tenth of an average class if that is less."""
    average = float(seen.sum()) / max(1, int(np.count_nonzero(seen)))
    return min(float(min_samples), average * SMALLEST_SHARE)


def subset_size(subset: SubsetWord | float, n_classes: int) -> int:
    """|K^n|, the number of centroids of a node for a number of known classes; at least two."""
    if subset == "sqrt":
        size = math.sqrt(n_classes)
    elif subset == "log2":
        size = math.log2(n_classes)
    else:
        size = float(subset) * n_classes
    return max(2, round(size))


@lru_cache(maxsize=1)
def entropy_table() -> NDArray[np.float64]:
    """f(v) = v ln v for small integers."""
    values = np.arange(4096.0)
    table: NDArray[np.float64] = values * np.log(np.maximum(values, 1.0))
    return table
