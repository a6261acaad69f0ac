"""Data sets are found in both folders, fetched if missing, and never left incomplete."""

import hashlib
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest
from everlearn_papers.data import catalogue
from everlearn_papers.errors import DamagedDownload, UnsafeArchive, WrongPack

from everlearn.errors import CannotRead, CannotWrite, InvalidParameter, MissingData

from .test_archives import GOOD, files, make_tar, make_zip

LONG = bytes(range(256)) * 5000


@pytest.fixture(autouse=True)
def folders(tmp_path, monkeypatch):
    monkeypatch.setenv("EVERLEARN_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def known(tmp_path, monkeypatch):
    """Register a data set whose files are in a folder; by default at file addresses."""

    def make_known(*paths, address=None, checksum=None, **how):
        sums = {
            f"{address or 'file://' + str(tmp_path)}/{path.name}": checksum
            or hashlib.md5(path.read_bytes()).hexdigest()
            for path in paths
        }
        monkeypatch.setitem(
            catalogue.SOURCES, "tiny", catalogue.Source("set", "https://x", sums, **how)
        )

    return make_known


class Handler(SimpleHTTPRequestHandler):
    """Serves files; records the requested Range and interrupts the response as told."""

    def do_GET(self):
        server = self.server
        server.asked.append(self.headers.get("Range"))
        data = (server.folder / self.path.lstrip("/").split("?")[0]).read_bytes()
        start = 0
        if server.ranges and self.headers.get("Range"):
            start = int(self.headers["Range"].removeprefix("bytes=").rstrip("-"))
            if start >= len(data):
                self.send_error(416)
                return
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", server.length or str(len(data) - start))
        self.end_headers()
        stop = server.breaks.pop(0) if server.breaks else None
        self.wfile.write(data[start : None if stop is None else start + stop])

    def log_message(self, *args):
        pass


@pytest.fixture
def server(tmp_path):
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=tmp_path)) as made:
        made.folder, made.asked, made.breaks, made.ranges = tmp_path, [], [], True
        made.length = None
        made.address = f"http://127.0.0.1:{made.server_port}"
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def test_both_folders_are_searched(tmp_path):
    cached = tmp_path / "cache" / "everlearn" / "mnist"
    cached.mkdir(parents=True)
    assert catalogue.find("mnist") == cached
    (tmp_path / "data" / "mnist").mkdir(parents=True)
    assert catalogue.find("mnist") == tmp_path / "data" / "mnist"


def test_a_missing_data_set_says_how_to_get_it():
    with pytest.raises(MissingData, match="everlearn data get mnist"):
        catalogue.find("mnist")
    with pytest.raises(MissingData, match=r"Get it from https://www\.image-net\.org/.*/imagenet"):
        catalogue.find("imagenet")
    with pytest.raises(MissingData, match="no address"):
        catalogue.get("imagenet")
    with pytest.raises(InvalidParameter, match="known are mnist"):
        catalogue.get("cats")


def test_every_address_has_a_checksum_of_a_known_kind_and_a_name_of_its_own():
    for source in catalogue.SOURCES.values():
        assert source.home.startswith("https://")
        names = [urlsplit(address).path.rsplit("/", 1)[-1] for address in source.files]
        assert len(set(names)) == len(names)
        for checksum in source.files.values():
            assert len(checksum) in catalogue.CHECKSUMS
            assert set(checksum) <= set("0123456789abcdef")


