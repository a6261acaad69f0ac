"""A cost model of a fit with four measured constants, extrapolated to a billion images.

    python -m benchmarks.cluster_costs

The constants are seconds per floating-point operation of a fold and of a merge, seconds per byte of
writing and reading a part, and seconds per number of decoding a shard. The model is checked against
folds of other sizes than it was measured on, then extrapolated to a billion images.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from everlearn import StreamingLDA
from everlearn.cluster.plan import FAN_IN
from everlearn.persistence import dumps, loads

# Seconds per image of a worker in cluster_images.
EMBED_SECONDS = 0.014


@dataclass(frozen=True)
class Costs:
    """Seconds of one core per unit of work."""

    per_flop: float
    per_row_number: float
    per_merge_flop: float
    per_byte: float

    def fold(self, rows: float, d: int) -> float:
        """Sums of squares, and a few passes over the numbers."""
        return self.per_flop * rows * d**2 + self.per_row_number * rows * d

    def merge(self, d: int, n_classes: float) -> float:
        """A correction of rank K, and both parts through the file format."""
        return self.per_merge_flop * n_classes * d**2 + self.per_byte * part_bytes(d, n_classes)


def part_bytes(d: int, n_classes: float) -> float:
    """S, the means, the counts."""
    return 8.0 * (d**2 + n_classes * d + n_classes)


def processor_seconds(work: Callable[[], object], repeats: int = 3) -> float:
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def examples(rows: int, d: int, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = rng.permutation(np.arange(rows) % n_classes)
    return rng.standard_normal((rows, d), dtype=np.float32).astype(np.float16), y


def fold_seconds(rows: int, d: int, n_classes: int) -> float:
    X, y = examples(rows, d, n_classes)
    return processor_seconds(lambda: StreamingLDA().fit(X, y))


def measured() -> Costs:
    rows = 16384
    narrow, wide = fold_seconds(rows, 64, 100), fold_seconds(rows, 512, 100)
    sizes = np.array([[rows * 64**2, rows * 64], [rows * 512**2, rows * 512]], dtype=float)
    per_flop, per_number = np.linalg.solve(sizes, [narrow, wide])
    one, other = (StreamingLDA().fit(*examples(4096, 512, 1000)) for _ in range(2))
    travel = processor_seconds(lambda: loads(dumps(one)))
    merge = processor_seconds(lambda: loads(dumps(one)).merge(other)) - travel
    return Costs(
        per_flop=float(per_flop),
        per_row_number=float(per_number),
        per_merge_flop=merge / (1000 * 512**2),
        per_byte=travel / part_bytes(512, 1000),
    )


def report(costs: Costs) -> None:
    print(
        f"fold {1e-9 / costs.per_flop:.1f} GFLOP/s and {1e9 * costs.per_row_number:.2f} ns per "
        f"number, merge {1e-9 / costs.per_merge_flop:.1f} GFLOP/s, a part through the format "
        f"{1e-6 / costs.per_byte:.0f} MB/s"
    )
    for rows, d, n_classes in ((40_000, 256, 1000), (8_000, 1024, 1000)):
        took, said = fold_seconds(rows, d, n_classes), costs.fold(rows, d)
        print(
            f"a fold of {rows} rows of {d}: the model says {said:.2f} s, it took {took:.2f} s "
            f"({100 * (said / took - 1):+.0f} %)"
        )
    for d, n_classes in ((256, 1000), (1024, 1000), (512, 5000)):
        one, other = (StreamingLDA().fit(*examples(5000, d, n_classes)) for _ in range(2))
        took = processor_seconds(lambda a=one, b=other: loads(dumps(a)).merge(b))  # type: ignore[misc]
        said = costs.merge(d, n_classes)
        print(
            f"a merge of {n_classes} classes of {d}: the model says {1e3 * said:.0f} ms, it took "
            f"{1e3 * took:.0f} ms ({100 * (said / took - 1):+.0f} %)"
        )


def carried(
    costs: Costs,
    *,
    images: float,
    n_classes: int,
    d: int,
    workers: int,
    shards: int,
    embed_seconds: float,
    ranges: int = 1,
    gigabytes_per_second: float = 1.0,
) -> dict[str, float]:
    """Seconds and bytes of a fit; with ``ranges`` the classes are split among several trees.

    A part has no more classes than images, so the parts of single shards are smaller than the last.
    """
    parts = [shards / FAN_IN**level for level in range(int(np.ceil(np.log(shards) / np.log(8))))]
    classes = [min(n_classes, images / n) / ranges for n in parts]
    moved = sum(ranges * n * part_bytes(d, k) for n, k in zip(parts, classes, strict=True))
    merging = sum(ranges * n * costs.merge(d, k) for n, k in zip(parts, classes, strict=True))
    last = n_classes / ranges
    return {
        "embedding, hours on all workers": images * embed_seconds / workers / 3600,
        "folding, hours on all workers": costs.fold(images, d) / workers / 3600,
        "part of one shard, MB": part_bytes(d, classes[0]) / 1e6,
        "last part, MB": part_bytes(d, last) / 1e6,
        "merging, hours on all workers": merging / workers / 3600,
        "last two levels, one after the other, s": 2 * FAN_IN * costs.merge(d, last),
        "moved in all, TB": moved / 1e12,
        "moving, hours at 1 GB/s a worker": moved / workers / gigabytes_per_second / 1e9 / 3600,
        "what the driver receives, MB": part_bytes(d, n_classes) / 1e6,
    }


def main() -> None:
    with threadpool_limits(1, user_api="blas"):
        costs = measured()
        report(costs)
    plain, split = (
        carried(
            costs,
            images=1e9,
            n_classes=100_000,
            d=1280,
            workers=1000,
            shards=100_000,
            embed_seconds=EMBED_SECONDS,
            ranges=ranges,
        )
        for ranges in (1, 100)
    )
    print("1e9 images, 1e5 classes, 1280 features, 1,000 workers, 1e5 shards")
    for what in plain:
        print(f"{what:40s} {plain[what]:12.3g}   in 100 ranges of classes {split[what]:12.3g}")


if __name__ == "__main__":
    main()
