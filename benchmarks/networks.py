"""The table of networks: what each weighs, takes and knows, and two side by side beside one.

Times are those of the processor, the best of many rounds in which the networks take turns, so that
ratios hold on a busy machine; a single picture goes through two networks at once where two cores
are free, which then takes as long as the slower one. Accuracies are those of a Memory's classifier,
mean of ten random choices, nothing tuned.
"""

import time
from collections.abc import Iterator

import numpy as np

from benchmarks.images_accuracy import shots
from benchmarks.side_by_side import Line
from benchmarks.unknown import cifar, photographs, turntable
from everlearn.errors import MissingPackage
from everlearn.images.by_name import embedder_for
from everlearn.images.embedders import Embedder, OnnxEmbedder, as_picture
from everlearn.images.side_by_side import SideBySide

NETWORKS = ("fast", "balanced", "pp-lcnetv2", "best")
ROUNDS = 60
PACKS = {
    "photographs": (photographs, (1, 5, 14)),
    "turntable": (turntable, (1, 5, 16)),
    "CIFAR-100": (cifar, (1, 5, 20)),
}


def megabytes(embedder: Embedder) -> float:
    if isinstance(embedder, SideBySide):
        return sum(map(megabytes, embedder.parts))
    return len(embedder.model) / 1e6 if isinstance(embedder, OnnxEmbedder) else 0.0


def milliseconds(embedders: dict[str, Embedder]) -> dict[str, tuple[float, float]]:
    """For one picture, prepared and run: of the processor, and on the clock; the best of many."""
    pixels = np.random.default_rng(0).integers(0, 256, (480, 640, 3), dtype=np.uint8)
    picture = as_picture(pixels)
    best = dict.fromkeys(embedders, (np.inf, np.inf))
    for _ in range(ROUNDS):
        for word, embedder in embedders.items():
            start = time.process_time(), time.perf_counter()
            embedder.run(embedder.prepare(picture)[None])
            took = time.process_time() - start[0], time.perf_counter() - start[1]
            best[word] = min(best[word][0], 1e3 * took[0]), min(best[word][1], 1e3 * took[1])
    return best


def lines() -> Iterator[Line]:
    embedders: dict[str, Embedder] = {}
    for word in NETWORKS:
        try:
            embedders[word] = embedder_for(word)
        except MissingPackage as missing:
            yield Line(f"the network {word}", str(missing), "everlearn[networks]")
    times = milliseconds(embedders)
    for word, embedder in embedders.items():
        yield Line(
            f"{word}: megabytes, ms a picture",
            f"{megabytes(embedder):.1f} MB, {times[word][0]:.1f} ms "
            f"({times[word][0] / times['balanced'][0]:.2f} x balanced)",
            "report",
        )
    if "best" in times:
        yield Line(
            "two networks beside EfficientNet-Lite0, a single picture on the clock",
            f"{times['best'][1] / times['balanced'][1]:.2f} x",
            "<= 1.6 x",
        )
    for pack, (embedded, counts) in PACKS.items():
        for word, embedder in embedders.items():
            X, y = embedded(embedder)
            found = [f"{100 * shots(X, y, each):.1f}" for each in counts]
            taught = " / ".join(map(str, counts))
            yield Line(f"{pack}, {word}: {taught} taught", " / ".join(found) + " %", "report")
