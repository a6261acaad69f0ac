"""The formats of the publishers are read, and missing files are reported."""

import bz2
import gzip
import struct

import numpy as np
import pytest
from everlearn_papers.data import formats
from everlearn_papers.errors import WrongPack
from PIL import Image

from everlearn.errors import CannotRead, MissingData


def write_idx(path, array):
    header = struct.pack(f">4B{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
    data = header + array.tobytes()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


def write_image(path, value=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((8, 8, 3), value, np.uint8)).save(path)


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_mnist_files(tmp_path, rng, suffix):
    images, labels = rng.integers(0, 256, (5, 28, 28), np.uint8), np.array([3, 1, 4, 1, 5], "u1")
    for prefix, n in (("train", 5), ("t10k", 2)):
        write_idx(tmp_path / f"{prefix}-images-idx3-ubyte{suffix}", images[:n])
        write_idx(tmp_path / f"{prefix}-labels-idx1-ubyte{suffix}", labels[:n])
    data = formats.mnist_idx(tmp_path)
    np.testing.assert_allclose(data.train.X * 255, images.reshape(5, -1), atol=1e-12)
    assert data.train.y.tolist() == [3, 1, 4, 1, 5]
    assert len(data.test) == 2


def test_a_damaged_idx_file_raises_a_named_error(tmp_path):
    write_idx(tmp_path / "a", np.zeros((3, 2), np.uint8))
    (tmp_path / "a").write_bytes((tmp_path / "a").read_bytes()[:-1])
    with pytest.raises(WrongPack, match="says it holds"):
        formats.read_idx(tmp_path / "a")
    (tmp_path / "b.gz").write_bytes(b"no gzip")
    with pytest.raises(CannotRead, match=r"b\.gz"):
        formats.read_idx(tmp_path / "b.gz")
    (tmp_path / "c").write_bytes(b"PK")
    with pytest.raises(WrongPack, match="not an idx file"):
        formats.read_idx(tmp_path / "c")
    with pytest.raises(MissingData, match="everlearn data get mnist"):
        formats.mnist_idx(tmp_path)


def test_cifar_records(tmp_path, rng):
    images = rng.integers(0, 256, (4, 32, 32, 3), np.uint8)
    labels = np.array([[9, 50], [1, 99], [0, 0], [5, 7]], np.uint8)
    records = np.hstack([labels, images.transpose(0, 3, 1, 2).reshape(4, -1)])
    (tmp_path / "train.bin").write_bytes(records.tobytes())
    (tmp_path / "test.bin").write_bytes(records[:1].tobytes())
    data = formats.cifar100_binary(tmp_path)
    np.testing.assert_array_equal(data.train.X, images)
    assert data.train.y.tolist() == [50, 99, 0, 7]
    (tmp_path / "test.bin").write_bytes(b"123")
    with pytest.raises(WrongPack, match="3 bytes"):
        formats.cifar100_binary(tmp_path)


def test_coil_images_are_sorted_by_view(tmp_path):
    for number, view in [(2, 10), (2, 9), (10, 0), (1, 5)]:
        write_image(tmp_path / f"obj{number}__{view}.png")
    examples = formats.coil(tmp_path)
    assert examples.y.tolist() == [1, 2, 2, 10]
    assert [path.rsplit("__", 1)[1] for path in examples.X] == ["5.png", "9.png", "10.png", "0.png"]


def test_caltech_excludes_background_clutter(tmp_path):
    for folder in ("BACKGROUND_Google", "257.clutter", "007.bat", "ant"):
        write_image(tmp_path / folder / "a.png")
    assert formats.caltech(tmp_path).y.tolist() == ["bat", "ant"]


def test_core50_file_names_encode_session_object_and_frame(tmp_path):
    for session, number, frame in [(1, 6, 1), (1, 6, 0), (3, 1, 0), (2, 50, 0)]:
        name = f"s{session}/o{number}/C_{session:02}_{number:02}_{frame:03}.png"
        write_image(tmp_path / name)
    data = formats.core50(tmp_path)
    assert data.train.y.tolist() == [1, 1, 9]
    assert [path[-7:-4] for path in data.train.X] == ["000", "001", "000"]
    assert len(np.unique(data.train.instances)) == 2
    assert data.test.y.tolist() == [0]


def test_omniglot_file_names_encode_alphabet_character_and_drawer(tmp_path):
    for part, alphabet in (
        ("background", "Greek"),
        ("background", "Latin"),
        ("evaluation", "Ge_ez"),
    ):
        for drawer in (2, 1):
            folder = tmp_path / f"images_{part}" / alphabet / "character01"
            write_image(folder / f"0394_{drawer:02}.png")
    data = formats.omniglot(tmp_path)
    # The same character number of another alphabet is another class.
    names = ["Greek/character01"] * 2 + ["Latin/character01"] * 2
    assert data.train.y.tolist() == names
    assert data.train.instances.tolist() == [1, 2, 1, 2]
    assert data.test.y.tolist() == ["Ge_ez/character01"] * 2
    with pytest.raises(MissingData, match="images_background"):
        formats.omniglot(tmp_path / "images_evaluation")


def test_usps_lines(tmp_path, rng):
    pixels = np.round(rng.uniform(-1, 1, (4, 256)), 3)
    pixels[2, 7] = 0.0  # left out of the line, as libsvm does
    digits = [0, 9, 3, 3]
    for name, n in (("usps.bz2", 4), ("usps.t.bz2", 2)):
        lines = [
            f"{digit + 1} " + " ".join(f"{i + 1}:{x:.6f}" for i, x in enumerate(row) if x)
            for digit, row in zip(digits[:n], pixels, strict=False)
        ]
        (tmp_path / name).write_bytes(bz2.compress("\n".join(lines).encode()))
    data = formats.usps(tmp_path)
    np.testing.assert_allclose(data.train.X, (pixels + 1) / 2, atol=1e-9)
    assert data.train.y.tolist() == digits
    assert len(data.test) == 2
    (tmp_path / "usps.t.bz2").write_bytes(b"nothing of the kind")
    with pytest.raises(WrongPack, match=r"usps\.t\.bz2 is not a file of USPS digits"):
        formats.usps(tmp_path)
    (tmp_path / "usps.t.bz2").unlink()
    with pytest.raises(MissingData, match="everlearn data get usps"):
        formats.usps(tmp_path)
