"""The driver's memory while ten thousand statistics of megabytes each are merged.

    python -m benchmarks.cluster_driver --engine dask

Claim: at most 500 MB with 10,000 shards of d = 512 and 1,000 classes. Every shard is a separate
task, so that there are as many parts of 6 MB as shards. The driver is this process; the memory of
processes it starts (workers, scheduler, Spark's JVM) is printed beside it.
"""

import argparse
import os
import threading
import time
from pathlib import Path

import psutil

from benchmarks.cluster_shards import opened_engine, removed, write_shards
from everlearn import StreamingLDA
from everlearn.cluster import fit, plan
from everlearn.persistence import dumps

DISTINCT = 50


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", default="dask")
    parser.add_argument("--shards", type=int, default=10_000)
    parser.add_argument("--features", type=int, default=512)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=1000, help="rows of a shard")
    parser.add_argument("--share", type=int, default=1, help="shards that share a task")
    parser.add_argument("--folder", type=Path, default=Path("out/cluster-driver"))
    options = parser.parse_args()
    paths = write_shards(
        options.folder,
        n_rows=options.shards * options.rows,
        n_shards=options.shards,
        d=options.features,
        n_classes=options.classes,
        distinct=DISTINCT,
    )
    plan.TASK_BYTES = 1 if options.share == 1 else options.share * os.path.getsize(paths[0])
    with opened_engine(options.engine) as engine:
        ours, most = psutil.Process(), [0, 0]
        ended = threading.Event()

        def watch() -> None:
            while not ended.wait(0.2):
                most[0] = max(most[0], ours.memory_info().rss)
                most[1] = max(most[1], _java(ours))

        threading.Thread(target=watch, daemon=True).start()
        start = time.perf_counter()
        told = [0.0]

        def show(progress: object) -> None:
            if time.perf_counter() - told[0] > 30:
                told[0] = time.perf_counter()
                print(progress, f"driver {most[0] / 1e6:.0f} MB", flush=True)

        trained = fit(StreamingLDA(), paths, engine=engine, progress=show)
        ended.set()
    print(
        f"{options.engine}: {len(trained.ledger)} shards in {len(paths) // options.share} parts of "
        f"{len(dumps(trained.learner)) / 1e6:.1f} MB, {time.perf_counter() - start:.0f} s: the "
        f"driver took at most {most[0] / 1e6:.0f} MB"
        + (f", its JVM {most[1] / 1e6:.0f} MB" if most[1] else "")
    )
    removed(options.folder)


def _java(driver: psutil.Process) -> int:
    """Memory of the JVM that belongs to the driver, its first child of that name."""
    for child in driver.children():
        if child.name() == "java":
            return int(child.memory_info().rss)
    return 0


if __name__ == "__main__":
    main()
