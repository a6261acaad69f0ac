"""Where data sets are found, and where to get those that are not there.

A data set is looked for in the folder named by EVERLEARN_DATA, then in the user's cache folder.
Where the publisher gives an address and a checksum is known, :func:`get` fetches and verifies it.
"""

import hashlib
import os
import shutil
import tarfile
import tempfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from everlearn.errors import CannotRead, DamagedDownload, InvalidParameter, MissingData

CHUNK = 1 << 20


@dataclass(frozen=True)
class Source:
    """A data set: its name on disk, its home page, and the files to fetch with their MD5 sums."""

    place: str
    home: str
    files: dict[str, str] = field(default_factory=dict)
    unpack: bool = False


_MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist"
_CALTECH = "https://data.caltech.edu/records"
_COIL = "https://www.cs.columbia.edu/CAVE/software/softlib"

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
    "caltech101": Source("101_ObjectCategories", f"{_CALTECH}/mzrjq-6wc02"),
    "coil20": Source("coil-20-proc", f"{_COIL}/coil-20.php"),
    "coil100": Source("coil-100", f"{_COIL}/coil-100.php"),
    "core50": Source("core50_128x128", "https://vlomonaco.github.io/core50/"),
    "imagenet": Source("imagenet", "https://www.image-net.org/"),
}


def cache_folder() -> Path:
    """The user's cache folder for data sets."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "everlearn"


def folders() -> list[Path]:
    """Where data sets are looked for, in this order."""
    named = os.environ.get("EVERLEARN_DATA")
    return [Path(named), cache_folder()] if named else [cache_folder()]


def find(name: str) -> Path:
    """The path of a data set or data pack; ``MissingData`` says what to do if it is nowhere.

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


def get(name: str, progress: Callable[[], None] | None = None) -> Path:
    """Fetch a data set into the first data folder, verified; one that is there is left alone.

    ``progress`` is called once for every file fetched.
    """
    if name not in SOURCES:
        raise InvalidParameter(f"unknown data set {name!r}; known are {', '.join(SOURCES)}")
    source = SOURCES[name]
    target = folders()[0] / source.place
    if target.exists():
        return target
    if not source.files:
        raise MissingData(f"{name} has no address to fetch it from. {_advice(name, source)}")
    target.parent.mkdir(parents=True, exist_ok=True)
    # Beside the target, so that one rename makes it complete or leaves nothing.
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{source.place}.") as work:
        fetched = []
        for address, checksum in source.files.items():
            fetched.append(fetch(address, checksum, Path(work)))
            if progress:
                progress()
        if source.unpack:
            _unpack(fetched[0], Path(work) / "unpacked")
            inside = Path(work) / "unpacked" / source.place
            inside.replace(target)
        else:
            complete = Path(work) / source.place
            complete.mkdir()
            for file in fetched:
                file.replace(complete / file.name)
            complete.replace(target)
    return target


def fetch(address: str, checksum: str, folder: Path) -> Path:
    """One file into a folder; ``DamagedDownload`` if its MD5 sum is not the one given."""
    path = folder / address.rsplit("/", 1)[-1]
    digest = hashlib.md5(usedforsecurity=False)
    try:
        with urllib.request.urlopen(address) as answer, path.open("wb") as file:
            while chunk := answer.read(CHUNK):
                digest.update(chunk)
                file.write(chunk)
    except (urllib.error.URLError, OSError) as error:
        raise CannotRead(f"{address} cannot be fetched: {error}; try again later") from None
    if digest.hexdigest() != checksum:
        path.unlink()
        raise DamagedDownload(
            f"{address} has MD5 sum {digest.hexdigest()}, its publisher gives {checksum}; "
            "nothing was kept, try again later"
        )
    return path


def _unpack(archive: Path, folder: Path) -> None:
    folder.mkdir()
    if zipfile.is_zipfile(archive):
        shutil.unpack_archive(archive, folder, "zip")
        return
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")


def _advice(name: str, source: Source | None) -> str:
    place = folders()[0]
    if source is None:
        return f"Put {name} into {place}, or set EVERLEARN_DATA to the folder that has it"
    if source.files:
        return f"Fetch it with: everlearn data get {name} (from {source.home})"
    return f"Get it from {source.home} and put it into {place / source.place}"
