"""The same fit on one machine or many: Dask, Ray, Spark, or a pool of processes.

Statistics are sums: each shard is reduced to statistics on a worker, and these are merged in a
tree. The result equals that of one machine, up to rounding.
"""

import lazy_loader

from everlearn.deprecation import with_old_names

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__getattr__ = with_old_names(
    __name__, __getattr__, {"Trained": "ShardedModel", "take_out": "unlearn"}
)
