"""Compares every engine with one stream and with a plain process pool, on the same shards.

    python -m benchmarks.cluster_engines --rows 1e7 --engines local dask ray spark

Claims: the result of every engine equals one stream to 1e-9, two runs agree in every bit, and the
overhead over folding the same shards in a process pool of two is at most 15 % (Dask, Ray) or 50 %
(Spark). A digest of each engine's results is printed: equal digests mean equal bits. Wall time on a
busy machine says little, so the processor time of all processes is printed beside it; starting the
cluster and the first fit (which imports) are not counted.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial, reduce
from hashlib import sha256
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.cluster_shards import cpu_seconds, opened_engine, removed, write_shards
from everlearn import StreamingLDA, load, save
from everlearn.cluster import fit
from everlearn.persistence import dumps, loads

ROWS = 8192


def blocks(path: str) -> Iterator[tuple[Any, Any]]:
    with np.load(path) as arrays:
        X, y = arrays["X"], arrays["y"]
    for start in range(0, len(X), ROWS):
        yield X[start : start + ROWS], y[start : start + ROWS]


def folded(path: str) -> bytes:
    """The plain way: one shard, one learner, returned as bytes."""
    learner = StreamingLDA()
    with threadpool_limits(1, user_api="blas"):
        for X, y in blocks(path):
            learner.partial_fit(X, y)
    return dumps(learner)


def one_stream(paths: list[str], known: Path) -> Any:
    """All shards in sequence; stored in a file for the next run."""
    if known.exists():
        return load(known)
    stream = StreamingLDA()
    start = time.process_time()
    with threadpool_limits(1, user_api="blas"):
        for path in paths:
            for part in blocks(path):
                stream.partial_fit(*part)
    print(f"one stream: {time.process_time() - start:.1f} s of processor time", flush=True)
    save(stream, known)
    return stream


def through_a_pool(paths: list[str], repeats: int) -> list["Timed"]:
    """The reference for the engines: no tree, no ledger, no fault tolerance."""
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        list(pool.map(folded, paths[:2]))
        return [
            timed(lambda: reduce(lambda a, b: a.merge(b), map(loads, pool.map(folded, paths))))
            for _ in range(repeats)
        ]


def difference(ours: Any, theirs: Any, X: Any) -> float:
    expected = theirs.decision_function(X)
    return float(np.abs(ours.decision_function(X) - expected).max() / np.abs(expected).max())


@dataclass(frozen=True)
class Timed:
    """A result with its wall time and the processor time of all processes."""

    result: Any
    wall: float
    processor: float


def timed(work: Callable[[], Any]) -> Timed:
    wall, processor = time.perf_counter(), cpu_seconds()
    result = work()
    return Timed(result, time.perf_counter() - wall, cpu_seconds() - processor)


def fastest(runs: list[Timed]) -> tuple[float, float]:
    return min(run.wall for run in runs), min(run.processor for run in runs)


def against(ours: float, theirs: float) -> str:
    return f"{ours:.1f} s ({100 * (ours / theirs - 1):+.0f} %)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=float, default=1e6)
    parser.add_argument("--shards", type=int, default=200)
    parser.add_argument("--features", type=int, default=256)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--engines", nargs="*", default=["local", "dask", "ray", "spark"])
    parser.add_argument("--folder", type=Path, default=Path("out/cluster"))
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--free", action="store_true", help="also with deterministic=False")
    parser.add_argument("--keep", action="store_true", help="leave the shards for the next run")
    options = parser.parse_args()
    sizes = options.shards, options.features, options.classes
    folder = options.folder / "-".join([f"{options.rows:.0e}", *map(str, sizes)])
    paths = write_shards(
        folder,
        n_rows=int(options.rows),
        n_shards=options.shards,
        d=options.features,
        n_classes=options.classes,
    )
    X = next(blocks(paths[0]))[0][:500].astype(np.float64)
    stream = one_stream(paths, folder / "stream")
    if options.engines:
        plain = through_a_pool(paths, options.repeats)
        wall, processor = fastest(plain)
        print(
            f"pool of two: {wall:.1f} s, processor {processor:.1f} s; differs from one stream by "
            f"{difference(plain[0].result, stream, X):.1e}",
            flush=True,
        )
    for name in options.engines:
        with opened_engine(name) as engine:
            chosen = {"engine": engine} | ({"workers": 2} if name == "local" else {})
            fit(StreamingLDA(), paths[:2], **chosen)
            runs = [
                timed(partial(fit, StreamingLDA(), paths, **chosen)) for _ in range(options.repeats)
            ]
            free = options.free and fit(StreamingLDA(), paths, deterministic=False, **chosen)
        digests = {sha256(dumps(run.result)).hexdigest()[:12] for run in runs}
        ours = fastest(runs)
        print(
            f"{name}: {against(ours[0], wall)}, processor {against(ours[1], processor)}; "
            f"differs from one stream by {difference(runs[0].result.learner, stream, X):.1e}"
            + (f", in free order by {difference(free.learner, stream, X):.1e}" if free else "")
            + f"; bits {' '.join(digests)}",
            flush=True,
        )
    if not options.keep:
        removed(folder)


if __name__ == "__main__":
    main()