class TestFetching:
    def test_files_are_verified(self, tmp_path, known):
        path = tmp_path / "remote.bin"
        path.write_bytes(b"the data")
        known(path, checksum="0" * 32)
        with pytest.raises(DamagedDownload, match=r"md5 sum .* nothing was kept"):
            catalogue.get("tiny")
        assert not (tmp_path / "data").exists()
        known(path, checksum=hashlib.sha256(b"the data").hexdigest())
        place = catalogue.get("tiny")
        assert files(tmp_path / "data") == {"set/remote.bin": b"the data"}
        path.unlink()
        assert catalogue.get("tiny") == place

    def test_cached_files_are_not_fetched_again(self, tmp_path, known):
        path = tmp_path / "remote.bin"
        path.write_bytes(b"the data")
        known(path)
        cached = tmp_path / "cache" / "everlearn" / "set"
        cached.mkdir(parents=True)
        assert catalogue.get("tiny") == cached

    def test_an_unwritable_folder_raises_a_named_error(self, tmp_path, known):
        path = tmp_path / "remote.bin"
        path.write_bytes(b"the data")
        known(path)
        (tmp_path / "data").write_text("a file where the folder should be")
        with pytest.raises(CannotWrite, match=r"data cannot be written.*set EVERLEARN_DATA"):
            catalogue.get("tiny")

    def test_an_endless_download_is_stopped(self, tmp_path, known, server, monkeypatch):
        path = tmp_path / "remote.bin"
        path.write_bytes(bytes(5000))
        known(path, address=server.address)
        server.length = "unknown"
        monkeypatch.setattr(catalogue, "MOST_BYTES", 4000)
        with pytest.raises(DamagedDownload, match="does not end"):
            catalogue.get("tiny")
        assert not (tmp_path / "data").exists()

    def test_an_unreachable_address_is_reported(self, tmp_path, known):
        path = tmp_path / "remote.bin"
        path.write_bytes(b"the data")
        known(path)
        path.unlink()
        with pytest.raises(CannotRead, match="cannot be fetched"):
            catalogue.get("tiny")
        assert not (tmp_path / "data").exists()

    def test_a_failed_fetch_keeps_an_existing_folder(self, tmp_path, known):
        path = tmp_path / "remote.bin"
        path.write_bytes(b"the data")
        known(path)
        path.unlink()
        (tmp_path / "data").mkdir()
        with pytest.raises(CannotRead, match="cannot be fetched"):
            catalogue.get("tiny")
        assert list((tmp_path / "data").iterdir()) == []

    def test_a_file_planted_in_the_download_folder_is_replaced(self, tmp_path, known):
        path = tmp_path / "remote.bin"
        path.write_bytes(b"the data")
        known(path)
        work = tmp_path / "data" / ".set.fetching"
        work.mkdir(parents=True)
        (work / "remote.bin").write_bytes(b"planted")
        catalogue.get("tiny")
        assert files(tmp_path / "data") == {"set/remote.bin": b"the data"}

    def test_nothing_is_written_through_a_link(self, tmp_path, known):
        path = tmp_path / "remote.bin"
        path.write_bytes(b"the data")
        known(path)
        precious = tmp_path / "precious"
        precious.write_bytes(b"")
        work = tmp_path / "data" / ".set.fetching"
        work.mkdir(parents=True)
        (work / "remote.bin.part").symlink_to(precious)
        catalogue.get("tiny")
        assert precious.read_bytes() == b""
        assert files(tmp_path / "data") == {"set/remote.bin": b"the data"}

    @pytest.mark.parametrize("length", ["many", "-5", "1e3", "²", "9" * 30])
    def test_an_invalid_content_length_is_ignored(self, tmp_path, known, server, length):
        path = tmp_path / "remote.bin"
        path.write_bytes(b"the data")
        known(path, address=server.address)
        server.length = length
        catalogue.get("tiny")
        assert files(tmp_path / "data") == {"set/remote.bin": b"the data"}

    def test_an_absurd_content_length_is_refused(self, tmp_path, known, server):
        path = tmp_path / "remote.bin"
        path.write_bytes(b"the data")
        known(path, address=server.address)
        server.length = "9" * 15  # a petabyte
        with pytest.raises(DamagedDownload, match="would have"):
            catalogue.get("tiny")
        assert not (tmp_path / "data").exists()

    def test_a_missing_page_is_reported(self, tmp_path, known, server):
        path = tmp_path / "remote.bin"
        path.write_bytes(b"the data")
        known(path, address=server.address + "/nowhere", checksum="0" * 32)
        with pytest.raises(CannotRead, match=r"cannot be fetched: .*"):
            catalogue.get("tiny")


