"""Compares two workers embedding images with one, and with the embedder alone.

    python -m benchmarks.cluster_images

Claim: two workers are at least 1.8 times as fast as one if two cores are free, and a worker keeps
95 % of the embedder's own rate. On a busy machine wall time says little; the share of the processor
time spent in the embedder is printed beside it, because it does not depend on other processes.
"""

import argparse
import io
import tarfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

from benchmarks.cluster_shards import cpu_seconds, removed
from everlearn import EfficientNetLite0, NearestClassMean
from everlearn.cluster import fit, plan
from everlearn.images.decode import open_picture

NETWORK = "efficientnet-lite0"


def write_tars(folder: Path, n_tars: int, n_images: int) -> list[str]:
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    paths = []
    for index in range(n_tars):
        paths.append(str(folder / f"{index:03d}.tar"))
        with tarfile.open(paths[-1], "w") as tar:
            for number in range(n_images):
                pixels = rng.integers(0, 255, (16, 16, 3), dtype=np.uint8)
                picture = Image.fromarray(pixels).resize((400, 300), Image.Resampling.BICUBIC)
                file = io.BytesIO()
                picture.save(file, "JPEG", quality=85)
                for suffix, data in (("cls", b"%d" % (number % 10)), ("jpg", file.getvalue())):
                    info = tarfile.TarInfo(f"{number:06d}.{suffix}")
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))
    return paths


def images_in(path: str) -> list[bytes]:
    with tarfile.open(path) as tar:
        members = [member for member in tar if member.name.endswith(".jpg")]
        return [tar.extractfile(member).read() for member in members]  # type: ignore[union-attr]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tars", type=int, default=8)
    parser.add_argument("--images", type=int, default=100, help="images in a tar")
    parser.add_argument("--folder", type=Path, default=Path("out/cluster-images"))
    options = parser.parse_args()
    plan.TASK_BYTES = 1
    paths = write_tars(options.folder, options.tars, options.images)
    total = options.tars * options.images
    embedder = EfficientNetLite0()
    sources = [data for path in paths for data in images_in(path)]
    embedder.run(embedder.prepare(open_picture(sources[0]))[None])
    start = time.perf_counter(), time.process_time()
    for data in sources:
        picture = open_picture(data, at_least=embedder.at_least)
        embedder.run(embedder.prepare(picture)[None])
    alone, alone_cpu = time.perf_counter() - start[0], time.process_time() - start[1]
    print(f"embedder alone, one thread: {total / alone:.1f} images/s", flush=True)
    walls, processor = {}, {}
    for workers in (1, 2):
        fit(NearestClassMean(), paths[:2], workers=workers, embedder=NETWORK)
        wall, cpu = time.perf_counter(), cpu_seconds()
        fit(NearestClassMean(), paths, workers=workers, embedder=NETWORK)
        walls[workers] = time.perf_counter() - wall
        processor[workers] = cpu_seconds() - cpu
    print(
        f"{total} images: 1 worker {total / walls[1]:.1f}/s, 2 workers {total / walls[2]:.1f}/s "
        f"({walls[1] / walls[2]:.2f} times as fast, for {processor[2] / processor[1]:.2f} times "
        f"the processor time); of the embedder's own rate one worker keeps "
        f"{100 * alone / walls[1]:.0f} % by wall time, {100 * alone_cpu / processor[1]:.0f} % by "
        f"processor time"
    )
    removed(options.folder)


if __name__ == "__main__":
    main()
