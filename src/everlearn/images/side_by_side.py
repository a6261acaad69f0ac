"""Several networks side by side: the vectors of all of them, concatenated.

Networks that were trained differently have complementary features, and a closed-form learner can
use all of them. The vector of a picture is

    [ u_1, u_2, …, u_m ] / √m        with u_i the vector of network i at length one

so each network has the same weight, whatever the scale of its features. A picture is decoded once
for all of them. The name lists their names, so that the part of each can be identified in a vector,
and exchanging one network leaves the others' parts unchanged.
"""

import json
import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

from everlearn.errors import InvalidParameter
from everlearn.images.embedders import (
    Embedder,
    NetworkEmbedder,
    Vectors,
    as_picture,
    centre_crop,
)

if TYPE_CHECKING:
    from PIL import Image

PREFIX = "side by side "
MOST_PARTS = 8


class ConcatenatedEmbedder(Embedder):
    """Several embedders whose vectors are concatenated, neither scaled nor normalised.

    Parameters
    ----------
    parts : sequence of Embedder

    Attributes
    ----------
    parts : tuple of Embedder
    """

    def __init__(self, parts: Sequence[Embedder]) -> None:
        self.parts = tuple(parts)
        self.name = " and ".join(part.name for part in parts)
        self.n_features = sum(part.n_features for part in parts)
        self.at_least = max((part.at_least or 0 for part in parts), default=0) or None
        self.batch_size = min(part.batch_size for part in parts)
        self.threads = min((p.threads for p in parts if p.threads is not None), default=None)
        smallest = as_picture(np.zeros((8, 8, 3), dtype=np.uint8))
        self._shapes = [part.prepare(smallest).shape for part in parts]
        self._ends = np.cumsum([int(np.prod(shape)) for shape in self._shapes])
        self._lock = threading.Lock()
        self._running = 0

    def prepare(self, picture: "Image.Image") -> Vectors:
        """The inputs of all parts, concatenated; parts with equal size and crop share the crop."""
        squares: dict[tuple[int, float], Image.Image] = {}
        prepared = []
        for part in self.parts:
            if not isinstance(part, NetworkEmbedder):
                prepared.append(part.prepare(picture).ravel())
                continue
            key = part.size, part.crop
            if key not in squares:
                squares[key] = centre_crop(picture, *key)
            prepared.append(part.planes(squares[key]).ravel())
        return np.concatenate(prepared)

    def run(self, batch: Vectors) -> Vectors:
        return np.concatenate(self.run_each(batch), axis=1)

    def run_each(self, batch: Vectors) -> list[Vectors]:
        """The vectors of every part; computed in parallel unless another call is running."""
        with self._lock:
            is_idle = self._running == 0
            self._running += 1
        try:
            pieces = np.split(batch, self._ends[:-1], axis=1)
            shaped = [
                np.ascontiguousarray(piece).reshape(len(batch), *shape)
                for piece, shape in zip(pieces, self._shapes, strict=True)
            ]
            if is_idle and len(self.parts) > 1 and (os.cpu_count() or 1) > 1:
                return self._run_parallel(shaped)
            return [part.run(piece) for part, piece in zip(self.parts, shaped, strict=True)]
        finally:
            with self._lock:
                self._running -= 1

    def _run_parallel(self, pieces: list[Vectors]) -> list[Vectors]:
        with ThreadPoolExecutor(len(self.parts) - 1, thread_name_prefix="side by side") as pool:
            others = [
                pool.submit(part.run, piece)
                for part, piece in zip(self.parts[1:], pieces[1:], strict=True)
            ]
            first = self.parts[0].run(pieces[0])
            return [first, *(other.result() for other in others)]


class SideBySide(ConcatenatedEmbedder):
    """An embedder composed of embedders.

    Parameters
    ----------
    parts : sequence of Embedder
        Two to eight different ones; a composed embedder counts as its parts.

    Attributes
    ----------
    parts : tuple of Embedder

    Notes
    -----
    *Cost*: that of all networks. A single picture is processed by them in parallel, if there are
    several cores; with many pictures, every core is busy already. A Memory's statistics grow with
    the square of the number of features: 13 MB for 1,280, 52 MB for 2,560.

    *Promises*: those of its parts. The part of a vector that belongs to a network is that network's
    own vector at length one, divided by √m. (If parts need pictures of different sizes, all get the
    larger one, which can change the last digits of the others.)

    Examples
    --------
    >>> import numpy as np
    >>> from everlearn.images import Pixels, SideBySide
    >>> both = SideBySide([Pixels(size=4), Pixels(size=2, colour=True)])
    >>> both.n_features
    28
    >>> both.name
    'side by side [["pixels 4 grey", 16], ["pixels 2 colour", 12]]'
    """

    def __init__(self, parts: Sequence[Embedder]) -> None:
        flat: list[Embedder] = []
        for part in parts:
            flat += part.parts if isinstance(part, SideBySide) else [part]
        if not 2 <= len(flat) <= MOST_PARTS:
            raise InvalidParameter(
                f"2 to {MOST_PARTS} networks can be used together, not {len(flat)}"
            )
        names = [part.name for part in flat]
        if len(set(names)) < len(names):
            raise InvalidParameter(f"the same network is given twice: {', '.join(names)}")
        super().__init__(flat)
        described = [[part.name, part.n_features] for part in flat]
        self.name = PREFIX + json.dumps(described, ensure_ascii=False)

    def run(self, batch: Vectors) -> Vectors:
        return join_parts(self.run_each(batch))


def join_parts(vectors: Sequence[Vectors]) -> Vectors:
    """Concatenated rows of several networks: each at length one, divided by √m."""
    share = 1.0 / np.sqrt(len(vectors))
    units = []
    for rows in vectors:
        exact = rows.astype(np.float64)
        lengths = np.linalg.norm(exact, axis=1, keepdims=True)
        units.append(exact * (share / np.where(lengths > 0.0, lengths, 1.0)))
    return np.concatenate(units, axis=1).astype(np.float32)


def split_parts(name: str, vectors: Vectors) -> dict[str, Vectors]:
    """The rows of each network, at length one, from concatenated rows with this name."""
    parts = parts_in(name)
    widths = [width for _, width in parts]
    if len(parts) < 2 or sum(widths) != vectors.shape[1]:
        return {name: vectors}
    pieces = np.split(vectors, np.cumsum(widths)[:-1], axis=1)
    scale = np.float32(np.sqrt(len(parts)))
    return {own: piece * scale for (own, _), piece in zip(parts, pieces, strict=True)}


def parts_in(name: str | None) -> list[tuple[str, int]]:
    """Names and widths of the networks in a composed name; empty for any other name."""
    if name is None or not name.startswith(PREFIX):
        return []
    try:
        listed = json.loads(name[len(PREFIX) :])
        parts = [(own, width) for own, width in listed]
    except (ValueError, TypeError, RecursionError):
        return []
    are_valid = all(
        isinstance(own, str) and type(width) is int and width > 0 for own, width in parts
    )
    return parts if are_valid and 2 <= len(parts) <= MOST_PARTS else []
