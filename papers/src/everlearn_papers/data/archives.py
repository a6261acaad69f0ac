"""Safe unpacking of untrusted archives: no writes outside the folder, bounded size.

Names are plain paths below the folder; members are files and folders, no links and no devices; no
file is written twice; and the unpacked size is limited to a multiple of the archive's size. Bytes
are counted as they are written, because declared sizes cannot be trusted. A name or header too
long for memory is rejected before it is read.
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

# Images hardly compress: an archive of images never grows twentyfold.
MOST_TIMES_LARGER = 20
LEAST_ALLOWANCE = 16 << 20
MOST_MEMBERS = 2_000_000
CHUNK = 1 << 20
# Longest read from one place: contents are read in chunks, and valid headers are shorter.
LONGEST_READ = CHUNK
# Magic bytes of compressed files, and the function that opens them.
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
    opened: Any  # () -> file object with the contents


def unpack(archive: Path, folder: Path) -> None:
    """Write the files of a zip or tar archive below a folder.

    Raises
    ------
    UnsafeArchive
        A member would lie outside the folder, or the size limit is exceeded. The caller removes
        what was already written.
    WrongPack
        The file is not an archive, or is damaged.
    """
    left = max(LEAST_ALLOWANCE, MOST_TIMES_LARGER * archive.stat().st_size)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with _members(archive) as members:
            for number, member in enumerate(members):
                if number >= MOST_MEMBERS:
                    raise UnsafeArchive(f"{archive} holds more than {MOST_MEMBERS} members")
                path = folder / _member_path(archive, member)
                if member.is_folder:
                    path.mkdir(parents=True, exist_ok=True)
                    continue
                path.parent.mkdir(parents=True, exist_ok=True)
                with member.opened() as source, path.open("xb") as target:
                    left -= _copy(source, target, left, archive)
    except EverlearnError:
        raise
    except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
        raise UnsafeArchive(f"{archive} holds {error.filename} twice") from None
    except OSError as error:
        if error.errno is None:  # raised by a decompressor, not by the system
            raise WrongPack(f"{archive} cannot be unpacked: {error}") from None
        raise CannotWrite(
            f"{archive} cannot be unpacked: {error.strerror}; check the space left in {folder}"
        ) from error
    except Exception as error:  # archive readers raise unrelated types
        reason = str(error) or type(error).__name__
        raise WrongPack(f"{archive} cannot be unpacked: {reason}") from None


def _member_path(archive: Path, member: _Member) -> PurePosixPath:
    """Relative path of a member; raises UnsafeArchive if it is not below the folder."""
    path = PurePosixPath(member.name)
    foreign = path.is_absolute() or ".." in path.parts or "\\" in member.name
    if foreign or re.match(r"[A-Za-z]:", member.name) or "\0" in member.name:
        raise UnsafeArchive(f"{archive} would write outside its folder: {member.name!r}")
    if member.is_file and not path.parts:
        raise UnsafeArchive(f"{archive} holds a file without a name")
    if not (member.is_file or member.is_folder):
        raise UnsafeArchive(f"{archive} holds a link or device: {member.name!r}")
    return path


def _copy(source: IO[bytes], target: IO[bytes], left: int, archive: Path) -> int:
    """Copy a file of at most ``left`` bytes; return its size."""
    copied = 0
    while chunk := source.read(CHUNK):
        copied += len(chunk)
        if copied > left:
            raise UnsafeArchive(
                f"{archive} grows to more than {MOST_TIMES_LARGER} times its size, "
                "the limit for an archive of images"
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
    """File wrapper that rejects long reads from one place.

    tarfile reads a name or header in one piece, or in pieces right after each other (since 3.14);
    before it reads anything else, it seeks or asks for the position.
    """

    def __init__(self, file: IO[bytes], archive: Path) -> None:
        self._file = file
        self._archive = archive
        self._in_a_row = 0

    def read(self, size: int = -1) -> bytes:
        self._in_a_row += size
        if size < 0 or self._in_a_row > LONGEST_READ + 2 * tarfile.BLOCKSIZE:
            raise UnsafeArchive(
                f"{self._archive} holds a name or header of more than {LONGEST_READ:,} bytes"
            )
        return self._file.read(size)

    def seek(self, place: int, whence: int = 0) -> int:
        self._in_a_row = 0
        return self._file.seek(place, whence)

    def tell(self) -> int:
        self._in_a_row = 0
        return self._file.tell()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True


def _tarred_members(tar: tarfile.TarFile) -> Iterator[_Member]:
    while (info := tar.next()) is not None:
        tar.members.clear()  # type: ignore[attr-defined]  # tarfile would keep every member
        yield _tarred(tar, info)


def _zipped(opened: zipfile.ZipFile, info: zipfile.ZipInfo) -> _Member:
    kind = stat.S_IFMT(info.external_attr >> 16)
    plain = kind in (0, stat.S_IFREG, stat.S_IFDIR)
    is_folder = plain and info.is_dir()
    return _Member(info.filename, is_folder, plain and not is_folder, lambda: opened.open(info))


def _tarred(tar: tarfile.TarFile, info: tarfile.TarInfo) -> _Member:
    return _Member(info.name, info.isdir(), info.isreg(), lambda: tar.extractfile(info))
