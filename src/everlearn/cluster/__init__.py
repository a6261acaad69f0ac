"""The same fit on one machine or many: Dask, Ray, Spark, or a pool of processes.

Statistics are sums, so learning from shards is a map followed by a tree of merges, exact up to
rounding.
"""

import warnings
from typing import Any

from everlearn.cluster.fitting import Progress, embed, fit
from everlearn.cluster.sharded_model import Entry, ShardedModel
from everlearn.cluster.unlearning import unlearn

__all__ = ["Entry", "Progress", "ShardedModel", "embed", "fit", "unlearn"]

_RENAMED = {"Trained": "ShardedModel", "take_out": "unlearn"}


def __getattr__(name: str) -> Any:
    """Names from before 0.2, kept for one version."""
    if name not in _RENAMED:
        raise AttributeError(f"everlearn.cluster has no {name}")
    new = _RENAMED[name]
    warnings.warn(
        f"everlearn.cluster.{name} is now called {new}; the old name will be removed",
        FutureWarning,
        stacklevel=2,
    )
    return globals()[new]
