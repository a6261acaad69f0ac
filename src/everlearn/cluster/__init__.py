"""The same fit on one machine or many: Dask, Ray, Spark, or a pool of processes.

Statistics are sums, so learning from shards is a map followed by a tree of merges, exact up to
rounding.
"""

import lazy_loader

from everlearn.deprecation import with_old_names

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__getattr__ = with_old_names(
    __name__, __getattr__, {"Trained": "ShardedModel", "take_out": "unlearn"}
)
