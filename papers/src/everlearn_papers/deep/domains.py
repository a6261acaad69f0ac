"""Domain shift: adaptation of a network to new pictures, and Tables 1 to 3 on the turntable.

``adapt``       a network trained on the base classes streams the other classes: unchanged, or
                adapted to their first session (last block, or low rank)
``turntable``   the turntable substitutes for CORe50, and a network trained on CIFAR-100's base
                classes for one trained on ImageNet. In each ordering and draw the network is
                adapted to the first fifth of the stream; its vectors are written to the folder
``ordering``    Table 1's rows that train the output layer, and Table 3, on those vectors

The last two fifths of each object's turn are used for testing only, never for adaptation.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from everlearn.deep.adapt import ADAPTATION
from everlearn.deep.adapt import adapt as adapted
from everlearn.deep.embedding import DeepEmbedder
from everlearn.deep.pictures import gather
from everlearn.errors import NotFinite, TooFewExamples
from everlearn.evaluation.metrics import accuracy
from everlearn.learners.ncm import NearestClassMean
from everlearn.learners.rlsc import RecursiveRLSC
from everlearn.streams.examples import DataSet, Indices
from everlearn_papers.data import packs
from everlearn_papers.deep.cifar import Scale, base_embedder, pictures
from everlearn_papers.slda.experiments import in_order, streamed
from everlearn_papers.slda.learners import PlasticLDA
from everlearn_papers.slda.start import begun, pooled

LEARNERS: dict[str, Callable[[], Any]] = {
    "NCM": NearestClassMean,
    "SLDA (plastic)": PlasticLDA,
    "RLSC": lambda: RecursiveRLSC(regularization="auto", recoding=0.0),
}
ORDERINGS = ("iid", "class iid", "instance", "class instance")
CHECKPOINTS = 5
BATCH = 32  # tasks have few pictures


def adapt(scale: Scale, folder: Path) -> dict[str, Any]:
    """Return accuracy on the later classes after streaming them, by kind of adaptation."""
    train, test = pictures(scale)
    embedder = base_embedder(scale, folder)
    later = list(range(scale.base, scale.n_classes))
    session = train.of(later[: scale.step])
    recipe = replace(ADAPTATION, seed=scale.seed, epochs=scale.task_epochs)
    found: dict[str, Any] = {}
    hows: tuple[Literal["as it is", "last block", "low rank"], ...]
    hows = ("as it is", "last block", "low rank")
    for how in hows:
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


def turntable(scale: Scale, folder: Path, draws: int) -> dict[str, Any]:
    """Embed the turntable with the unchanged network and with one adapted to each stream."""
    pixels, labels = turntable_pictures(32)
    embedder = base_embedder(scale, folder)
    begin = perf_counter()
    _write(folder / "turntable-plain.npz", embedder, pixels)
    where = packs.turntable("arc", np.arange(len(pixels))[:, None])
    recipe = replace(
        ADAPTATION, epochs=scale.task_epochs, batch_size=BATCH, learning_rate=0.005, seed=scale.seed
    )
    changed = 0
    for ordering in ORDERINGS:
        for draw in range(draws):
            order, every = stream_of(where, ordering, draw)
            first = where.train.X[order[:every], 0].astype(np.intp)
            try:
                fitted = adapted(embedder, pixels[first], labels[first], recipe=recipe)
            except (NotFinite, TooFewExamples):  # keep the network unchanged
                fitted = embedder
            changed += fitted is not embedder
            _write(_vectors(folder, ordering, draw), fitted, pixels)
    return {"seconds": perf_counter() - begin, "changed": changed, "streams": draws * 4}


def ordering(folder: Path, name: str, draws: Sequence[int]) -> dict[str, Any]:
    """Run Table 1's rows that train the output layer, and Table 3, in one ordering."""
    with np.load(folder / "vectors.npz", allow_pickle=False) as pack:
        cifar_start = pooled(pack["X"], pack["y"]), len(pack["X"])
    plain = packs.turntable("arc", _read(folder / "turntable-plain.npz"))
    runs: list[dict[str, Any]] = []
    for draw in draws:
        fitted = packs.turntable("arc", _read(_vectors(folder, name, draw)))
        order, every = stream_of(fitted, name, draw)
        run = streamed(fitted, order, every, draw, in_tasks=name.startswith("class"))
        kept = ("accuracies", "masked", "learning", "MB", "rates", "tried")
        ones = np.ones((fitted.train.X.shape[1],) * 2)
        starts: dict[str, Any] = {}
        for start, data, begin in (
            ("CIFAR-100 (G)", plain, (ones, 0)),
            ("CIFAR-100 (G, Σ)", plain, cifar_start),
            ("turntable (G)", fitted, (ones, 0)),
            ("turntable (G, Σ)", fitted, None),
        ):
            starts[start] = {
                kind: _accuracies(begun(begin, kind), data, order, every)
                for kind in ("fixed", "plastic")
            }
        runs.append({key: run[key] for key in kept} | {"starts": starts, "draw": draw})
    return {"runs": runs}


def turntable_pictures(size: int) -> tuple[NDArray[np.uint8], NDArray[Any]]:
    """Return pictures of the turntable, resized for a network, and labels, in pack order."""
    images, labels = packs.arrays(packs.TURNTABLE, "images", "labels")
    found = gather(images, labels, size)
    return found.pixels, found.labels


def stream_of(data: DataSet, name: str, draw: int) -> tuple[Indices, int]:
    """Return the order of a stream and the number of examples between checkpoints."""
    order = in_order(data.train, name, draw)
    return order, len(order) // CHECKPOINTS


def _accuracies(learner: Any, data: DataSet, order: Indices, every: int) -> list[float]:
    """Return the test accuracy at every checkpoint of the stream."""
    accuracies = []
    for place in range(0, every * CHECKPOINTS, every):
        part = data.train.take(order[place : place + every])
        learner.partial_fit(part.X, part.y)
        accuracies.append(accuracy(data.test.y, learner.predict(data.test.X)))
    return accuracies


def _vectors(folder: Path, ordering: str, draw: int) -> Path:
    return folder / f"turntable-{ordering.replace(' ', '-')}-{draw}.npz"


def _write(path: Path, embedder: DeepEmbedder, pixels: NDArray[np.uint8]) -> None:
    np.savez(path, features=embedder.embed(pixels))


def _read(path: Path) -> NDArray[np.float32]:
    with np.load(path, allow_pickle=False) as pack:
        features: NDArray[np.float32] = pack["features"]
    return features
