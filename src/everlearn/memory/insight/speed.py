"""Measures the speed of a Memory on this machine, with a few seconds of synthetic pictures."""

import io
import tempfile
import time
from collections.abc import Callable

import numpy as np

from everlearn.images.decode import decode, open_picture, pillow_image
from everlearn.images.embedders import EfficientNetLite0
from everlearn.memory.memory import Memory

SIDE = 320


def measure(n_images: int, *, progress: Callable[[], None] = lambda: None) -> dict[str, float]:
    """Rates and times, keyed by description.

    Parameters
    ----------
    n_images : int
        Number of pictures taught, at least 1.
    progress : callable
        Called once for every image taught.
    """
    pictures = _pictures(n_images)
    embedder = EfficientNetLite0()
    batch = np.stack(
        [embedder.prepare(open_picture(data)) for data in pictures[: embedder.batch_size]]
    )
    results = {"model, images per second on one core": len(batch) / _seconds(embedder.run, batch)}
    with tempfile.TemporaryDirectory() as folder, Memory(folder, embedder=embedder) as memory:
        pairs = [(data, f"name {i % 10}") for i, data in enumerate(pictures)]
        start = time.perf_counter()
        memory.teach_many(pairs, acknowledge=lambda _: progress())
        results["teach, images per second"] = n_images / (time.perf_counter() - start)
        vector = embedder.embed([decode(pictures[0])])[0]
        results["first question after teaching, ms"] = 1e3 * _once(memory.ask, vector)
        results["ask from a vector, ms"] = 1e3 * _seconds(memory.ask, vector)
        results["ask from an image, ms"] = 1e3 * _seconds(memory.ask, pictures[0])
        results["teach one vector, on disk, ms"] = 1e3 * _once(
            lambda x: memory.teach(x, "name 0"), vector[::-1]
        )
        results["size on disk, bytes per image"] = memory.info()["bytes"] / n_images
    return results


def _pictures(count: int) -> list[bytes]:
    """JPEG files of coloured noise, about as hard to decode as photographs."""
    rng = np.random.default_rng(0)
    pillow = pillow_image()
    files: list[bytes] = []
    for _ in range(count):
        coarse = pillow.fromarray(rng.integers(0, 256, (24, 32, 3), dtype=np.uint8))
        file = io.BytesIO()
        coarse.resize((SIDE, SIDE * 3 // 4), pillow.Resampling.BICUBIC).save(file, "JPEG")
        files.append(file.getvalue())
    return files


def _seconds(function: Callable[..., object], argument: object, rounds: int = 5) -> float:
    """Seconds of the fastest of several calls."""
    return min(_once(function, argument) for _ in range(rounds))


def _once(function: Callable[..., object], argument: object) -> float:
    start = time.perf_counter()
    function(argument)
    return time.perf_counter() - start
