"""Shards and engines for the cluster benchmarks."""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from benchmarks.cluster_ray import started_ray


def write_shards(
    folder: Path,
    *,
    n_rows: int,
    n_shards: int,
    d: int,
    n_classes: int,
    distinct: int | None = None,
) -> list[str]:
    """Shards of float32 rows around class centres, reproducible for given sizes.

    Beyond the first ``distinct``, a shard is a link to one of these: a different shard that takes
    no more disk space.
    """
    folder.mkdir(parents=True, exist_ok=True)
    centres = np.random.default_rng(0).normal(size=(n_classes, d)).astype(np.float32)
    paths = []
    for index in range(n_shards):
        path = folder / f"{index:05d}.npz"
        paths.append(str(path))
        if path.exists():
            continue
        if distinct and index >= distinct:
            os.link(paths[index % distinct], path)
            continue
        rng = np.random.default_rng(index + 1)
        y = rng.integers(0, n_classes, n_rows // n_shards)
        X = centres[y] + rng.standard_normal((len(y), d), dtype=np.float32)
        np.savez(folder / "part.npz", X=X, y=y)
        (folder / "part.npz").rename(path)
    return paths


@contextmanager
def opened_engine(name: str, workers: int = 2) -> Iterator[Any]:
    """A local cluster with this many workers, or the name of the process pool."""
    if name == "local":
        yield "local"
    elif name == "dask":
        from dask import config
        from distributed import Client, LocalCluster

        from everlearn.cluster.engines.dask import KEEP_PAGES

        with (
            config.set(KEEP_PAGES),
            LocalCluster(
                n_workers=workers, threads_per_worker=1, dashboard_address=None, protocol="tcp"
            ) as cluster,
            Client(cluster) as client,
        ):
            yield client
    elif name == "ray":
        with started_ray(workers, memory=1 << 30) as ray:
            yield ray
    else:
        from pyspark.sql import SparkSession

        os.environ["PYSPARK_PYTHON"] = sys.executable
        session = (
            SparkSession.builder.master(f"local-cluster[{workers},1,1024]")
            .config("spark.executor.memory", "1g")
            .config("spark.task.maxFailures", "100")
            .config("spark.ui.enabled", "false")
            .config("spark.log.level", "ERROR")
            .getOrCreate()
        )
        yield session
        session.stop()


def cpu_seconds() -> float:
    """Processor time of this process and of all its running children."""
    total = 0.0
    for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
        total += times.children_user + times.children_system
    return total


def removed(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