class TestInterruptedDownload:
    @pytest.fixture(autouse=True)
    def remote(self, tmp_path, known, server):
        (tmp_path / "long.bin").write_bytes(LONG)
        known(tmp_path / "long.bin", address=server.address)

    def test_an_interrupted_download_resumes(self, tmp_path, server):
        server.breaks = [300_000, 500_000]
        for arrived in (300_000, 800_000):
            with pytest.raises(
                CannotRead,
                match=rf"ended after {arrived} of {len(LONG)} bytes.*same command to continue",
            ):
                catalogue.get("tiny")
            assert not (tmp_path / "data" / "set").exists()
        told = []
        catalogue.get("tiny", progress=lambda *now: told.append(now))
        assert files(tmp_path / "data") == {"set/long.bin": LONG}
        assert server.asked == [None, "bytes=300000-", "bytes=800000-"]
        assert told[-1] == ("long.bin", len(LONG), len(LONG))
        assert min(done for _, done, _ in told) > 800_000

    def test_a_server_without_range_support_sends_the_whole_file(self, tmp_path, server):
        server.breaks, server.ranges = [300_000], False
        with pytest.raises(CannotRead, match="ended after"):
            catalogue.get("tiny")
        catalogue.get("tiny")
        assert files(tmp_path / "data") == {"set/long.bin": LONG}

    def test_a_complete_download_that_was_not_verified_is_verified(self, tmp_path, server):
        """The previous run ended between the last byte and the verification."""
        work = tmp_path / "data" / ".set.fetching"
        work.mkdir(parents=True)
        (work / "long.bin.part").write_bytes(LONG)
        catalogue.get("tiny")
        assert files(tmp_path / "data") == {"set/long.bin": LONG}

    def test_a_partial_file_of_other_content_is_detected(self, tmp_path, server):
        work = tmp_path / "data" / ".set.fetching"
        work.mkdir(parents=True)
        (work / "long.bin.part").write_bytes(b"x" * 1000)
        with pytest.raises(DamagedDownload):
            catalogue.get("tiny")
        catalogue.get("tiny")
        assert files(tmp_path / "data") == {"set/long.bin": LONG}


class TestArchives:
    def test_the_folder_of_an_archive(self, tmp_path, known):
        known(make_tar(tmp_path / "a.tar.gz", GOOD | {"junk": b""}), unpack=True)
        catalogue.get("tiny")
        assert files(tmp_path / "data") == GOOD

    def test_an_archive_in_an_archive(self, tmp_path, known):
        inner = make_tar(tmp_path / "inner.tar.gz", GOOD).read_bytes()
        known(
            make_zip(tmp_path / "a.zip", {"outer/inner.tar.gz": inner}),
            unpack=True,
            archives_inside=("outer/inner.tar.gz",),
        )
        catalogue.get("tiny")
        assert files(tmp_path / "data") == GOOD

    def test_two_archives_side_by_side(self, tmp_path, known):
        first = make_zip(tmp_path / "a.zip", {"one/x": b"1"})
        second = make_zip(tmp_path / "b.zip", {"two/x": b"2"})
        known(first, second, unpack=True, folder_inside=".")
        catalogue.get("tiny")
        assert files(tmp_path / "data") == {"set/one/x": b"1", "set/two/x": b"2"}

    @pytest.mark.parametrize(
        ("members", "error"),
        [
            ({"set/ok": b"", "../../escaped": b""}, UnsafeArchive),
            ({"other/x": b""}, WrongPack),
        ],
    )
    def test_a_bad_archive_leaves_no_files(self, tmp_path, known, members, error):
        known(make_zip(tmp_path / "a.zip", members), unpack=True)
        with pytest.raises(error):
            catalogue.get("tiny")
        assert not (tmp_path / "data").exists()

    def test_a_file_that_is_not_an_archive_is_refused(self, tmp_path, known):
        (tmp_path / "a.zip").write_text("<html>please log in</html>")
        known(tmp_path / "a.zip", unpack=True)
        with pytest.raises(WrongPack, match="cannot be unpacked"):
            catalogue.get("tiny")

    def test_the_archive_inside_is_missing(self, tmp_path, known):
        known(make_zip(tmp_path / "a.zip", GOOD), unpack=True, archives_inside=("inner.tar",))
        with pytest.raises(WrongPack, match=r"archive of tiny holds no inner\.tar"):
            catalogue.get("tiny")
