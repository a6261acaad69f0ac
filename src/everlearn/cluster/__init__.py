"""The same fit on one machine and on many: Dask, Ray, Spark, or a pool of processes.

Statistics are sums, so learning from shards is a map and a tree of merges, exact to rounding.
"""

from everlearn.cluster.fitting import Progress, fit
from everlearn.cluster.sharded_model import Entry, ShardedModel
from everlearn.cluster.unlearn import unlearn

__all__ = ["Entry", "Progress", "ShardedModel", "fit", "unlearn"]
