"""The original file formats of the data sets that the papers use.

Images of a folder stay on disk: ``X`` holds their paths, and :func:`read_images` decodes those that
are wanted. Only MNIST and CIFAR-100, which are arrays on disk, are read whole.

    mnist_idx            idx and idx.gz files (LeCun et al.)
    cifar100_binary      train.bin, test.bin: coarse label, fine label, 3,072 bytes
    image_folder         one folder per class
    split_folders        ImageNet style: train/CLASS/…, val/CLASS/…
    coil                 obj7__35.png: object, view
    caltech              CLASS/… or 007.CLASS/…, without the clutter class
    core50               s3/o17/C_03_17_042.png: session, object, frame
    omniglot             images_background/ALPHABET/CHARACTER/…, images_evaluation/…
    usps                 usps.bz2, usps.t.bz2: libsvm lines of 256 values from -1 to 1
    from_loader          a torch DataLoader, or any iterable of (X, y) batches
"""

import gzip
import re
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everlearn.errors import CannotRead, MissingData, MissingPackage, WrongPack
from everlearn.streams.examples import DataSet, Examples

SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".ppm", ".webp"}
IDX_UNSIGNED_BYTE = 0x08
CIFAR_IMAGE = (3, 32, 32)
CLUTTER = {"BACKGROUND_Google", "257.clutter", "clutter"}
CORE50_TEST_SESSIONS = (3, 7, 10)
CORE50_OBJECTS_PER_CLASS = 5
CORE50_OBJECTS = 50
USPS_PIXELS = 256


def read_idx(path: str | Path) -> NDArray[np.uint8]:
    """An array of bytes in idx format, compressed or not."""
    path = Path(path)
    try:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except FileNotFoundError:
        raise MissingData(f"{path} is missing; fetch it with: everlearn data get mnist") from None
    except (OSError, EOFError) as error:
        raise CannotRead(f"{path} cannot be read: {error}") from None
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] != IDX_UNSIGNED_BYTE:
        raise WrongPack(f"{path} is not an idx file of bytes")
    n_dimensions = data[3]
    start = 4 + 4 * n_dimensions
    shape = struct.unpack(f">{n_dimensions}I", data[4:start])
    if len(data) - start != int(np.prod(shape)):
        raise WrongPack(f"{path} says it holds {shape}, but has {len(data) - start} bytes")
    return np.frombuffer(data, dtype=np.uint8, offset=start).reshape(shape)


def mnist_idx(folder: str | Path) -> DataSet:
    """MNIST from its four files, each with or without ``.gz``; pixels in [0, 1]."""
    parts = {}
    for part, prefix in (("train", "train"), ("test", "t10k")):
        images = read_idx(_either(Path(folder) / f"{prefix}-images-idx3-ubyte"))
        labels = read_idx(_either(Path(folder) / f"{prefix}-labels-idx1-ubyte"))
        parts[part] = Examples(images.reshape(len(images), -1) / 255.0, labels)
    return DataSet("mnist", parts["train"], parts["test"])


def cifar100_binary(folder: str | Path) -> DataSet:
    """CIFAR-100 from train.bin and test.bin; images (n, 32, 32, 3), fine labels."""
    parts = []
    for name in ("train.bin", "test.bin"):
        path = Path(folder) / name
        if not path.exists():
            raise MissingData(f"{path} is missing; fetch it with: everlearn data get cifar100")
        data = np.fromfile(path, dtype=np.uint8)
        record = 2 + int(np.prod(CIFAR_IMAGE))
        if not len(data) or len(data) % record:
            raise WrongPack(f"{path} has {len(data)} bytes, which is no multiple of {record}")
        records = data.reshape(-1, record)
        images = records[:, 2:].reshape(-1, *CIFAR_IMAGE).transpose(0, 2, 3, 1)
        parts.append(Examples(np.ascontiguousarray(images), records[:, 1].copy()))
    return DataSet("cifar100", parts[0], parts[1])


def image_folder(folder: str | Path) -> Examples:
    """One folder per class; ``X`` holds paths."""
    found = [(path, path.parent.name) for path in _images(folder)]
    return _examples(folder, found)


def split_folders(folder: str | Path) -> DataSet:
    """ImageNet style: ``train`` and ``val`` (or ``test``), each with one folder per class."""
    root = Path(folder)
    for held_out in ("val", "test"):
        if (root / "train").is_dir() and (root / held_out).is_dir():
            return DataSet(root.name, image_folder(root / "train"), image_folder(root / held_out))
    raise MissingData(f"{root} needs the folders train and val, each with one folder per class")


def coil(folder: str | Path) -> Examples:
    """COIL-20 or COIL-100: views of objects on a turntable, in order; an object is a class."""
    views = []
    for path in _images(folder):
        match = re.fullmatch(r"obj(\d+)__(\d+)", path.stem)
        if match:
            views.append((int(match[1]), int(match[2]), path))
    views.sort(key=lambda view: view[:2])
    return _examples(folder, [(path, number) for number, _, path in views], by_class=True)


