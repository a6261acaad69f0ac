"""1,623 classes (Omniglot pixels) from 20 at first, in batches of 10: ten trees, RUST."""

import resource
import time
from collections.abc import Iterator

from everlearn_papers.forests.protocol import ClassStream, data_set

from benchmarks.side_by_side import Line
from everlearn import NCMForest


def lines() -> Iterator[Line]:
    data = data_set("omniglot")
    n_classes = len(data.train.classes)
    batches = (stream := ClassStream.of(data, n_classes, 0)).batches(20, 10)
    forest = NCMForest(n_estimators=10, update="rust", random_state=0, n_jobs=2)
    wall, cpu = time.perf_counter(), time.process_time()
    for batch in batches:
        forest.partial_fit(batch.X, batch.y)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    yield Line(
        f"{n_classes:,} classes from 20, +10 at a time, 10 trees, RUST, 2 threads",
        f"{wall / 60:.1f} min ({cpu / 60:.1f} CPU min), {memory:.1f} GB, "
        f"accuracy {stream.accuracy(forest, n_classes):.3f}",
        "< 10 min, < 4 GB",
    )
