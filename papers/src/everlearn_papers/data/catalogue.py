"""Catalogue of the data sets: where they are found, and how they are downloaded.

A data set is searched in the folder named by EVERLEARN_DATA, then in the user's cache folder.
Where its publisher gives an address and a checksum is known, :func:`get` downloads and verifies it.
An interrupted download is resumed; a data set appears under its name only when it is complete.

The checksums are those that torchvision (MNIST, Caltech-256, Omniglot, USPS), TensorFlow Datasets
(Caltech-101, COIL-100), Avalanche (CORe50), dm_nevis (COIL-20) and the publisher (CIFAR-100) list.
"""

import hashlib
import os
import shutil
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from everlearn.errors import CannotRead, CannotWrite, InvalidParameter, MissingData
from everlearn_papers.data.archives import unpack
from everlearn_papers.errors import DamagedDownload, UnsafeArchive, WrongPack

CHUNK = 1 << 20
TIMEOUT_SECONDS = 60.0
MOST_BYTES = 32 << 30
# Hash algorithm by the number of hexadecimal digits.
CHECKSUMS = {32: "md5", 64: "sha256"}

# Called with the name of a file, the bytes received, and its total size if known.
Progress = Callable[[str, int, int | None], None]


@dataclass(frozen=True)
class Source:
    """A data set: its name on disk, its home page, and how it is fetched.

    Attributes
    ----------
    place : name of its folder
    home : address of its page
    files : address of each file to fetch, with its MD5 or SHA-256 sum
    unpack : whether the files are archives
    archives_inside : archives nested in the archives, also unpacked
    folder_inside : unpacked folder that becomes the data set; by default ``place``
    pack : file with the same data as arrays; preferred when present
    """

    place: str
    home: str
    files: dict[str, str] = field(default_factory=dict)
    unpack: bool = False
    archives_inside: tuple[str, ...] = ()
    folder_inside: str | None = None
    pack: str | None = None


_MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist"
_CALTECH = "https://data.caltech.edu/records"
_COIL = "https://www.cs.columbia.edu/CAVE"
_COIL_FILES = f"{_COIL}/databases/SLAM_coil-20_coil-100"
_OMNIGLOT = "https://raw.githubusercontent.com/brendenlake/omniglot/master/python"
_USPS = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets"

SOURCES = {
    "mnist": Source(
        "mnist",
        "https://yann.lecun.com/exdb/mnist/",
        {
            f"{_MNIST}/train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
            f"{_MNIST}/train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
            f"{_MNIST}/t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
            f"{_MNIST}/t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
        },
        pack="mnist.npz",
    ),
    "cifar100": Source(
        "cifar-100-binary",
        "https://www.cs.toronto.edu/~kriz/cifar.html",
        {
            "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz": (
                "03b5dce01913d631647c71ecec9e9cb8"
            )
        },
        unpack=True,
    ),
    "caltech256": Source(
        "256_ObjectCategories",
        f"{_CALTECH}/nyy15-4j048",
        {
            f"{_CALTECH}/nyy15-4j048/files/256_ObjectCategories.tar": (
                "67b4f42ca05d46448c6bb8ecd2220f6d"
            )
        },
        unpack=True,
    ),
    "caltech101": Source(
        "101_ObjectCategories",
        f"{_CALTECH}/mzrjq-6wc02",
        {
            f"{_CALTECH}/mzrjq-6wc02/files/caltech-101.zip?download=1": (
                "331234750fc7f77520e50d9565e8b6907b03565e30320da1401130db08c61f91"
            )
        },
        unpack=True,
        archives_inside=("caltech-101/101_ObjectCategories.tar.gz",),
    ),
    "coil20": Source(
        "coil-20-proc",
        f"{_COIL}/software/softlib/coil-20.php",
        {f"{_COIL_FILES}/coil-20/coil-20-proc.zip": ("464dec76a6abfcd00e8de6cf1e7d0acc")},
        unpack=True,
        pack="coil20.npz",
    ),
    "coil100": Source(
        "coil-100",
        f"{_COIL}/software/softlib/coil-100.php",
        {
            f"{_COIL_FILES}/coil-100/coil-100.zip": (
                "fcb4b8b01c0778f416d8d7a09f45082c4f7075cc74743dcddd5c44307bd4afe7"
            )
        },
        unpack=True,
    ),
    "core50": Source(
        "core50_128x128",
        "https://vlomonaco.github.io/core50/",
        {
            "http://bias.csr.unibo.it/maltoni/download/core50/core50_128x128.zip": (
                "745f3373fed08d69343f1058ee559e13"
            )
        },
        unpack=True,
    ),
    "omniglot": Source(
        "omniglot",
        "https://github.com/brendenlake/omniglot",
        {
            f"{_OMNIGLOT}/images_background.zip": "68d2efa1b9178cc56df9314c21c6e718",
            f"{_OMNIGLOT}/images_evaluation.zip": "6b91aef0f799c5bb55b94e3f2daec811",
        },
        unpack=True,
        folder_inside=".",
    ),
    "usps": Source(
        "usps",
        f"{_USPS}/multiclass.html#usps",
        {
            f"{_USPS}/multiclass/usps.bz2": "ec16c51db3855ca6c91edd34d0e9b197",
            f"{_USPS}/multiclass/usps.t.bz2": "8ea070ee2aca1ac39742fdd1ef5ed118",
        },
    ),
    "imagenet": Source("imagenet", "https://www.image-net.org/"),
}

