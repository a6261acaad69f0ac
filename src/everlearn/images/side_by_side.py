"""Several networks side by side: one picture, the vectors of all of them in a row.

Networks that were trained differently see different things, and a closed-form learner is glad of
every feature it gets. The vector of a picture is

    [ u_1, u_2, …, u_m ] / √m        with u_i the vector of network i at length one

so each network has the same weight, whatever the scale of its features. A picture is decoded once
for all of them. The name is the list of their names, so that the part of each can be found again in
a vector, and exchanging one network leaves the others' parts as they are.
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


class Together(Embedder):
    """Several embedders on one picture, their vectors as they are, one after the other.

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
        self._guard = threading.Lock()
        self._running = 0

    def prepare(self, picture: "Image.Image") -> Vectors:
        """The picture as every part wants it; those that look at the same square share it."""
        squares: dict[tuple[int, float], Image.Image] = {}
        prepared = []
        for part in self.parts:
            if not isinstance(part, NetworkEmbedder):
                prepared.append(part.prepare(picture).ravel())
                continue
            view = part.size, part.crop
            if view not in squares:
                squares[view] = centre_crop(picture, *view)
            prepared.append(part.planes(squares[view]).ravel())
        return np.concatenate(prepared)

    def run(self, batch: Vectors) -> Vectors:
        return np.concatenate(self.of_each(batch), axis=1)

    def of_each(self, batch: Vectors) -> list[Vectors]:
        """The vectors of every part; at the same time where nobody else keeps the cores busy."""
        with self._guard:
            alone = self._running == 0
            self._running += 1
        try:
            pieces = np.split(batch, self._ends[:-1], axis=1)
            shaped = [
                np.ascontiguousarray(piece).reshape(len(batch), *shape)
                for piece, shape in zip(pieces, self._shapes, strict=True)
            ]
            if alone and len(self.parts) > 1 and (os.cpu_count() or 1) > 1:
                return self._at_once(shaped)
            return [part.run(piece) for part, piece in zip(self.parts, shaped, strict=True)]
        finally:
            with self._guard:
                self._running -= 1

    def _at_once(self, pieces: list[Vectors]) -> list[Vectors]:
        with ThreadPoolExecutor(len(self.parts) - 1, thread_name_prefix="beside") as pool:
            others = [
                pool.submit(part.run, piece)
                for part, piece in zip(self.parts[1:], pieces[1:], strict=True)
            ]
            first = self.parts[0].run(pieces[0])
            return [first, *(other.result() for other in others)]


class SideBySide(Together):
    """An embedder made of embedders.

    Parameters
    ----------
    parts : sequence of Embedder
        Two to eight different ones. What is made of several itself counts as its parts.

    Attributes
    ----------
    parts : tuple of Embedder

    Notes
    -----
    *Cost*: that of all networks. A single picture goes through them at the same time, where there
    are cores; many pictures keep every core busy anyway. A Memory's statistics grow with the square
    of the number of features: 13 MB for 1,280, 52 MB for 2,560.

    *Promises*: those of its parts. The part of a vector that belongs to a network is what that
    network gives alone, at length one, divided by √m. (Parts that want pictures of different sizes
    are all shown the larger one, which can change the last digits of the others.)

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
            raise InvalidParameter(f"side by side go 2 to {MOST_PARTS} networks, not {len(flat)}")
        names = [part.name for part in flat]
        if len(set(names)) < len(names):
            raise InvalidParameter(f"one network stands twice among {', '.join(names)}")
        super().__init__(flat)
        described = [[part.name, part.n_features] for part in flat]
        self.name = PREFIX + json.dumps(described, ensure_ascii=False)

    def run(self, batch: Vectors) -> Vectors:
        return joined(self.of_each(batch))


def joined(vectors: Sequence[Vectors]) -> Vectors:
    """The rows of several networks in one: each at length one, divided by the root of how many."""
    share = 1.0 / np.sqrt(len(vectors))
    units = []
    for rows in vectors:
        exact = rows.astype(np.float64)
        lengths = np.linalg.norm(exact, axis=1, keepdims=True)
        units.append(exact * (share / np.where(lengths > 0.0, lengths, 1.0)))
    return np.concatenate(units, axis=1).astype(np.float32)


def taken_apart(name: str, vectors: Vectors) -> dict[str, Vectors]:
    """The rows of each network in rows that go by this name, at length one; or the rows as such."""
    parts = parts_in(name)
    widths = [width for _, width in parts]
    if len(parts) < 2 or sum(widths) != vectors.shape[1]:
        return {name: vectors}
    pieces = np.split(vectors, np.cumsum(widths)[:-1], axis=1)
    scale = np.float32(np.sqrt(len(parts)))
    return {own: piece * scale for (own, _), piece in zip(parts, pieces, strict=True)}


def parts_in(name: str | None) -> list[tuple[str, int]]:
    """Names and widths of the networks that are side by side under this name; else none."""
    if name is None or not name.startswith(PREFIX):
        return []
    try:
        said = json.loads(name[len(PREFIX) :])
        parts = [(own, width) for own, width in said]
    except (ValueError, TypeError, RecursionError):
        return []
    sound = all(isinstance(own, str) and type(width) is int and width > 0 for own, width in parts)
    return parts if sound and 2 <= len(parts) <= MOST_PARTS else []
