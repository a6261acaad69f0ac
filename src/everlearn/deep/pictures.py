"""Labelled pictures from folders, arrays or loaders, as one array.

Accepts a folder of folders (the name of a folder is the label of its pictures), arrays, or an
iterable of batches of pictures and labels, such as a torch DataLoader. The result fits on a GPU:
all pictures as (n, size, size, 3), 8 bits per channel, and their labels. Pictures that cannot be
read are left out and listed with the reason.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from everlearn.errors import (
    EverlearnError,
    InvalidInput,
    InvalidLabel,
    InvalidParameter,
    NotAnImage,
    TooFewClasses,
    TooFewExamples,
    WrongKind,
    WrongShape,
)
from everlearn.images.decode import RGB, open_picture
from everlearn.images.embedders import as_picture, centre_crop
from everlearn.images.folders import survey

# Smallest number of pictures per class: some to train on and one to hold out.
FEWEST = 2


@dataclass(frozen=True)
class Pictures:
    """Labelled pictures of one size.

    Attributes
    ----------
    pixels : uint8 array of shape (n, size, size, 3)
    labels : array of shape (n,)
    unreadable : list of (path, error)
        Files that were left out.
    """

    pixels: RGB
    labels: NDArray[Any]
    unreadable: list[tuple[str, str]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.pixels)

    @property
    def classes(self) -> NDArray[Any]:
        """The labels, sorted."""
        return np.unique(self.labels)

    @property
    def slots(self) -> NDArray[np.int64]:
        """Labels as indices into ``classes``."""
        return np.searchsorted(self.classes, self.labels).astype(np.int64)

    def held_out(self, share: float, seed: int) -> NDArray[np.bool_]:
        """Mask of pictures to hold out: a share of every class, at least one, never all.

        Depends only on the seed and on the order of the pictures.
        """
        rng = np.random.default_rng(seed)
        held = np.zeros(len(self), dtype=bool)
        for label in self.classes if share > 0 else ():
            of_class = np.flatnonzero(self.labels == label)
            n_held = min(max(1, round(share * len(of_class))), len(of_class) - 1)
            held[rng.permutation(of_class)[:n_held]] = True
        return held


def gather(images: Any, labels: ArrayLike | None, size: int, crop: float = 1.0) -> Pictures:
    """Pictures of size × size from a folder, arrays or batches.

    Parameters
    ----------
    images : path-like, array of shape (n, height, width, 3), sequence of pictures, or iterable
        A folder of folders; 8-bit RGB pictures, with ``labels``; or, without labels, pairs of a
        batch of pictures and their labels. Batches may be torch tensors (n, 3, height, width),
        either 8-bit or float between 0 and 1, as torchvision's ``ToTensor`` gives them.
    labels : array of shape (n,), optional
    size : int
    crop : float, default=1.0
        Share of the shorter side that the centre crop of a picture of another size keeps.

    Raises
    ------
    WrongShape, WrongKind, InvalidLabel
        If these are not pictures, or the labels do not match them.
    """
    if size < 1:
        raise InvalidParameter(f"size must be at least 1, not {size}")
    if isinstance(images, (str, os.PathLike)):
        if labels is not None:
            raise InvalidInput("the folders give the labels; omit the argument labels")
        return _from_folder(Path(images), size, crop)
    if labels is None:
        return _from_batches(images, size, crop)
    return Pictures(_sized(images, size, crop), _labels(labels, len(images)))


def require_trainable(pictures: Pictures) -> None:
    """Require at least two classes, and two pictures of each."""
    classes, counts = np.unique(pictures.labels, return_counts=True)
    if len(classes) < 2:
        only = f"one class, {classes[0]}" if len(classes) else "no classes"
        raise TooFewClasses(
            f"the pictures show {only}; training a network needs at least two classes"
        )
    if counts.min() < FEWEST:
        label = classes[counts.argmin()]
        raise TooFewExamples(
            f"class {label} has one picture; a network needs at least {FEWEST} of each class, to "
            "train on some and test on another. Add pictures, or leave the class to the stream, "
            "where one is enough"
        )


def _from_folder(folder: Path, size: int, crop: float) -> Pictures:
    files = survey([folder], reserved=True).files
    pixels = np.empty((len(files), size, size, 3), dtype=np.uint8)
    labels: list[str] = []
    unreadable: list[tuple[str, str]] = []
    for path, name in files:
        try:
            picture = open_picture(path, at_least=2 * round(size / crop))
        except EverlearnError as error:
            unreadable.append((str(path), str(error)))
            continue
        pixels[len(labels)] = np.asarray(centre_crop(picture, size, crop))
        labels.append(name)
    if not labels:
        raise NotAnImage(f"none of the {len(files)} files in {folder} can be read")
    return Pictures(pixels[: len(labels)], np.array(labels), unreadable)


def _from_batches(batches: Iterable[Any], size: int, crop: float) -> Pictures:
    pixels: list[RGB] = []
    labels: list[NDArray[Any]] = []
    try:
        pairs = iter(batches)
    except TypeError:
        raise WrongKind(
            f"images must be a folder, arrays or batches, not {type(batches).__name__}"
        ) from None
    for pair in pairs:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise WrongShape(
                "without labels, images must be pairs of a batch of pictures and their labels"
            )
        batch = _from_tensor(pair[0])
        pixels.append(_sized(batch, size, crop))
        labels.append(_labels(pair[1], len(batch)))
    if not pixels:
        raise WrongShape("there are no batches, so there is nothing to learn from")
    return Pictures(np.concatenate(pixels), np.concatenate(labels))


def _from_tensor(batch: Any) -> Any:
    """A torch batch, channels first, as 8-bit pictures, channels last; others unchanged."""
    if not hasattr(batch, "detach"):
        return batch
    values = batch.detach().cpu().numpy()
    if values.ndim != 4 or values.shape[1] != 3:
        raise WrongShape(
            f"a batch of tensors needs shape (n, 3, height, width), not {values.shape}"
        )
    if values.dtype.kind == "f":
        if not (values.min() >= 0.0 and values.max() <= 1.0):
            raise WrongKind(
                "pictures as floats must be between 0 and 1; the trainer normalises them"
            )
        values = np.rint(values * 255.0).astype(np.uint8)
    return np.ascontiguousarray(values.transpose(0, 2, 3, 1))


def _sized(images: Any, size: int, crop: float) -> RGB:
    """Pictures of any size as one array; those of the right size unchanged."""
    if isinstance(images, np.ndarray) and images.shape[1:] == (size, size, 3) and crop == 1.0:
        if images.dtype != np.uint8:
            as_picture(images[0])  # raises the matching error
        return images
    if not len(images):
        raise WrongShape("there are no pictures, so there is nothing to learn from")
    return np.stack([np.asarray(centre_crop(as_picture(image), size, crop)) for image in images])


def _labels(labels: ArrayLike, n: int) -> NDArray[Any]:
    values = labels.detach().cpu().numpy() if hasattr(labels, "detach") else np.asarray(labels)
    if values.ndim != 1 or len(values) != n:
        raise WrongShape(f"there are {n} pictures and labels of shape {values.shape}")
    if values.dtype.kind not in "iuUS" and not all(isinstance(value, str) for value in values):
        raise InvalidLabel(f"labels must be integers or strings, not {values.dtype}")
    return values.astype(str) if values.dtype.kind == "O" else values