def caltech(folder: str | Path) -> Examples:
    """Caltech-101 or Caltech-256 without the clutter class; ``007.bat`` becomes ``bat``."""
    found = [
        (path, re.sub(r"^\d+\.", "", path.parent.name))
        for path in _images(folder)
        if path.parent.name not in CLUTTER
    ]
    return _examples(folder, found)


def core50(folder: str | Path) -> DataSet:
    """CORe50: 10 categories of 5 objects in 11 sessions; one object in one session is a video.

    Sessions 3, 7 and 10 are for testing, as its authors suggest.
    """
    frames = []
    for path in _images(folder):
        match = re.fullmatch(r"C_(\d+)_(\d+)_(\d+)", path.stem)
        if match:
            frames.append((*map(int, match.groups()), path))
    frames.sort(key=lambda frame: frame[:3])
    if not frames:
        raise MissingData(f"{folder} holds no frame named like s1/o1/C_01_01_000.png")
    session, number = np.array([frame[:2] for frame in frames]).T
    examples = Examples(
        np.array([str(frame[3]) for frame in frames]),
        (number - 1) // CORE50_OBJECTS_PER_CLASS,
        session * CORE50_OBJECTS + number - 1,
    )
    is_test = np.isin(session, CORE50_TEST_SESSIONS)
    return DataSet("core50", examples.take(~is_test), examples.take(is_test))


def omniglot(folder: str | Path) -> DataSet:
    """Omniglot: a character of an alphabet is a class, and who drew it an instance.

    The background alphabets are for training, the others (other classes) for testing.
    """
    sets = []
    for part in ("images_background", "images_evaluation"):
        drawings = []
        for path in _images(Path(folder) / part):
            match = re.fullmatch(r"(\d+)_(\d+)", path.stem)
            if match:
                drawings.append((str(path), "/".join(path.parts[-3:-1]), int(match[2])))
        if not drawings:
            raise MissingData(f"{folder}/{part} holds no drawing named like 0001_01.png")
        paths, names, drawers = zip(*drawings, strict=True)
        sets.append(Examples(np.array(paths), np.array(names), np.array(drawers)))
    return DataSet("omniglot", sets[0], sets[1])


def usps(folder: str | Path) -> DataSet:
    """USPS digits from libsvm's two files; 16 × 16 pixels in [0, 1], digits from 0."""
    from sklearn.datasets import load_svmlight_file

    parts = []
    for name in ("usps.bz2", "usps.t.bz2"):
        path = Path(folder) / name
        if not path.exists():
            raise MissingData(f"{path} is missing; fetch it with: everlearn data get usps")
        try:
            X, y = load_svmlight_file(str(path), n_features=USPS_PIXELS)
        except (OSError, ValueError) as error:
            raise WrongPack(f"{path} is not a file of USPS digits: {error}") from None
        parts.append(Examples((X.toarray() + 1.0) / 2.0, y.astype(np.intp) - 1))
    return DataSet("usps", parts[0], parts[1])


def from_loader(loader: Iterable[Any]) -> Examples:
    """What a torch ``DataLoader`` (or any iterable of (X, y) batches) yields, flattened to rows."""
    batches = [(_numbers(X), _numbers(y)) for X, y in loader]
    if not batches:
        raise WrongPack("the loader yields no batch")
    X = np.concatenate([rows.reshape(len(rows), -1) for rows, _ in batches])
    return Examples(X, np.concatenate([labels for _, labels in batches]))


def read_images(paths: Iterable[str], *, side: int, grey: bool = False) -> NDArray[np.uint8]:
    """Images as (n, side, side, 3), or (n, side, side) if grey; scaled without cropping."""
    try:
        from PIL import Image
    except ModuleNotFoundError:
        raise MissingPackage(
            "reading images needs pillow; install it with: pip install 'everlearn[images]'"
        ) from None
    images = []
    for path in paths:
        try:
            with Image.open(path) as image:
                mode = image.convert("L" if grey else "RGB")
                images.append(np.asarray(mode.resize((side, side)), dtype=np.uint8))
        except OSError as error:
            raise CannotRead(f"{path} cannot be read as an image: {error}") from None
    return np.stack(images)


def _images(folder: str | Path) -> list[Path]:
    root = Path(folder)
    if not root.is_dir():
        raise MissingData(f"{root} is not a folder; put the images there, one folder per class")
    return sorted(path for path in root.rglob("*") if path.suffix.lower() in SUFFIXES)


def _examples(folder: Any, found: list[tuple[Path, Any]], *, by_class: bool = False) -> Examples:
    if not found:
        raise MissingData(f"{folder} holds no image in the layout expected")
    y = np.array([label for _, label in found])
    return Examples(np.array([str(path) for path, _ in found]), y, y if by_class else None)


def _either(path: Path) -> Path:
    return path if path.exists() else path.with_name(f"{path.name}.gz")


def _numbers(batch: Any) -> NDArray[Any]:
    return np.asarray(batch.numpy() if hasattr(batch, "numpy") else batch)
