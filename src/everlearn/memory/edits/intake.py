"""Converts images, files and vectors into examples that the journal can store.

The input is an image file, the bytes of one, a picture in RGB, a part of any of these
(:class:`~everlearn.regions.Region`), or a vector of features.
"""

import hashlib
import itertools
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from everlearn.errors import (
    EverlearnError,
    InvalidBox,
    InvalidParameter,
    NotFinite,
    WrongKind,
    WrongShape,
)
from everlearn.images.batches import (
    Embedded,
    Unreadable,
    embed_picture,
    embed_source,
    embed_sources,
    thumbnail,
)
from everlearn.images.by_name import Given, bundled_embedder, matching_embedder
from everlearn.images.decode import Limits, read_bytes
from everlearn.images.embedders import Embedder
from everlearn.images.shipped import default_embedder
from everlearn.memory.storage.rows import Example, PictureProposals, TaughtBox, Vectors
from everlearn.regions.boxes import Box
from everlearn.regions.region_embedder import EmbeddedRegion, Region, RegionEmbedder, crop

if TYPE_CHECKING:
    from PIL import Image

KeepImages = Literal["thumbnail", "image", "none"]

# A name with its example, or with the error of reading it.
NamedExample = tuple[str, Example | Unreadable]


class Intake:
    """Embeds images where needed; the embedder is created with the first image.

    Parameters
    ----------
    embedder : Embedder or path-like, optional
        An embedder, a model name or an ONNX file (images/by_name.py). Defaults to the embedder
        the folder was taught with, or to the one that comes with everlearn.
    limits : Limits
    keep_images : str
    known : callable
        Returns the name of the embedder that made the vectors so far, if there is one.
    mode : callable
        Returns which part of a picture is used where no box is given (regions/region_embedder.py).
    """

    def __init__(
        self,
        embedder: Embedder | Given | None,
        limits: Limits,
        keep_images: KeepImages = "thumbnail",
        known: Callable[[], str | None] = lambda: None,
        mode: Callable[[], str] = lambda: "whole",
    ) -> None:
        allowed = get_args(KeepImages)
        if keep_images not in allowed:
            raise InvalidParameter(
                f"keep_images is one of {', '.join(map(repr, allowed))}, not {keep_images!r}"
            )
        self._embedder: Embedder | None = None
        self._name_or_file: Given | None = None
        if isinstance(embedder, (str, os.PathLike)):
            self._name_or_file = embedder
        else:
            self._embedder = embedder
        self._given = self._embedder
        self._known = known
        self._mode = mode
        self._region_embedder: RegionEmbedder | None = None
        self.limits = limits
        self.keep_images = keep_images

    @property
    def embedder(self) -> Embedder:
        if self._embedder is None:
            if self._name_or_file is not None:
                self._embedder = matching_embedder(self._known(), self._name_or_file)
            else:
                known = self._known()
                named = None if known is None else bundled_embedder(known)
                self._embedder = named or default_embedder()
        return self._embedder

    @embedder.setter
    def embedder(self, embedder: Embedder) -> None:
        self._embedder = embedder

    def embedder_changed(self) -> None:
        """Return to the embedder given to the constructor, or to the one the journal names."""
        self._embedder = self._given

    @property
    def region_embedder(self) -> RegionEmbedder:
        """Embeds parts of pictures, with the current embedder and region mode."""
        mode = self._mode()
        made = self._region_embedder
        if made is None or made.mode != mode or made.embedder is not self.embedder:
            made = self._region_embedder = RegionEmbedder(self.embedder, self.limits, mode)
        return made

    def one(self, example: Any, source: str | None = None, box: Any = None) -> Example:
        """Convert one example; an :class:`Example` is validated and returned unchanged."""
        if isinstance(example, Example):
            _require_valid_vector(example)
            return example
        if isinstance(example, Region):
            example, box = example.picture, example.box
        if self._is_part(example, box):
            return self._example_of_part(self.region_embedder.embed(_region(example, box)), source)
        if _is_file(example):
            return self._example(embed_source(self.embedder, example, limits=self.limits), source)
        if _is_picture(example):
            return self._example(embed_picture(self.embedder, _pixels(example)), source or "")
        vector = _vector(example)
        return Example(vector, source or "", hashlib.sha256(vector.tobytes()).digest())

    def many(self, examples: Iterable[tuple[Any, str]]) -> Iterator[NamedExample]:
        """Yield each name with its example, or with the error of reading it, in order."""
        for kind, group in itertools.groupby(examples, key=lambda pair: self._kind(pair[0])):
            if kind == "part":
                yield from self._parts(group)
            elif kind == "file":
                yield from self._files(group)
            else:
                yield from ((name, self.one(example)) for example, name in group)

    def _kind(self, example: Any) -> str:
        if isinstance(example, Region) or self._is_part(example, None):
            return "part"
        return "file" if _is_file(example) else "other"

    def _is_part(self, example: Any, box: Any) -> bool:
        """Whether a part of a picture is to be embedded instead of all of it."""
        is_image = _is_file(example) or _is_picture(example)
        if box is not None and not is_image:
            raise InvalidBox("a box selects a part of an image; a vector has no parts")
        return is_image and (box is not None or self._mode() != "whole")

    def _parts(self, examples: Iterable[tuple[Any, str]]) -> Iterator[NamedExample]:
        names: deque[str] = deque()

        def regions() -> Iterator[Region]:
            for example, name in examples:
                names.append(name)
                own = example if isinstance(example, Region) else Region(example)
                yield _region(own.picture, own.box)

        for found in self.region_embedder.embed_many(regions()):
            name = names.popleft()
            yield name, self._example_of_part(found) if isinstance(found, EmbeddedRegion) else found

    def _files(self, examples: Iterable[tuple[Any, str]]) -> Iterator[NamedExample]:
        names: deque[str] = deque()

        def sources() -> Iterator[Any]:
            for source, name in examples:
                names.append(name)
                yield source

        for found in embed_sources(self.embedder, sources(), limits=self.limits):
            name = names.popleft()
            yield name, self._example(found) if isinstance(found, Embedded) else found

    def _example(self, found: Embedded, source: str | None = None) -> Example:
        if source is None:
            source = "" if isinstance(found.source, bytes) else os.path.abspath(found.source)
        if not np.isfinite(found.vector).all():
            raise NotFinite(
                f"the embedder {self.embedder.name!r} gave NaN or infinity for "
                f"{source or 'a picture'}; use another embedder"
            )
        return Example(
            found.vector,
            source,
            found.digest,
            b"" if self.keep_images == "none" else found.thumbnail,
            self.embedder.name,
            self._image(found) if self.keep_images == "image" else b"",
        )

    def _example_of_part(self, part: EmbeddedRegion, source: str | None = None) -> Example:
        """The example of an embedded part of a picture, with its box and the other proposals."""
        whole = Embedded(part.source, part.vector, part.digest, part.thumbnail)
        example = self._example(whole, source)
        region = None if part.box is None else TaughtBox(part.box, part.found)
        proposals = None
        if part.proposals is not None and part.proposal_vectors is not None:
            proposals = PictureProposals(part.proposals, part.proposal_vectors)
        return replace(example, region=region, proposals=proposals)

    def of_part(
        self, picture: "Image.Image", box: Box, vector: Vectors, digest: bytes, source: str
    ) -> Example:
        """The example of a box in an opened picture, whose vector is known."""
        small = b"" if self.keep_images == "none" else thumbnail(crop(picture, box))
        region = TaughtBox(box, found=False)
        return Example(vector, source, digest, small, self.embedder.name, b"", region)

    def _image(self, found: Embedded) -> bytes:
        """The embedded file; empty if it was changed or removed since, or if pixels were given."""
        if not found.source:
            return b""
        try:
            data = read_bytes(found.source, self.limits)
        except EverlearnError:
            return b""
        return data if hashlib.sha256(data).digest() == found.digest else b""


