"""Data packs: ``.npz`` files of arrays, read without pickle. All packs are opened here.

Two layouts: examples split in advance (``features_train``, ``labels_train``, ``features_test``,
``labels_test``; or ``images_…``), and examples that are not split (``features`` or ``images``,
``labels``), which are split here.
"""

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray

from everlearn.errors import InvalidParameter, MissingData
from everlearn.streams.examples import DataSet, Examples
from everlearn_papers.data.catalogue import find
from everlearn_papers.data.formats import mnist_idx
from everlearn_papers.errors import WrongPack

CIFAR100 = "cifar100_small_effnetlite0.npz"
CALTECH101 = "caltech101_effnetlite0.npz"
OMNIGLOT = "omniglot_28.npz"
TURNTABLE = "icub_camera50.npz"
OFFICE = "office_caltech10.npz"
COIL20 = "coil20.npz"
FACES = "olivetti_64x64.npz"

# Omniglot: drawers 0-14 are the training set, the other five the test set.
N_DRAWERS_LEARNED = 15
FACES_LEARNED = 5
# The turntable: ways to choose test frames, interval of test frames, videos per object.
HELD_OUT = ("frames", "arc")
TEST_EVERY = 3
N_VIDEOS = 3


def opened(name: str) -> NpzFile:
    """Open a pack by file name or absolute path; arrays are read on access. Use ``with``.

    Raises
    ------
    MissingData
        The pack is not found; the message names the folders searched and what to do.
    WrongPack
        The file is not a pack.
    """
    path = Path(name) if Path(name).is_absolute() else find(name)
    try:
        pack = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, OSError, zipfile.BadZipFile) as error:
        raise WrongPack(f"{path} is not a data pack (.npz): {error}") from None
    if not isinstance(pack, NpzFile):
        raise WrongPack(f"{path} is not a data pack (.npz) but a single array (.npy)")
    return pack


def arrays(name: str, *keys: str) -> list[NDArray[Any]]:
    """Read arrays of a pack; raises ``WrongPack`` if any is missing or damaged."""
    with opened(name) as pack:
        missing = [key for key in keys if key not in pack]
        if missing:
            raise WrongPack(
                f"{name} has no array {', '.join(missing)}; it holds {', '.join(pack.files)}"
            )
        try:
            return [pack[key] for key in keys]
        except (ValueError, EOFError, OSError, zipfile.BadZipFile) as error:
            raise WrongPack(f"{name} is damaged: {error}") from None


def split_pack(name: str, kind: str = "features") -> DataSet:
    """Read a pack that is already split into training and test examples."""
    keys = (f"{kind}_train", "labels_train", f"{kind}_test", "labels_test")
    X, y, X_test, y_test = arrays(name, *keys)
    return DataSet(Path(name).stem, Examples(_rows(X), y), Examples(_rows(X_test), y_test))


def mnist() -> DataSet:
    """MNIST, pixels in [0, 1]: from its pack, or from the publisher's files."""
    try:
        return split_pack("mnist.npz", "images")
    except MissingData:
        return mnist_idx(find("mnist"))


def cifar100() -> DataSet:
    """EfficientNet-Lite0 features of CIFAR-100, 100 + 30 images a class."""
    return split_pack(CIFAR100)


def caltech101() -> DataSet:
    """EfficientNet-Lite0 features of Caltech-101 without the background, in the pack's split."""
    X, y, is_train = arrays(CALTECH101, "features", "labels", "is_train")
    return _split("caltech101", Examples(_rows(X), y), ~is_train.astype(bool))


def omniglot() -> DataSet:
    """Pixels of 1,623 handwritten characters: 15 drawers for training, 5 for testing."""
    images, y, drawer = arrays(OMNIGLOT, "images", "labels", "drawer")
    return _split("omniglot", Examples(_rows(images), y), drawer >= N_DRAWERS_LEARNED)


def turntable_frames(rows: NDArray[Any] | None = None) -> tuple[Examples, NDArray[np.intp]]:
    """Frames of 50 objects on a turntable, sorted by object and frame, and the frame numbers.

    ``rows`` replace the pack's own features, in the order of the pack.
    """
    y, frame = arrays(TURNTABLE, "labels", "frame")
    X = arrays(TURNTABLE, "features")[0] if rows is None else rows
    order = np.lexsort((frame, y))
    return Examples(_rows(X[order]), y[order].astype(np.intp)), frame[order].astype(np.intp)


def turntable(held_out: str, rows: NDArray[Any] | None = None) -> DataSet:
    """Turntable frames, split into training and test frames.

    ``"frames"`` holds out every third frame, so that each test frame lies between two training
    frames; ``"arc"`` holds out the last two fifths of the turn, views that are never trained on. A
    third of an object's training frames counts as one video, one instance. ``rows`` replace the
    pack's own features.
    """
    if held_out not in HELD_OUT:
        raise InvalidParameter(f"held_out is one of {', '.join(HELD_OUT)}, not {held_out!r}")
    examples, frame = turntable_frames(rows)
    end = int(frame.max()) + 1
    if held_out == "arc":
        end = end * 3 // 5
    is_test = frame % TEST_EVERY == 0 if held_out == "frames" else frame >= end
    videos = examples.y * N_VIDEOS + np.minimum(frame * N_VIDEOS // end, N_VIDEOS - 1)
    return _split("turntable", Examples(examples.X, examples.y, videos), is_test)


def faces() -> DataSet:
    """Olivetti faces, grey levels from 0 to 255: five training and five test images per person."""
    images, y = arrays(FACES, "images", "labels")
    number = np.array([np.sum(y[:i] == label) for i, label in enumerate(y)])
    rows = images.reshape(len(images), -1).astype(np.float64)
    return _split("faces", Examples(rows, y.astype(np.intp)), number >= FACES_LEARNED)


def by_name(name: str) -> dict[str, NDArray[np.float64]]:
    """Features of a pack by class name, training and test examples together."""
    with opened(name) as pack:
        parts = ("_train", "_test") if "labels_train" in pack else ("",)
    keys = [f"{kind}{part}" for kind in ("features", "labels") for part in parts]
    *both, names = arrays(name, *keys, "class_names")
    X = _rows(np.concatenate(both[: len(parts)]))
    labels = np.concatenate(both[len(parts) :])
    return {str(each): X[labels == number] for number, each in enumerate(names)}


def _split(name: str, examples: Examples, is_test: NDArray[np.bool_]) -> DataSet:
    return DataSet(name, examples.take(~is_test), examples.take(is_test))


def _rows(X: NDArray[Any]) -> NDArray[np.float64]:
    """Examples as rows of float64; 8-bit pixels are scaled to [0, 1]."""
    rows = X.reshape(len(X), -1)
    return rows / 255.0 if X.dtype == np.uint8 else rows.astype(np.float64)
