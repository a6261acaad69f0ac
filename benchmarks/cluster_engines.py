"""Every engine against one stream and against a plain process pool, on the same shards.

    python -m benchmarks.cluster_engines --rows 1e7 --engines local dask ray spark

Claims: the result of every engine equals one stream to 1e-9, two runs agree in every bit, and the
overhead over folding the same shards in a process pool of two is at most 15 % (Dask, Ray) or 50 %
(Spark). Wall time on a busy machine says little, so processor time of all processes is printed
beside it; starting the cluster is not counted, the first fit (which imports) neither.
"""

import argparse
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import reduce
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.cluster_shards import cpu_seconds, opened_engine, removed, write_shards
from everlearn import StreamingLDA
from everlearn.cluster import fit
from everlearn.persistence import dumps, loads

ROWS = 8192


def blocks(path: str) -> Iterator[tuple[Any, Any]]:
    with np.load(path) as arrays:
        X, y = arrays["X"], arrays["y"]
    for start in range(0, len(X), ROWS):
        yield X[start : start + ROWS], y[start : start + ROWS]


def folded(path: str) -> bytes:
    """The plain way: one shard, one learner, sent back as bytes."""
    learner = StreamingLDA()
    with threadpool_limits(1, user_api="blas"):
        for X, y in blocks(path):
            learner.partial_fit(X, y)
    return dumps(learner)


def difference(ours: Any, theirs: Any, X: Any) -> float:
    expected = theirs.decision_function(X)
    return float(np.abs(ours.decision_function(X) - expected).max() / np.abs(expected).max())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=float, default=1e6)
    parser.add_argument("--shards", type=int, default=200)
    parser.add_argument("--features", type=int, default=256)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--engines", nargs="+", default=["local", "dask", "ray", "spark"])
    parser.add_argument("--folder", type=Path, default=Path("out/cluster"))
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--keep", action="store_true", help="leave the shards for the next run")
    options = parser.parse_args()
    folder = options.folder / f"{options.rows:.0e}"
    paths = write_shards(
        folder,
        n_rows=int(options.rows),
        n_shards=options.shards,
        d=options.features,
        n_classes=options.classes,
    )
    X = np.concatenate([block for block, _ in blocks(paths[0])])[:500].astype(np.float64)
    stream = StreamingLDA()
    start = time.process_time()
    with threadpool_limits(1, user_api="blas"):
        for path in paths:
            for part in blocks(path):
                stream.partial_fit(*part)
    print(f"one stream: {time.process_time() - start:.1f} s of processor time", flush=True)
    pool = ProcessPoolExecutor(2, mp_context=get_context("spawn"))
    list(pool.map(folded, paths[:2]))
    for name in options.engines:
        with opened_engine(name) as engine:
            warm = {"engine": engine} | ({"workers": 2} if name == "local" else {})
            fit(StreamingLDA(), paths[:2], **warm)
            times: dict[str, list[tuple[float, float]]] = {"pool": [], name: []}
            results = []
            for _ in range(options.repeats):
                wall, cpu = time.perf_counter(), cpu_seconds()
                whole = reduce(lambda a, b: a.merge(b), map(loads, pool.map(folded, paths)))
                times["pool"].append((time.perf_counter() - wall, cpu_seconds() - cpu))
                wall, cpu = time.perf_counter(), cpu_seconds()
                results.append(fit(StreamingLDA(), paths, **warm))
                times[name].append((time.perf_counter() - wall, cpu_seconds() - cpu))
            free = fit(StreamingLDA(), paths, deterministic=False, **warm)
        (pool_wall, pool_cpu), (wall, cpu) = (
            map(min, zip(*times[key], strict=True)) for key in times
        )
        print(
            f"{name}: wall {wall:.1f} s against {pool_wall:.1f} s of a pool "
            f"({100 * (wall / pool_wall - 1):+.0f} %), processor {cpu:.1f} s against "
            f"{pool_cpu:.1f} s ({100 * (cpu / pool_cpu - 1):+.0f} %); "
            f"differs from one stream by {difference(results[0].learner, stream, X):.1e}, "
            f"pool by {difference(whole, stream, X):.1e}, "
            f"free order by {difference(free.learner, stream, X):.1e}; "
            f"{options.repeats} fits equal in every bit: {len(set(map(dumps, results))) == 1}",
            flush=True,
        )
    pool.shutdown()
    if not options.keep:
        removed(folder)


if __name__ == "__main__":
    main()
