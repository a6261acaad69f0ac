"""Unlearns one shard of 200 from a finished model.

    python -m benchmarks.cluster_unlearn

Claim: at most 50 ms, and equal to never having seen it to 1e-8 (scores, relative).
"""

import argparse
import copy
import time
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.cluster_engines import blocks, difference
from benchmarks.cluster_shards import removed, write_shards
from everlearn import StreamingLDA
from everlearn.cluster import fit, unlearn


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=float, default=2e5)
    parser.add_argument("--features", type=int, default=256)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--folder", type=Path, default=Path("out/cluster-take-out"))
    options = parser.parse_args()
    sizes = {"d": options.features, "n_classes": options.classes}
    paths = write_shards(options.folder, n_rows=int(options.rows), n_shards=200, **sizes)
    checkpoint = str(options.folder / "checkpoint")
    trained = fit(StreamingLDA(), paths, workers=2, checkpoint=checkpoint, keep_shards=True)
    wall, processor = [], []
    with threadpool_limits(1, user_api="blas"):
        for path in paths[50:60]:
            left = copy.deepcopy(trained)
            start = time.perf_counter(), time.process_time()
            unlearn(left, path, checkpoint)
            wall.append(time.perf_counter() - start[0])
            processor.append(time.process_time() - start[1])
        never = StreamingLDA()
        for path in paths:
            if path != paths[59]:
                for part in blocks(path):
                    never.partial_fit(*part)
    X = np.concatenate([X for X, _ in blocks(paths[0])])[:500].astype(np.float64)
    print(
        f"taking one shard of 200 out ({options.rows:.0e} rows, {options.features} features, "
        f"{options.classes} classes): {1e3 * np.median(wall):.0f} ms "
        f"({1e3 * np.median(processor):.0f} ms of processor time), differs from never having seen "
        f"it by {difference(left.learner, never, X):.1e}"
    )
    removed(options.folder)


if __name__ == "__main__":
    main()
