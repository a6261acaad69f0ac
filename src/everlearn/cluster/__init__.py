"""The same fit on one machine and on many: Dask, Ray, Spark, or a pool of processes.

Statistics are sums, so learning from shards is a map and a tree of merges, exact to rounding.
"""

from everlearn.cluster.fitting import Progress, fit
from everlearn.cluster.taking_out import take_out
from everlearn.cluster.trained import Entry, Trained

__all__ = ["Entry", "Progress", "Trained", "fit", "take_out"]
