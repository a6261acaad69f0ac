"""Untrusted archives: valid ones are unpacked, hostile ones change nothing."""

import gzip
import io
import random
import stat
import tarfile
import tracemalloc
import zipfile
from contextlib import suppress

import pytest
from everlearn_papers.data import archives
from everlearn_papers.data.archives import unpack
from everlearn_papers.errors import UnsafeArchive, WrongPack

from everlearn.errors import CannotWrite, EverlearnError

GOOD = {"set/a.txt": b"first", "set/deep/b.bin": bytes(range(256)) * 40}


def make_zip(path, members, method=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def make_tar(path, members, mode="w:gz"):
    with tarfile.open(path, mode) as archive:
        for name, data in members.items():
            info = name if isinstance(name, tarfile.TarInfo) else tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def tar_member(name, kind, target=""):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def files(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_tar_archives(tmp_path, mode):
    unpack(make_tar(tmp_path / "a.tar", GOOD, mode), tmp_path / "out")
    assert files(tmp_path / "out") == GOOD


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_zip_archives(tmp_path, method):
    members = {"set/": b"", "empty/": b"", "./set/c": b"3"} | GOOD
    unpack(make_zip(tmp_path / "a.zip", members, method), tmp_path / "out")
    assert files(tmp_path / "out") == GOOD | {"set/c": b"3"}
    assert (tmp_path / "out" / "empty").is_dir()


@pytest.mark.parametrize(
    "name",
    ["../escaped", "set/../../escaped", "/tmp/escaped", "C:escaped", "..\\escaped", "a/\\..\\x"],
)
@pytest.mark.parametrize("make", [make_zip, make_tar])
def test_member_paths_outside_the_target_are_refused(tmp_path, name, make):
    archive = make(tmp_path / "a", {"ok": b"1", name: b"mine now"})
    with pytest.raises(UnsafeArchive, match="outside its folder"):
        unpack(archive, tmp_path / "in" / "out")
    assert sorted(files(tmp_path)) == ["a", "in/out/ok"]


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE]
)
def test_links_and_devices_in_a_tar_are_refused(tmp_path, kind):
    """A link followed by a file through it would write outside of the target."""
    (tmp_path / "elsewhere").mkdir()
    link = tar_member("set", kind, str(tmp_path / "elsewhere"))
    archive = make_tar(tmp_path / "a.tar", {link: b"", "set/escaped": b"mine now"})
    with pytest.raises(UnsafeArchive, match="link or device: 'set'"):
        unpack(archive, tmp_path / "out")
    assert files(tmp_path / "elsewhere") == {}


def test_links_in_a_zip_are_refused(tmp_path):
    link = zipfile.ZipInfo("set")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(link, str(tmp_path))
    with pytest.raises(UnsafeArchive, match="link or device"):
        unpack(tmp_path / "a.zip", tmp_path / "out")


@pytest.mark.parametrize("make", [make_zip, make_tar])
def test_a_zip_bomb_is_stopped_at_the_size_limit(tmp_path, monkeypatch, make):
    monkeypatch.setattr(archives, "LEAST_ALLOWANCE", 1 << 20)
    archive = make(tmp_path / "a", {f"zeros{i}": bytes(1 << 20) for i in range(4)})
    assert archive.stat().st_size < 1 << 16
    with pytest.raises(UnsafeArchive, match="more than 20 times its size"):
        unpack(archive, tmp_path / "out")
    assert sum(map(len, files(tmp_path / "out").values())) <= 2 << 20


def test_sizes_declared_in_a_zip_are_not_trusted(tmp_path, monkeypatch):
    """A member that claims to hold one byte, and holds four million."""
    monkeypatch.setattr(archives, "LEAST_ALLOWANCE", 1 << 20)
    path = make_zip(tmp_path / "a.zip", {"zeros": bytes(4 << 20)})
    data = path.read_bytes()
    path.write_bytes(data.replace((4 << 20).to_bytes(4, "little"), (1).to_bytes(4, "little")))
    with pytest.raises((UnsafeArchive, WrongPack)):
        unpack(path, tmp_path / "out")
    assert sum(map(len, files(tmp_path / "out").values())) <= 1 << 20


def test_an_archive_with_too_many_members_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "MOST_MEMBERS", 3)
    archive = make_zip(tmp_path / "a.zip", {str(i): b"" for i in range(4)})
    with pytest.raises(UnsafeArchive, match="more than 3 members"):
        unpack(archive, tmp_path / "out")


