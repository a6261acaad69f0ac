"""The table of networks: size, time and accuracy of each, and of two side by side.

Times are processor times, the best of many rounds in which the networks alternate, so that ratios
hold on a busy machine; a single picture is processed by two networks in parallel if two cores are
free, which then takes as long as the slower one. Accuracies are those of a Memory's classifier,
mean of ten random choices, without tuning.
"""

import math
import time
from collections.abc import Callable, Iterator

import numpy as np
import onnx

from benchmarks.features import Seen, seen
from benchmarks.side_by_side import Line
from everlearn.errors import MissingPackage
from everlearn.images.by_name import embedder_for
from everlearn.images.embedders import Embedder, OnnxEmbedder, as_picture
from everlearn.images.shipped import WHOLE_SIDE, EfficientNetLite2, PPLCNetV2
from everlearn.images.side_by_side import SideBySide
from everlearn.memory.model.classifiers import default_classifier

# Words, and what they are made of: both precisions, and the networks of ``best`` alone.
NETWORKS: dict[str, Callable[[], Embedder]] = {
    "basic": lambda: embedder_for("basic"),
    "fast, which is basic in int8": lambda: embedder_for("fast"),
    "balanced": lambda: embedder_for("balanced"),
    "balanced in float32": lambda: EfficientNetLite2(crop=WHOLE_SIDE),
    "pp-lcnetv2 as in best": lambda: PPLCNetV2(crop=WHOLE_SIDE),
    "best": lambda: embedder_for("best"),
}
ROUNDS = 60
CHOICES = 10
# How many of each class are taught; of CIFAR-100 the test pictures are asked, else all the others.
PACKS = {
    "photographs": (1, 5, 14),
    "turntable": (1, 5, 16),
    "CIFAR-100": (1, 5, 20, 100),
}
WANTED = {
    "photographs": "best >= 92 / 98.3",
    "turntable": "report",
    "CIFAR-100": "best >= 32 / 55 / 68 / 73",
}


def parameters(embedder: Embedder) -> float:
    """Weights of the networks, in millions."""
    if isinstance(embedder, SideBySide):
        return sum(map(parameters, embedder.parts))
    if not isinstance(embedder, OnnxEmbedder):
        return 0.0
    graph = onnx.load_from_string(embedder.model).graph
    return sum(math.prod(tensor.dims) for tensor in graph.initializer) / 1e6


def shots(found: Seen, each: int) -> float:
    """Accuracy of the Memory's classifier after so many examples of every class."""
    accuracies = []
    taught_from = np.flatnonzero(~found.asked)
    for seed in range(CHOICES):
        rng = np.random.default_rng(seed)
        taught = np.concatenate(
            [
                rng.permutation(taught_from[found.y[taught_from] == k])[:each]
                for k in np.unique(found.y)
            ]
        )
        asked = np.flatnonzero(found.asked)
        if not len(asked):
            asked = np.setdiff1d(taught_from, taught)
        classifier = default_classifier().partial_fit(found.X[taught], found.y[taught])
        accuracies.append(np.mean(classifier.predict(found.X[asked]) == found.y[asked]))
        if len(taught) == len(taught_from):
            break
    return float(np.mean(accuracies))


def megabytes(embedder: Embedder) -> float:
    if isinstance(embedder, SideBySide):
        return sum(map(megabytes, embedder.parts))
    return len(embedder.model) / 1e6 if isinstance(embedder, OnnxEmbedder) else 0.0


def milliseconds(embedders: dict[str, Embedder]) -> dict[str, tuple[float, float]]:
    """For one picture, prepared and run: processor time and wall time; the best of many."""
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
    for word, made in NETWORKS.items():
        try:
            embedders[word] = made()
        except MissingPackage as missing:
            yield Line(f"the network {word}", str(missing), "everlearn[networks]")
    times = milliseconds(embedders)
    for word, embedder in embedders.items():
        yield Line(
            f"{word}: parameters, megabytes, ms a picture",
            f"{parameters(embedder):.1f} million, {megabytes(embedder):.1f} MB, "
            f"{times[word][0]:.1f} ms ({times[word][0] / times['basic'][0]:.2f} x basic)",
            "report",
        )
    if "best" in times:
        yield Line(
            "best (two networks) beside balanced (one of them), a single picture on the clock",
            f"{times['best'][1] / times['balanced'][1]:.2f} x",
            "<= 1.6 x",
        )
    for pack, counts in PACKS.items():
        taught = " / ".join(map(str, counts))
        for word, embedder in embedders.items():
            right = [f"{100 * shots(seen(pack, embedder), each):.1f}" for each in counts]
            yield Line(f"{pack}, {word}: {taught} taught", " / ".join(right) + " %", WANTED[pack])
