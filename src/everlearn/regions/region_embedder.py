"""Embeds a part of a picture.

    box given      the given part
    "main"         the mean of the main thing (main_thing.py) and the whole picture
    "things"       the main thing, and all other proposals (proposals.py)

A part is cut out with a margin of 8 % of its sides and resized to the network's square input. On
training pictures of the data set ``scenes`` this names things better than a centre crop (62 against
54 % of COCO's) and distinguishes a whole animal from its head.

The main thing that is found may not be the one that the user means. So in the mode "main" the
vector of a picture is the mean of two unit vectors, of the main thing and of the whole picture. On
the data sets tried its accuracy is within a point of the better of the two, or above both
(docs/regions.md).
"""

import math
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from everlearn.errors import EverlearnError, InvalidParameter
from everlearn.images.batches import (
    Unreadable,
    digest_of_pixels,
    ordered_map,
    read_picture,
    thumbnail,
    with_source_name,
)
from everlearn.images.decode import RGB, Limits, Source
from everlearn.images.embedders import Embedder, Vectors, as_picture
from everlearn.regions.boxes import Box, Boxes, as_box, rounded
from everlearn.regions.main_thing import MainThing
from everlearn.regions.proposals import Proposer

if TYPE_CHECKING:
    from PIL import Image

Mode = Literal["whole", "main", "things"]
MODES: tuple[Mode, ...] = get_args(Mode)
AUTO = "auto"
MARGIN = 0.08
# A picture whose part is not known yet is decoded this many times larger than a whole one.
ZOOM = 3


@dataclass(frozen=True)
class Region:
    """A part of a picture, which is given as pixels, bytes or a file.

    ``box`` is four numbers, ``"auto"`` for the main thing, or ``None`` for the region mode.
    """

    picture: Any
    box: Any = None


@dataclass(frozen=True)
class EmbeddedRegion:
    """The embedded part of one picture.

    Attributes
    ----------
    source : bytes or path-like
        The file; empty for pixels.
    vector : ndarray
        Embedding of the part.
    digest : bytes
        Digest of the picture.
    thumbnail : bytes
        A small JPEG of the part.
    box : Box or None
        The part; ``None`` for the whole picture.
    found : bool
        Whether the box was found, not given.
    proposals, proposal_vectors, proposal_scores : ndarrays
        Other boxes, if requested.
    """

    source: Source
    vector: Vectors
    digest: bytes
    thumbnail: bytes
    box: Box | None
    found: bool
    proposals: Boxes | None = None
    proposal_vectors: Vectors | None = None
    proposal_scores: Boxes | None = None


