"""Networks that meet other pictures than they were trained on: adaptation, and Table 3's transfer.

``adapt``       a network trained on the base classes meets the other classes as a new stream: as it
                is, or adapted to the first session of it (last block, or low rank)
``turntable``   vectors of the turntable pictures by a network trained on CIFAR-100's base classes,
                as it is and adapted to the first objects; left in the results for the streams of
                Table 1 and Table 3
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everlearn.deep.adapt import GENTLE
from everlearn.deep.adapt import adapt as adapted
from everlearn.deep.embedding import DeepEmbedder
from everlearn.deep.pictures import gather
from everlearn.learners.ncm import NearestClassMean
from everlearn.learners.rlsc import RecursiveRLSC
from everlearn_papers.data.packs import arrays
from everlearn_papers.deep.cifar import Scale, base_embedder, pictures
from everlearn_papers.slda.learners import PlasticLDA

LEARNERS: dict[str, Callable[[], Any]] = {
    "NCM": NearestClassMean,
    "SLDA (plastic)": PlasticLDA,
    "RLSC": lambda: RecursiveRLSC(regularization="auto", recoding=0.0),
}
FIRST_OBJECTS = 2


def adapt(scale: Scale, folder: Path) -> dict[str, Any]:
    """Accuracy on all later classes after streaming them, adapted to the first session or not."""
    train, test = pictures(scale)
    embedder = base_embedder(scale, folder)
    later = list(range(scale.base, scale.n_classes))
    session = train.of(later[: scale.step])
    recipe = replace(GENTLE, seed=scale.seed, epochs=scale.task_epochs)
    found: dict[str, Any] = {}
    for how in ("as it is", "last block", "low rank"):
        begin = perf_counter()
        now = embedder
        if how != "as it is":
            now = adapted(embedder, session.pixels, session.slots, how=how, recipe=recipe)
        seconds = perf_counter() - begin
        vectors, asked = now.embed(train.of(later).pixels), now.embed(test.of(later).pixels)
        found[how] = {"seconds": seconds, "changed": now is not embedder}
        for name, make in LEARNERS.items():
            learner = make()
            learner.partial_fit(vectors.astype(np.float64), train.of(later).slots)
            answers = learner.predict(asked.astype(np.float64))
            found[how][name] = float(np.mean(answers == test.of(later).slots))
    return found


def turntable(scale: Scale, folder: Path) -> dict[str, Any]:
    """Vectors of the turntable pictures, before and after adaptation to the first objects."""
    pixels, labels = turntable_pictures(32)
    embedder = base_embedder(scale, folder)
    begin = perf_counter()
    _write(folder / "turntable-plain.npz", embedder, pixels)
    first = np.isin(labels, np.unique(labels)[:FIRST_OBJECTS])
    recipe = replace(GENTLE, epochs=10, learning_rate=0.005, seed=scale.seed)
    fitted = adapted(embedder, pixels[first], labels[first], recipe=recipe)
    _write(folder / "turntable-adapted.npz", fitted, pixels)
    return {"seconds": perf_counter() - begin, "changed": fitted is not embedder}


def turntable_pictures(size: int) -> tuple[NDArray[np.uint8], NDArray[Any]]:
    """The pictures of the turntable in the order of the pack, as a network takes them."""
    images, labels = arrays("icub_camera50.npz", "images", "labels")
    found = gather(images, labels, size)
    return found.pixels, found.labels


def _write(path: Path, embedder: DeepEmbedder, pixels: NDArray[np.uint8]) -> None:
    np.savez_compressed(path, features=embedder.embed(pixels).astype(np.float16))
