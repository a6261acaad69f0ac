"""Feature packs: ``.npz`` files of arrays, read without running code.

Two layouts: examples split in advance (``features_train``, ``labels_train``, ``features_test``,
``labels_test``; or ``images_…``), and examples in one piece (``features`` or ``images``,
``labels``), which the caller splits.
"""

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everlearn.errors import MissingData, WrongPack
from everlearn.streams.catalogue import find
from everlearn.streams.examples import DataSet, Examples
from everlearn.streams.formats import mnist_idx

# Of a turntable's frames, every this-many-th is for testing.
TEST_EVERY = 3
# A rotation counts as this many videos.
VIDEOS_PER_ROTATION = 3


def arrays(name: str, *keys: str) -> list[NDArray[Any]]:
    """Some arrays of a pack; ``WrongPack`` names those that are not in it."""
    path = Path(name) if Path(name).is_absolute() else find(name)
    try:
        with np.load(path, allow_pickle=False) as pack:
            missing = [key for key in keys if key not in pack]
            if missing:
                raise WrongPack(
                    f"{path} has no array {', '.join(missing)}; it holds {', '.join(pack.files)}"
                )
            return [pack[key] for key in keys]
    except (ValueError, EOFError, OSError, zipfile.BadZipFile) as error:
        if isinstance(error, WrongPack):
            raise
        raise WrongPack(f"{path} is not a feature pack (.npz): {error}") from None


def split_pack(name: str, kind: str = "features", stands_for: str | None = None) -> DataSet:
    """A pack that was split into training and test examples in advance."""
    keys = (f"{kind}_train", "labels_train", f"{kind}_test", "labels_test")
    X, y, X_test, y_test = arrays(name, *keys)
    train, test = Examples(_rows(X), y), Examples(_rows(X_test), y_test)
    return DataSet(Path(name).stem, train, test, stands_for)


def mnist() -> DataSet:
    """MNIST, pixels in [0, 1]: from its pack, or from the publisher's files."""
    try:
        return split_pack("mnist.npz", "images")
    except MissingData:
        return mnist_idx(find("mnist"))


def cifar100() -> DataSet:
    """EfficientNet-Lite0 features of CIFAR-100, 100 + 30 images a class."""
    name = "cifar100_small_effnetlite0.npz"
    return split_pack(name, stands_for="ImageNet ILSVRC-2012")


def turntable() -> DataSet:
    """50 objects on a turntable; each third of a rotation is one video, every third frame a test.

    A substitute for CORe50: one video is one instance, so a class has three.
    """
    examples, frame = turntable_frames()
    n_frames = int(frame.max()) + 1
    third = frame * VIDEOS_PER_ROTATION // n_frames
    videos = examples.y * VIDEOS_PER_ROTATION + third
    examples = Examples(examples.X, examples.y, videos)
    is_test = frame % TEST_EVERY == 0
    return DataSet("icub_camera50", examples.take(~is_test), examples.take(is_test), "CORe50")


def turntable_frames() -> tuple[Examples, NDArray[np.intp]]:
    """The 50 objects in one piece, with the number of each frame."""
    X, y, frame = arrays("icub_camera50.npz", "features", "labels", "frame")
    order = np.lexsort((frame, y))
    return Examples(_rows(X[order]), y[order].astype(np.intp)), frame[order].astype(np.intp)


def _rows(X: NDArray[Any]) -> NDArray[np.float64]:
    """Examples as rows of float64; 8-bit pixels become numbers in [0, 1]."""
    rows = X.reshape(len(X), -1)
    return rows / 255.0 if X.dtype == np.uint8 else rows.astype(np.float64)
