"""Vectors of networks used side by side, assembled from known parts and newly embedded ones.

A network's vector of an image is known if the Memory was taught with that network, alone or with
others, or if an earlier run collected it (reembed.py). Only missing vectors are computed, and each
image is decoded once for all networks that need it. A change from two networks to one of them
therefore reads no image.
"""

import math
import os
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import clone

from everlearn.images.decode import Limits
from everlearn.images.embedders import Embedder, Vectors, as_picture
from everlearn.images.side_by_side import ConcatenatedEmbedder, SideBySide, join_parts, split_parts
from everlearn.memory.edits.reembed import (
    Comparison,
    Cost,
    Progress,
    Reembedded,
    collect,
    compare,
    embed_again,
    is_collected,
)
from everlearn.memory.storage.interface import Caches
from everlearn.memory.storage.journal import Journal
from everlearn.memory.storage.regions import taught_boxes

# Each network is timed this often; the fastest run counts.
ROUNDS = 3

# Vectors of one network, keyed by teaching.
OfNetwork = dict[int, Vectors]


def networks_of(embedder: Embedder) -> list[Embedder]:
    """The networks that make up an embedder."""
    return list(embedder.parts) if isinstance(embedder, SideBySide) else [embedder]


def embed_missing(
    caches: Caches,
    journal: Journal,
    embedder: Embedder,
    limits: Limits,
    progress: Progress | None,
    mode: str = "whole",
) -> dict[int, Reembedded]:
    """New vectors by teaching, for every image whose vector is known or that can be read.

    If parts of pictures are taught (``mode``, or a given box), all are embedded again.
    """
    if not _whole_pictures(journal, mode):
        return embed_again(caches, journal, embedder, limits, progress, mode)
    networks = networks_of(embedder)
    by_name = _taught_with(journal, networks)
    missing = []
    for network in networks:
        if network.name in by_name:
            continue
        if is_collected(caches, network):
            vectors = embed_again(caches, journal, network, limits, progress)
            by_name[network.name] = _rows(vectors, network.n_features)
        else:
            missing.append(network)
    if len(missing) == len(networks):
        return embed_again(caches, journal, embedder, limits, progress)
    if missing:
        by_name |= _together(caches, journal, missing, limits, progress)
    return _assembled([by_name[network.name] for network in networks])


def compare_all(
    caches: Caches,
    journal: Journal,
    classifier: Any,
    embedders: Sequence[Embedder],
    limits: Limits,
    progress: Progress | None,
    modes: Sequence[str] = ("whole",),
) -> list[Comparison]:
    """Leave-one-out accuracy with each embedder in each mode, best first."""
    networks = {n.name: n for embedder in embedders for n in networks_of(embedder)}
    known = _taught_with(journal, list(networks.values()))
    missing = [n for name, n in networks.items() if name not in known]
    missing = [network for network in missing if not is_collected(caches, network)]
    if len(missing) > 1 and any(_whole_pictures(journal, mode) for mode in modes):
        _together(caches, journal, missing, limits, progress)
    found = []
    for mode in modes:
        for embedder in embedders:
            reembedded = embed_missing(caches, journal, embedder, limits, progress, mode)
            fresh = [n for n in networks_of(embedder) if n.name not in known]
            cost = _cost(embedder, fresh, len(reembedded))
            found.append(compare(journal, clone(classifier), embedder, reembedded, mode, cost))
    return sorted(found, key=lambda comparison: -comparison.accuracy)


def _whole_pictures(journal: Journal, mode: str) -> bool:
    """Whether only whole pictures were taught, and whole pictures are wanted."""
    before = journal.fact("regions") or "whole"
    return before == mode == "whole" and not taught_boxes(journal)


def _taught_with(journal: Journal, networks: Sequence[Embedder]) -> dict[str, OfNetwork]:
    """Vectors of those networks that the journal's own vectors consist of."""
    current = journal.fact("embedder")
    wanted = {network.name: network.n_features for network in networks}
    found: dict[str, OfNetwork] = {}
    if current is None:
        return found
    for number, stored in journal.db.rows("SELECT teaching, vector FROM vectors"):
        for name, piece in split_parts(current, np.frombuffer(stored, "<f4")[None]).items():
            if wanted.get(name) == piece.shape[1]:
                found.setdefault(name, {})[number] = piece[0]
    return found


def _together(
    caches: Caches,
    journal: Journal,
    networks: Sequence[Embedder],
    limits: Limits,
    progress: Progress | None,
) -> dict[str, OfNetwork]:
    """Vectors of several networks, each image decoded once; stored separately per network."""
    together = networks[0] if len(networks) == 1 else ConcatenatedEmbedder(networks)
    vectors = embed_again(caches, journal, together, limits, progress)
    ends = np.cumsum([network.n_features for network in networks])[:-1]
    found: dict[str, OfNetwork] = {network.name: {} for network in networks}
    for number, row in _rows(vectors, together.n_features).items():
        for network, piece in zip(networks, np.split(row, ends), strict=True):
            found[network.name][number] = piece
    if len(networks) > 1:
        for network in networks:
            collect(caches, journal, network, found[network.name])
    return found


def _rows(reembedded: dict[int, Reembedded], width: int) -> OfNetwork:
    """The vectors as arrays."""
    return {n: np.frombuffer(new.vector, "<f4", count=width) for n, new in reembedded.items()}


def _assembled(parts: Sequence[OfNetwork]) -> dict[int, Reembedded]:
    """Concatenated vectors of the teachings that every network has embedded."""
    numbers = sorted(set.intersection(*(set(part) for part in parts)))
    if not numbers:
        return {}
    stacked = [np.stack([part[number] for number in numbers]) for part in parts]
    rows = join_parts(stacked) if len(stacked) > 1 else stacked[0]
    return {
        n: Reembedded(row.astype("<f4").tobytes()) for n, row in zip(numbers, rows, strict=True)
    }


def _cost(embedder: Embedder, fresh: Sequence[Embedder], teachings: int) -> Cost:
    """Cost of an embedder; switching to it runs only the networks in ``fresh``."""
    picture = as_picture(np.zeros((480, 640, 3), dtype=np.uint8))
    seconds = {network.name: _seconds(network, picture) for network in networks_of(embedder)}
    reembedded = sum(seconds[network.name] for network in fresh) * teachings / (os.cpu_count() or 1)
    numbers = 4 * teachings * embedder.n_features + 8 * embedder.n_features**2
    return Cost(1e3 * sum(seconds.values()), reembedded, numbers / 1e6)


def _seconds(network: Embedder, picture: Any) -> float:
    """Time to embed one picture, on one core."""
    best = math.inf
    for _ in range(ROUNDS):
        start = time.perf_counter()
        network.run(network.prepare(picture)[None])
        best = min(best, time.perf_counter() - start)
    return best
