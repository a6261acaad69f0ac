"""1,623 classes (Omniglot pixels) from 20 at first, in batches of 10: ten trees, RUST."""

import resource
import time
from collections.abc import Iterator

import numpy as np

from benchmarks.forest_packs import omniglot
from benchmarks.side_by_side import Line
from everlearn import NCMForest


def lines() -> Iterator[Line]:
    data = omniglot()
    order = np.random.default_rng(0).permutation(np.unique(data.y))
    forest = NCMForest(n_estimators=10, update="rust", random_state=0, n_jobs=2)
    wall, cpu = time.perf_counter(), time.process_time()
    forest.partial_fit(*data.of(order[:20]))
    for start in range(20, len(order), 10):
        forest.partial_fit(*data.of(order[start : start + 10]))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    yield Line(
        f"{len(order):,} classes from 20, +10 at a time, 10 trees, RUST, 2 threads",
        f"{wall / 60:.1f} min ({cpu / 60:.1f} CPU min), {memory:.1f} GB, "
        f"accuracy {data.accuracy(forest):.3f}",
        "< 10 min, < 4 GB",
    )
