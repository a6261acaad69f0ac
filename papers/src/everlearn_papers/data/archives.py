"""Unpacking archives that came from elsewhere: nothing outside the folder, nothing endless.

Names are plain paths below the folder; members are files and folders, no links and no devices; no
file is written twice; and an archive may not grow to many times its size. Sizes are counted as
bytes are written, because what an archive says about itself need not be true. Only contents of
members are long: a name or header that would fill the memory is refused before it is read.
"""

import bz2
import gzip
import io
import lzma
import re
import stat
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

from everlearn.errors import CannotWrite, EverlearnError
from everlearn_papers.errors import UnsafeArchive, WrongPack

# Images hardly compress: twenty times its size is no archive of images any more.
MOST_TIMES_LARGER = 20
LEAST_ALLOWANCE = 16 << 20
MOST_MEMBERS = 2_000_000
CHUNK = 1 << 20
# Nothing is read in one piece that is longer: chunks of contents are not, honest headers neither.
LONGEST_READ = CHUNK
# How the first bytes of a compressed file tell how to open it.
COMPRESSED: dict[bytes, Any] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\0": lzma.open,
}


@dataclass(frozen=True)
class _Member:
    name: str
    is_folder: bool
    is_file: bool
    opened: Any  # gives the contents of a file


def unpack(archive: Path, folder: Path) -> None:
    """Write the files of a zip or tar archive below a folder.

    Raises
    ------
    UnsafeArchive
        A member has no place below the folder, or there is far too much. What was written before
        is left for the caller to throw away.
    WrongPack
        It is no archive, or a damaged one.
    """
    left = max(LEAST_ALLOWANCE, MOST_TIMES_LARGER * archive.stat().st_size)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with _members(archive) as members:
            for number, member in enumerate(members):
                if number >= MOST_MEMBERS:
                    raise UnsafeArchive(f"{archive} holds more than {MOST_MEMBERS} members")
                path = folder / _place(archive, member)
                if member.is_folder:
                    path.mkdir(parents=True, exist_ok=True)
                    continue
                path.parent.mkdir(parents=True, exist_ok=True)
                with member.opened() as source, path.open("xb") as target:
                    left -= _copied(source, target, left, archive)
    except EverlearnError:
        raise
    except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
        raise UnsafeArchive(f"{archive} holds {error.filename} twice") from None
    except OSError as error:
        if error.errno is None:  # of a decompressor, not of the system
            raise WrongPack(f"{archive} cannot be unpacked: {error}") from None
        raise CannotWrite(
            f"{archive} cannot be unpacked: {error.strerror}; check the space left in {folder}"
        ) from error
    except Exception as error:  # what the readers of archives raise has no common root
        reason = str(error) or type(error).__name__
        raise WrongPack(f"{archive} cannot be unpacked: {reason}") from None


def _place(archive: Path, member: _Member) -> PurePosixPath:
    """Where a member belongs; refused if that is not below the folder."""
    path = PurePosixPath(member.name)
    foreign = path.is_absolute() or ".." in path.parts or "\\" in member.name
    if foreign or re.match(r"[A-Za-z]:", member.name) or "\0" in member.name:
        raise UnsafeArchive(f"{archive} would write outside its folder: {member.name!r}")
    if member.is_file and not path.parts:
        raise UnsafeArchive(f"{archive} holds a file without a name")
    if not (member.is_file or member.is_folder):
        raise UnsafeArchive(f"{archive} holds a link or device: {member.name!r}")
    return path


def _copied(source: IO[bytes], target: IO[bytes], left: int, archive: Path) -> int:
    """Copy a file; how many bytes it was, at most those left."""
    copied = 0
    while chunk := source.read(CHUNK):
        copied += len(chunk)
        if copied > left:
            raise UnsafeArchive(
                f"{archive} grows to more than {MOST_TIMES_LARGER} times its size; "
                "it is not what it should be"
            )
        target.write(chunk)
    return copied


@contextmanager
def _members(archive: Path) -> Iterator[Iterator[_Member]]:
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as opened:
            yield (_zipped(opened, info) for info in opened.infolist())
    else:
        with (
            _decompressed(archive) as stream,
            tarfile.open(fileobj=_ShortReads(stream, archive), mode="r:") as tar,
        ):
            yield _tarred_members(tar)


def _decompressed(archive: Path) -> IO[bytes]:
    with archive.open("rb") as file:
        start = file.read(6)
    opened = next((open_ for magic, open_ in COMPRESSED.items() if start.startswith(magic)), open)
    return opened(archive, "rb")


class _ShortReads(io.RawIOBase):
    """A file that is not read in long pieces: tarfile takes a name or header whole."""

    def __init__(self, file: IO[bytes], archive: Path) -> None:
        self._file = file
        self._archive = archive

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= LONGEST_READ:
            raise UnsafeArchive(f"{self._archive} holds a name or header of {size:,} bytes")
        return self._file.read(size)

    def seek(self, place: int, whence: int = 0) -> int:
        return self._file.seek(place, whence)

    def tell(self) -> int:
        return self._file.tell()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True


def _tarred_members(tar: tarfile.TarFile) -> Iterator[_Member]:
    while (info := tar.next()) is not None:
        tar.members.clear()  # type: ignore[attr-defined]  # or it would keep every one
        yield _tarred(tar, info)


def _zipped(opened: zipfile.ZipFile, info: zipfile.ZipInfo) -> _Member:
    kind = stat.S_IFMT(info.external_attr >> 16)
    plain = kind in (0, stat.S_IFREG, stat.S_IFDIR)
    is_folder = plain and info.is_dir()
    return _Member(info.filename, is_folder, plain and not is_folder, lambda: opened.open(info))


def _tarred(tar: tarfile.TarFile, info: tarfile.TarInfo) -> _Member:
    return _Member(info.name, info.isdir(), info.isreg(), lambda: tar.extractfile(info))
