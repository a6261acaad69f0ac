"""CIFAR-100 as pictures: one JPEG per class and part, a mosaic of tiles of 32 × 32 pixels.

``cifar100_32x32/train_NAME.jpg`` has 20 × 25 tiles, ``test_NAME.jpg`` 10 × 10; classes are numbered
in alphabetical order of their names. The publisher's own files hold the same pictures without JPEG
compression.
"""

from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from everlearn.images.decode import decode
from everlearn.streams.examples import DataSet, Examples
from everlearn_papers.data.catalogue import find
from everlearn_papers.errors import WrongPack

SIDE = 32


@cache
def cifar100_pictures() -> DataSet:
    """All 60,000 pictures as 8-bit RGB, (n, 32, 32, 3)."""
    folder = find("cifar100_32x32")
    return DataSet("CIFAR-100", _part(folder, "train"), _part(folder, "test"))


def tiles(mosaic: NDArray[np.uint8], side: int) -> NDArray[np.uint8]:
    """The tiles of a mosaic, row by row."""
    height, width, channels = mosaic.shape
    if height % side or width % side:
        raise WrongPack(f"a mosaic of {height} x {width} pixels is not made of tiles of {side}")
    parts = mosaic.reshape(height // side, side, width // side, side, channels).swapaxes(1, 2)
    return parts.reshape(-1, side, side, channels)


def _part(folder: Path, part: str) -> Examples:
    files = sorted(folder.glob(f"{part}_*.jpg"))
    if not files:
        raise WrongPack(f"{folder} holds no {part}_NAME.jpg")
    pixels = [tiles(decode(file), SIDE) for file in files]
    labels = np.repeat(np.arange(len(files)), [len(part) for part in pixels])
    return Examples(np.concatenate(pixels), labels)
