"""Sources of examples: folders of images, and loaders of batches.

    image_folder         one folder per class
    split_folders        train/CLASS/…, val/CLASS/…
    from_loader          a torch DataLoader, or any iterable of (X, y) batches

Images of a folder stay on disk: ``X`` holds their paths, and :func:`read_images` decodes the
requested ones, under the limits of :mod:`everlearn.images.decode`.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everlearn.errors import MissingData, TooFewExamples
from everlearn.images.decode import SUFFIXES, open_picture
from everlearn.images.folders import is_hidden, name_of
from everlearn.streams.examples import DataSet, Examples


def image_folder(folder: str | Path) -> Examples:
    """One folder per class; ``X`` holds paths."""
    root = Path(folder)
    found = [(path, path.relative_to(root).parts[:-1]) for path in image_files(root)]
    return labelled_files(
        folder, [(path, name_of(inside or (root.resolve().name,))) for path, inside in found]
    )


def split_folders(folder: str | Path) -> DataSet:
    """ImageNet style: ``train`` and ``val`` (or ``test``), each with one folder per class."""
    root = Path(folder)
    for held_out in ("val", "test"):
        if (root / "train").is_dir() and (root / held_out).is_dir():
            return DataSet(root.name, image_folder(root / "train"), image_folder(root / held_out))
    raise MissingData(f"{root} needs the folders train and val, each with one folder per class")


def from_loader(loader: Iterable[Any]) -> Examples:
    """The batches of a torch ``DataLoader``, or of any iterable of (X, y), as one set of rows."""
    batches = [(_numbers(X), _numbers(y)) for X, y in loader]
    if not batches:
        raise TooFewExamples("the loader yields no batch; give one that has examples")
    X = np.concatenate([rows.reshape(len(rows), -1) for rows, _ in batches])
    return Examples(X, np.concatenate([labels for _, labels in batches]))


def read_images(paths: Iterable[str], *, side: int, grey: bool = False) -> NDArray[np.uint8]:
    """Images as (n, side, side, 3), or (n, side, side) if grey; scaled without cropping.

    Raises
    ------
    CannotRead, NotAnImage, DamagedImage, ImageTooLarge
        As :func:`everlearn.images.decode.decode` does, naming the file.
    """
    images = []
    for path in paths:
        picture = open_picture(path)
        picture = picture.convert("L") if grey else picture
        images.append(np.asarray(picture.resize((side, side)), dtype=np.uint8))
    return np.stack(images)


def image_files(folder: str | Path) -> list[Path]:
    """Every image file below a folder, by suffix, without hidden ones, sorted."""
    root = Path(folder)
    if not root.is_dir():
        raise MissingData(f"{root} is not a folder; put the images there, one folder per class")
    named_like_images = (path for path in root.rglob("*") if path.suffix.lower() in SUFFIXES)
    return sorted(
        path for path in named_like_images if not any(map(is_hidden, path.relative_to(root).parts))
    )


def labelled_files(folder: str | Path, found: list[tuple[Path, Any]]) -> Examples:
    """Paths and labels as examples; raises ``MissingData`` for the folder if there are none."""
    if not found:
        raise MissingData(f"{folder} has no images; put them there, one folder per class")
    paths, labels = zip(*found, strict=True)
    return Examples(np.array([str(path) for path in paths]), np.array(labels))


def _numbers(batch: Any) -> NDArray[Any]:
    return np.asarray(batch.numpy() if hasattr(batch, "numpy") else batch)
