"""Features of downloaded image data sets, computed once and kept in the cache folder.

Where the papers' own images of CORe50 and Caltech-256 are found, they are used instead of the
substitutes; the network is the same, EfficientNet-Lite0.
"""

import io
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everlearn.arrays import unit_rows
from everlearn.errors import MissingData
from everlearn.images.batches import Unreadable, embed_sources
from everlearn.images.embedders import EfficientNetLite0
from everlearn.persistence import replace_file
from everlearn.streams.examples import DataSet, Examples
from everlearn_papers.data import formats
from everlearn_papers.data.catalogue import cache_folder, find
from everlearn_papers.data.mosaics import cifar100_pictures
from everlearn_papers.data.packs import arrays, split_pack
from everlearn_papers.errors import WrongPack

# CORe50 has 20 frames per second; the paper uses one per second.
CORE50_EVERY = 20
AT_ONCE = 64


def is_there(name: str) -> bool:
    """Whether the folder of a data set is found."""
    with suppress(MissingData):
        return find(name).is_dir()
    return False


def core50() -> DataSet:
    """CORe50, one frame per second; a video is an instance, sessions 3, 7, 10 are the test set."""
    data = formats.core50(find("core50"))
    parts = {}
    for part, examples in (("train", data.train), ("test", data.test)):
        frame = np.array([int(path.rpartition("_")[2].partition(".")[0]) for path in examples.X])
        parts[part] = embedded(f"core50_{part}", examples.take(frame % CORE50_EVERY == 0))
    return DataSet("core50", parts["train"], parts["test"])


def caltech256() -> dict[str, np.ndarray]:
    """Features of Caltech-256 without the clutter class, by class name."""
    examples = embedded("caltech256", formats.caltech(find("caltech256")))
    return {str(name): examples.X[examples.y == name] for name in examples.classes}


def cifar100() -> DataSet:
    """Unit-length features of all of CIFAR-100, computed once and cached."""
    path = cache_folder() / "cifar100_effnetlite0.npz"
    if not path.exists():
        data = cifar100_pictures()
        parts = {"train": data.train, "test": data.test}
        made = {f"features_{part}": _unit_features(rows.X) for part, rows in parts.items()}
        made |= {f"labels_{part}": np.asarray(rows.y) for part, rows in parts.items()}
        _keep(path, made)
    return split_pack(str(path))


def embedded(name: str, examples: Examples) -> Examples:
    """Features of images given by their paths; cached as long as the list of files is the same."""
    path = cache_folder() / f"{name}_effnetlite0.npz"
    if path.exists():
        with suppress(WrongPack):
            files, X = arrays(str(path), "files", "features")
            if files.tolist() == examples.X.tolist():
                return replace(examples, X=X.astype(np.float64))
    vectors = []
    for found in embed_sources(EfficientNetLite0(), examples.X.tolist()):
        if isinstance(found, Unreadable):
            raise found.error
        vectors.append(found.vector)
    X = np.array(vectors, dtype=np.float16)
    _keep(path, {"files": examples.X, "features": X})
    return replace(examples, X=X.astype(np.float64))


def _unit_features(pictures: NDArray[np.uint8]) -> NDArray[np.float16]:
    """Unit-length features of images given as arrays; computed on all cores."""
    embedder = EfficientNetLite0()
    parts = [pictures[start : start + AT_ONCE] for start in range(0, len(pictures), AT_ONCE)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        rows = np.concatenate(list(pool.map(embedder.embed, parts)))
    return unit_rows(rows.astype(np.float64)).astype(np.float16)


def _keep(path: Path, pack: dict[str, NDArray[Any]]) -> None:
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **pack)
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, file.getvalue())
