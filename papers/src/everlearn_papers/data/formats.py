"""Readers of the original file formats of the papers' data sets.

Images of a folder stay on disk: ``X`` holds their paths, and
:func:`everlearn.streams.sources.read_images` decodes them. MNIST, CIFAR-100 and USPS, which are
arrays on disk, are read completely. A folder per class, as ImageNet has it, is read by
:mod:`everlearn.streams.sources`.

    mnist_idx            idx and idx.gz files (LeCun et al.)
    cifar100_binary      train.bin, test.bin: coarse label, fine label, 3,072 bytes
    coil                 obj7__35.png: object, view
    caltech              CLASS/… or 007.CLASS/…, without the clutter class
    core50               s3/o17/C_03_17_042.png: session, object, frame
    omniglot             images_background/ALPHABET/CHARACTER/…, images_evaluation/…
    usps                 usps.bz2, usps.t.bz2: libsvm lines of 256 values from -1 to 1
"""

import gzip
import re
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from everlearn.errors import CannotRead, MissingData
from everlearn.streams.examples import DataSet, Examples
from everlearn.streams.sources import image_files, labelled_files
from everlearn_papers.errors import WrongPack

IDX_UNSIGNED_BYTE = 0x08
CIFAR_IMAGE = (3, 32, 32)
CLUTTER = {"BACKGROUND_Google", "257.clutter", "clutter"}
CORE50_TEST_SESSIONS = (3, 7, 10)
CORE50_OBJECTS_PER_CLASS = 5
CORE50_OBJECTS = 50
USPS_PIXELS = 256


def read_idx(path: str | Path) -> NDArray[np.uint8]:
    """Read an array of bytes in idx format, plain or gzip-compressed."""
    path = Path(path)
    try:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except FileNotFoundError:
        raise MissingData(f"{path} is missing; fetch it with: everlearn data get mnist") from None
    except (OSError, EOFError) as error:
        raise CannotRead(f"{path} cannot be read: {error}") from None
    start = 4 + 4 * data[3] if len(data) >= 4 else 4
    if len(data) < start or data[:2] != b"\0\0" or data[2] != IDX_UNSIGNED_BYTE:
        raise WrongPack(f"{path} is not an idx file of bytes")
    shape = struct.unpack(f">{data[3]}I", data[4:start])
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


def coil(folder: str | Path) -> Examples:
    """COIL-20 or COIL-100: views of objects on a turntable, in order; an object is a class."""
    views = []
    for path in image_files(folder):
        match = re.fullmatch(r"obj(\d+)__(\d+)", path.stem)
        if match:
            views.append((int(match[1]), int(match[2]), path))
    views.sort(key=lambda view: view[:2])
    examples = labelled_files(folder, [(path, number) for number, _, path in views])
    return replace(examples, instances=examples.y)


def caltech(folder: str | Path) -> Examples:
    """Caltech-101 or Caltech-256 without the clutter class; ``007.bat`` becomes ``bat``."""
    found = [
        (path, re.sub(r"^\d+\.", "", path.parent.name))
        for path in image_files(folder)
        if path.parent.name not in CLUTTER
    ]
    return labelled_files(folder, found)


def core50(folder: str | Path) -> DataSet:
    """CORe50: 10 categories of 5 objects in 11 sessions; one object in one session is a video.

    Sessions 3, 7 and 10 are for testing, as its authors suggest.
    """
    frames = []
    for path in image_files(folder):
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
    """Omniglot: a character of an alphabet is a class, its drawer an instance.

    The background alphabets are for training, the others (other classes) for testing.
    """
    sets = []
    for part in ("images_background", "images_evaluation"):
        drawings = []
        for path in image_files(Path(folder) / part):
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


def _either(path: Path) -> Path:
    return path if path.exists() else path.with_name(f"{path.name}.gz")