class RegionEmbedder:
    """Embeds parts of pictures.

    Parameters
    ----------
    embedder : Embedder
    limits : Limits
    mode : {"whole", "main", "things"}
        Which part is used where no box is given.
    """

    def __init__(self, embedder: Embedder, limits: Limits, mode: str = "whole") -> None:
        require_mode(mode)
        self.embedder = embedder
        self.limits = limits
        self.mode = mode
        self.main_thing = MainThing()
        self.proposer = Proposer()

    def embed(self, part: Region) -> EmbeddedRegion:
        """Embed a part of one picture, or raise the matching error."""
        source, picture, digest = self._open(part)
        box, found = self._box(part.box, picture)
        vector = self._whole(picture) if box is None else self.vectors(picture, [box])[0]
        if self.mode == "main" and part.box is None:
            vector = mean_of_units(vector, self._whole(picture))
        small = thumbnail(picture if box is None else crop(picture, box))
        if self.mode != "things":
            return EmbeddedRegion(source, vector, digest, small, box, found)
        proposed = self.proposer.propose(picture)
        others = self.vectors(picture, [Box(*row) for row in proposed.boxes])
        more = proposed.boxes, others, proposed.scores
        return EmbeddedRegion(source, vector, digest, small, box, found, *more)

    def embed_many(self, parts: Iterable[Region]) -> Iterator[EmbeddedRegion | Unreadable]:
        """Embed many in order, using every core; an error for each unreadable picture."""
        workers = self.embedder.threads or os.cpu_count() or 1
        for (result,) in ordered_map(self._embed_safely, parts, 1, workers):
            yield result

    def open(self, picture: Any) -> tuple["Image.Image", bytes]:
        """A picture, decoded large enough for its parts, and its digest."""
        try:
            _, image, digest = self._open(Region(picture, AUTO))
        except EverlearnError as error:
            raise (with_source_name(picture, error) if _is_file(picture) else error) from None
        return image, digest

    def vectors(self, picture: "Image.Image", boxes: Iterable[Box]) -> Vectors:
        """Vectors of parts of one picture, one row each."""
        prepared = [self.embedder.prepare_part(picture, crop_edges(picture, box)) for box in boxes]
        found = np.empty((len(prepared), self.embedder.n_features), dtype=np.float32)
        for start in range(0, len(prepared), self.embedder.batch_size):
            batch = slice(start, start + self.embedder.batch_size)
            found[batch] = self.embedder.run(np.stack(prepared[batch]))
        return found

    def _whole(self, picture: "Image.Image") -> Vectors:
        return self.embedder.run(self.embedder.prepare(picture)[None])[0]

    def _box(self, given: Any, picture: "Image.Image") -> tuple[Box | None, bool]:
        if given is None and self.mode == "whole":
            return None, False
        if given is None or (isinstance(given, str) and given == AUTO):
            return self.main_thing.box(picture), True
        return as_box(given, *picture.size), False

    def _open(self, part: Region) -> tuple[Source, "Image.Image", bytes]:
        if _is_file(part.picture):
            at_least = self._at_least(part.box)
            image, digest = read_picture(part.picture, self.limits, at_least)
            return part.picture, image, digest
        pixels: RGB = np.asarray(part.picture)
        return b"", as_picture(pixels), digest_of_pixels(pixels)

    def _at_least(self, given: Any) -> int | None:
        """The side to decode at so that the part has enough pixels."""
        enough = self.embedder.at_least
        if enough is None or self.mode == "things":
            return None  # other proposals must not depend on the part
        if given is None and self.mode == "whole":
            return enough
        if given is None or (isinstance(given, str) and given == AUTO):
            return ZOOM * enough
        try:
            left, top, right, bottom = (float(number) for number in given)
        except (TypeError, ValueError):
            return None
        if not 0.0 <= left < right <= 1.0 or not 0.0 <= top < bottom <= 1.0:
            return None  # pixels of the original picture, or an error later
        return min(math.ceil(enough / min(right - left, bottom - top)), 1 << 16)

    def _embed_safely(self, parts: list[Region]) -> list[EmbeddedRegion | Unreadable]:
        results: list[EmbeddedRegion | Unreadable] = []
        for part in parts:
            try:
                results.append(self.embed(part))
            except EverlearnError as error:
                source = part.picture if _is_file(part.picture) else b""
                results.append(Unreadable(source, with_source_name(source, error)))
        return results


def mean_of_units(one: Vectors, other: Vectors) -> Vectors:
    """The mean of two vectors, each normalised to length one; a zero vector stays zero."""
    both = np.stack([one, other]).astype(np.float64)
    lengths = np.linalg.norm(both, axis=1, keepdims=True)
    return (both / np.where(lengths > 0.0, lengths, 1.0)).mean(axis=0).astype(np.float32)


def require_mode(mode: object) -> None:
    """Require one of the region modes."""
    if mode not in MODES:
        raise InvalidParameter(
            f"regions must be one of {', '.join(map(repr, MODES))}, not {mode!r}"
        )


def crop_edges(picture: "Image.Image", box: Box) -> tuple[float, float, float, float]:
    """A box with its margin in pixels, within the picture and at least one pixel wide."""
    width, height = picture.size
    across, down = MARGIN * (box.right - box.left), MARGIN * (box.bottom - box.top)
    wider = rounded((box.left - across, box.top - down, box.right + across, box.bottom + down))
    left, top = wider.left * width, wider.top * height
    right, bottom = wider.right * width, wider.bottom * height
    if right - left < 1.0:
        left = min(max(left - 0.5, 0.0), width - 1.0)
        right = left + 1.0
    if bottom - top < 1.0:
        top = min(max(top - 0.5, 0.0), height - 1.0)
        bottom = top + 1.0
    return left, top, right, bottom


def crop(picture: "Image.Image", box: Box) -> "Image.Image":
    """The pixels of a box."""
    return picture.crop(box.pixels(*picture.size))


def _is_file(picture: Any) -> bool:
    return isinstance(picture, (str, bytes, os.PathLike))