# Further inputs of the papers: arrays computed from data sets, which cannot be downloaded. The text
# describes what to compute where a pack is missing.
PACKS = {
    "caltech101_effnetlite0.npz": "EfficientNet-Lite0 features of Caltech-101",
    "cifar100_small_effnetlite0.npz": "EfficientNet-Lite0 features of CIFAR-100, 130 a class",
    "icub_camera50.npz": "EfficientNet-Lite0 features of 50 objects on a turntable",
    "omniglot_28.npz": "Omniglot at 28 x 28 pixels",
}


def cache_folder() -> Path:
    """The user's cache folder for data sets."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "everlearn"


def folders() -> list[Path]:
    """Folders in which data sets are searched, in this order."""
    named = os.environ.get("EVERLEARN_DATA")
    return [Path(named), cache_folder()] if named else [cache_folder()]


def find(name: str) -> Path:
    """Path of a data set or data pack; if not found, ``MissingData`` says what to do.

    Parameters
    ----------
    name : a data set of the catalogue (``"mnist"``), or a file or folder name (``"coil20.npz"``)
    """
    source = SOURCES.get(name)
    place = source.place if source else name
    for folder in folders():
        if (folder / place).exists():
            return folder / place
    looked = " and ".join(str(folder / place) for folder in folders())
    raise MissingData(f"{name} is missing: looked for {looked}. {_advice(name, source)}")


def get(name: str, progress: Progress | None = None) -> Path:
    """Download and verify a data set into the first data folder; return its path.

    Nothing is downloaded if the data set is found. An interrupted ``get`` keeps the partial
    download in a hidden folder beside it; the next call resumes from there.

    Parameters
    ----------
    name : a data set of the catalogue
    progress : called for every chunk received
    """
    if name not in SOURCES:
        raise InvalidParameter(f"unknown data set {name!r}; known are {', '.join(SOURCES)}")
    source = SOURCES[name]
    with suppress(MissingData):
        return find(name)
    if not source.files:
        raise MissingData(f"{name} has no address to fetch it from. {_advice(name, source)}")
    target = folders()[0] / source.place
    # Same file system as the target, so that one rename completes it.
    work = target.with_name(f".{source.place}.fetching")
    created = _create_folders(work)
    try:
        fetched = [fetch(address, sum_, work, progress) for address, sum_ in source.files.items()]
        complete = work / "complete"
        shutil.rmtree(complete, ignore_errors=True)
        if source.unpack:
            complete = _unpacked(name, source, fetched, complete)
        else:
            complete.mkdir()
            for file in fetched:
                file.replace(complete / file.name)
        complete.replace(target)
        shutil.rmtree(work)
        return target
    except (DamagedDownload, UnsafeArchive, WrongPack):
        shutil.rmtree(work)
        raise
    finally:
        _remove_empty(created)


def _create_folders(work: Path) -> list[Path]:
    """Create a folder and its parents; return the created ones, innermost first."""
    missing = [folder for folder in (work, *work.parents) if not folder.exists()]
    try:
        if work.is_symlink():
            raise CannotWrite(f"{work} is a link; remove it")
        work.mkdir(parents=True, exist_ok=True)
    except CannotWrite:
        raise
    except OSError as error:
        _remove_empty(missing)
        raise CannotWrite(
            f"{work.parent} cannot be written: {error.strerror}; set EVERLEARN_DATA to a folder "
            "that can"
        ) from None
    return missing


def _remove_empty(folders: list[Path]) -> None:
    """Remove those of the folders that are empty."""
    for folder in folders:
        with suppress(OSError):
            folder.rmdir()


def fetch(address: str, checksum: str, folder: Path, progress: Progress | None = None) -> Path:
    """Download one file into a folder, resuming a partial download; return its path.

    Raises
    ------
    CannotRead
        The address cannot be reached, or the file ended early; the partial download is kept.
    DamagedDownload
        The checksum of the complete file differs; the file is deleted.
    """
    path = folder / urlsplit(address).path.rsplit("/", 1)[-1]
    part = path.with_name(path.name + ".part")
    for file in (path, part):
        if file.is_symlink():  # never created by us, so not trusted
            file.unlink()
    if path.exists():
        # Verified by an earlier run, but it may have changed since.
        if _sum(path, checksum) == checksum:
            return path
        path.unlink()
    _download(address, part, progress)
    found = _sum(part, checksum)
    if found != checksum:
        part.unlink()
        raise DamagedDownload(
            f"{address} has the {CHECKSUMS[len(checksum)]} sum {found}, expected {checksum}; "
            "nothing was kept, try again later"
        )
    part.replace(path)
    return path


def _sum(path: Path, like: str) -> str:
    """Checksum of a file, with the algorithm of the checksum ``like``."""
    digest = hashlib.new(CHECKSUMS[len(like)], usedforsecurity=False)
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _download(address: str, part: Path, progress: Progress | None) -> None:
    """Download to ``part``, continuing from its current length."""
    offset = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": "everlearn"} | ({"Range": f"bytes={offset}-"} if offset else {})
    try:
        request = urllib.request.Request(address, headers=headers)
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as response:
            received = offset if _resumes(response, offset) else 0
            total = _total_length(response, received, address)
            with part.open("ab" if received else "wb") as file:
                while chunk := response.read(CHUNK):
                    received += len(chunk)
                    if received > MOST_BYTES:
                        raise DamagedDownload(
                            f"{address} does not end within the limit of {MOST_BYTES} bytes"
                        )
                    file.write(chunk)
                    if progress:
                        progress(part.stem, received, total)
    except DamagedDownload:
        raise  # a subclass of OSError, caught below
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416 and offset:  # the file is already complete
            return
        raise CannotRead(f"{address} cannot be fetched: {error}; try again later") from None
    except (OSError, HTTPException, ValueError) as error:
        raise CannotRead(f"{address} cannot be fetched: {error}; {_retry_advice(part)}") from None
    if total is not None and received < total:
        raise CannotRead(
            f"{address} ended after {received} of {total} bytes; {_retry_advice(part)}"
        )


def _total_length(response: Any, received: int, address: str) -> int | None:
    """Total length of the file; None if the server sends no valid Content-Length."""
    declared = response.headers.get("Content-Length") or ""
    if not (declared.isascii() and declared.isdigit() and len(declared) < 20):
        return None
    if received + int(declared) > MOST_BYTES:
        raise DamagedDownload(
            f"{address} would have {declared} bytes, more than the limit of {MOST_BYTES}"
        )
    return received + int(declared)


def _resumes(response: Any, offset: int) -> bool:
    """Whether the server resumes at byte ``offset``."""
    sent: str = response.headers.get("Content-Range", "")
    return offset > 0 and response.status == 206 and sent.startswith(f"bytes {offset}-")


def _retry_advice(part: Path) -> str:
    if part.exists() and part.stat().st_size:
        return "the partial download is kept; run the same command to continue"
    return "try again later"


def _unpacked(name: str, source: Source, archives: list[Path], folder: Path) -> Path:
    """Unpack the archives; return the folder of the data set among their contents."""
    for archive in archives:
        unpack(archive, folder)
    for inside in source.archives_inside:
        if not (folder / inside).is_file():
            raise WrongPack(f"the archive of {name} holds no {inside}")
        unpack(folder / inside, folder)
    wanted = folder / (source.folder_inside or source.place)
    if not wanted.is_dir():
        raise WrongPack(f"the archive of {name} holds no folder {source.place}")
    return wanted


def _advice(name: str, source: Source | None) -> str:
    place = folders()[0]
    if source is None:
        return f"Put {name} into {place}, or set EVERLEARN_DATA to the folder that has it"
    if source.files:
        return f"Fetch it with: everlearn data get {name} (from {source.home})"
    return f"Get it from {source.home} and put it into {place / source.place}"