def _region(picture: Any, box: Any) -> Region:
    return Region(picture if _is_file(picture) else _pixels(picture), box)


def _require_valid_vector(example: Example) -> None:
    """Validate the vector of an example that was embedded by the caller."""
    vector = example.vector
    if vector.ndim != 1 or not len(vector) or vector.dtype != np.float32:
        raise WrongShape(
            f"an embedded example needs one float32 vector, not {vector.dtype} of shape "
            f"{vector.shape} ({example.source or 'no source'})"
        )
    if not np.isfinite(vector).all():
        raise NotFinite(f"the vector of {example.source or 'an example'} contains NaN or infinity")


def _is_file(example: Any) -> bool:
    return isinstance(example, (str, bytes, os.PathLike))


def _is_picture(example: Any) -> bool:
    return getattr(example, "ndim", None) == 3 or hasattr(example, "getexif")


def _pixels(example: Any) -> Any:
    return np.asarray(example.convert("RGB") if hasattr(example, "convert") else example)


def _vector(example: ArrayLike) -> Vectors:
    try:
        values = np.asarray(example)
    except ValueError:
        raise WrongShape("an example is one vector, not rows of different length") from None
    if values.dtype.kind not in "iubf":
        raise WrongKind(
            "an example is an image file, its bytes, a picture or a vector of numbers, "
            f"not {type(example).__name__}"
        )
    if values.ndim != 1 or not len(values):
        raise WrongShape(
            f"an example is one vector, not an array of shape {values.shape}; "
            "teach several with teach_many"
        )
    with np.errstate(over="ignore"):
        vector = values.astype(np.float32)
    if not np.isfinite(vector).all():
        raise NotFinite("the vector contains NaN, infinity, or numbers too large for float32")
    return vector
