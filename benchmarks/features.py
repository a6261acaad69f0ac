"""Vectors of the packs' pictures for each network, computed once and cached.

A cached file is identified by its pack and a digest of the embedder's name, so that another
network, other weights or another preprocessing recomputes it. Networks side by side are joined from
their parts.

    photographs    240 photographs of twelve things, 20 each
    turntable      fifty objects on a turntable, every third of 73 frames, 48 x 64 pixels
    CIFAR-100      the first 100 training and 30 test pictures of each class, from JPEG mosaics;
                   ``asked`` says which are test pictures
"""

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from everlearn_papers.data.catalogue import cache_folder, find
from everlearn_papers.data.mosaics import cifar100_pictures

from everlearn.errors import MissingData
from everlearn.images.by_name import as_embedder
from everlearn.images.decode import decode
from everlearn.images.embedders import Embedder
from everlearn.images.side_by_side import SideBySide, join_parts
from everlearn.memory.model.head import unit

TURNTABLE = "icub_camera50.npz"
TAUGHT, ASKED = 100, 30
AT_ONCE = 16


@dataclass(frozen=True)
class Seen:
    """Vectors at length one, the class of each, and whether it is a test picture."""

    X: np.ndarray
    y: np.ndarray
    asked: np.ndarray


@cache
def pictures(pack: str) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """Pictures of a pack, their classes, and which are test pictures."""
    if pack == "photographs":
        paths = sorted(find("demo_photos").glob("*/*.jpg"))
        y = np.unique([path.parent.name for path in paths], return_inverse=True)[1]
        return [decode(path) for path in paths], y, np.zeros(len(y), dtype=bool)
    if pack == "turntable":
        with np.load(find(TURNTABLE)) as arrays:
            rows = np.flatnonzero(arrays["frame"] % 3 == 0)
            y = np.asarray(arrays["labels"][rows])
            return list(arrays["images"][rows]), y, np.zeros(len(y), dtype=bool)
    if pack == "CIFAR-100":
        data = cifar100_pictures()
        chosen, labels = [], []
        for part, most in ((data.train, TAUGHT), (data.test, ASKED)):
            rows = np.concatenate([np.flatnonzero(part.y == k)[:most] for k in np.unique(part.y)])
            chosen += list(part.X[rows])
            labels.append(part.y[rows])
        asked = np.repeat([False, True], [len(part) for part in labels])
        return chosen, np.concatenate(labels), asked
    raise MissingData(f"there is no pack {pack!r}")


def seen(pack: str, network: str | Embedder) -> Seen:
    """A pack through a network, which may be named by a word."""
    X = _vectors(pack, as_embedder(network))
    _, y, asked = pictures(pack)
    return Seen(unit(X), y, asked)


def _vectors(pack: str, embedder: Embedder) -> np.ndarray:
    if isinstance(embedder, SideBySide):
        return join_parts([_vectors(pack, part) for part in embedder.parts])
    path = _kept(pack, embedder.name)
    if path.exists():
        found: np.ndarray = np.load(path, allow_pickle=False)
        if len(found) == len(pictures(pack)[1]):
            return found
    images = pictures(pack)[0]
    parts = [images[start : start + AT_ONCE] for start in range(0, len(images), AT_ONCE)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        rows = np.concatenate(list(pool.map(embedder.embed, parts)))
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, rows, allow_pickle=False)
    return rows


def _kept(pack: str, name: str) -> Path:
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    return cache_folder() / "benchmarks" / f"{pack}_{name.split(' ')[0]}_{digest}.npy"