@pytest.mark.parametrize("names", [("a", "a"), ("a", "a/b"), ("a/b", "a"), ("a", "./a")])
def test_a_member_that_appears_twice_is_refused(tmp_path, names):
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for number, name in enumerate(names):
            info = tarfile.TarInfo(name)
            info.size = 1
            archive.addfile(info, io.BytesIO(str(number).encode()))
    with pytest.raises(UnsafeArchive, match="twice"):
        unpack(tmp_path / "a.tar", tmp_path / "out")
    assert list(files(tmp_path / "out").values()) == [b"0"]


def test_a_member_without_a_name_is_refused(tmp_path):
    archive = make_tar(tmp_path / "a.tar", {".": b"x"})
    with pytest.raises(UnsafeArchive, match="without a name"):
        unpack(archive, tmp_path / "out")


@pytest.mark.parametrize("make", [make_zip, make_tar])
def test_damaged_archives_raise_a_named_error(tmp_path, make):
    archive = make(tmp_path / "a", {"x": random.Random(0).randbytes(5000)})
    whole = archive.read_bytes()
    for damaged in (b"", b"no archive", whole[: len(whole) // 2]):
        archive.write_bytes(damaged)
        with pytest.raises(WrongPack, match="cannot be unpacked"):
            unpack(archive, tmp_path / "out")


def test_an_altered_file_in_a_zip_raises_a_named_error(tmp_path):
    archive = make_zip(tmp_path / "a.zip", {"x": random.Random(0).randbytes(5000)})
    whole = archive.read_bytes()
    archive.write_bytes(whole[:2500] + bytes(64) + whole[2564:])
    with pytest.raises(WrongPack, match="cannot be unpacked"):
        unpack(archive, tmp_path / "out")


def test_a_member_name_too_long_for_the_disk_is_refused(tmp_path):
    archive = make_tar(tmp_path / "a.tar", {"n" * 300: b"x"})
    with pytest.raises(CannotWrite, match="check the space left"):
        unpack(archive, tmp_path / "out")


@pytest.mark.parametrize("kind", [tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE, tarfile.XGLTYPE])
@pytest.mark.parametrize("size", [64 << 20, 1 << 40])
def test_a_long_name_or_header_is_refused_before_it_is_read(tmp_path, kind, size):
    """A few kilobytes that declare, and unpack to, gigabytes of name."""
    header = tar_member("x", kind)
    header.size = size
    with gzip.open(tmp_path / "a.tar.gz", "wb") as file:
        file.write(header.tobuf(tarfile.GNU_FORMAT))
        for _ in range(64):
            file.write(bytes(1 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(UnsafeArchive, match="name or header of"):
            unpack(tmp_path / "a.tar.gz", tmp_path / "out")
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_number_of_members(tmp_path):
    """Or an archive of many empty files would fill the memory."""
    archive = make_tar(tmp_path / "a.tar", {f"{i:06d}": b"" for i in range(2000)}, "w")
    with archives._members(archive) as members:
        next(members)
        tracemalloc.start()
        for _ in members:
            pass
        kept, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert kept < 200_000


@pytest.mark.parametrize("seed", range(300))
def test_any_altered_bytes_raise_a_named_error(tmp_path, seed):
    chance = random.Random(seed)
    make, mode = chance.choice([(make_zip, None), (make_tar, "w"), (make_tar, "w:gz")])
    path = tmp_path / "a"
    make(path, GOOD) if mode is None else make(path, {"n" * 120: b"long", **GOOD}, mode)
    data = bytearray(path.read_bytes())
    for _ in range(chance.randint(1, 8)):
        data[chance.randrange(len(data))] = chance.randrange(256)
    path.write_bytes(data)
    with suppress(EverlearnError):
        unpack(path, tmp_path / "out")


def test_an_endless_chain_of_headers_is_refused(tmp_path):
    header = tar_member("x", tarfile.XHDTYPE)
    header.size = 512
    block = header.tobuf(tarfile.GNU_FORMAT) + b"11 path=ab\n".ljust(512, b"\0")
    (tmp_path / "a.tar").write_bytes(block * 5000)
    with pytest.raises(WrongPack, match="cannot be unpacked"):
        unpack(tmp_path / "a.tar", tmp_path / "out")
