"""Packs: arrays by name; errors say what is wrong with a file."""

import numpy as np
import pytest
from everlearn_papers.data import packs
from everlearn_papers.errors import WrongPack

from everlearn.errors import InvalidParameter, MissingData

from .test_formats import write_idx


def test_a_pack_with_wrong_keys_lists_its_keys(tmp_path, monkeypatch):
    monkeypatch.setenv("EVERLEARN_DATA", str(tmp_path))
    np.savez(tmp_path / "odd.npz", pixels=np.zeros(3))
    with pytest.raises(WrongPack, match=r"no array features_train, .*; it holds pixels"):
        packs.split_pack("odd.npz")
    (tmp_path / "text.npz").write_text("hello")
    with pytest.raises(WrongPack, match="not a data pack"):
        packs.arrays("text.npz", "X")
    with pytest.raises(MissingData, match="set EVERLEARN_DATA"):
        packs.arrays("absent.npz", "X")


def test_mnist_without_its_pack_is_read_from_the_files(tmp_path, rng, monkeypatch):
    monkeypatch.setenv("EVERLEARN_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(MissingData, match="everlearn data get mnist"):
        packs.mnist()
    (tmp_path / "mnist").mkdir()
    images = rng.integers(0, 256, (5, 28, 28), np.uint8)
    for prefix in ("train", "t10k"):
        write_idx(tmp_path / "mnist" / f"{prefix}-images-idx3-ubyte.gz", images)
        write_idx(tmp_path / "mnist" / f"{prefix}-labels-idx1-ubyte.gz", np.arange(5, dtype="u1"))
    from_files = packs.mnist()
    names = ("images_train", "labels_train", "images_test", "labels_test")
    pack = dict(zip(names, (images, np.arange(5)) * 2, strict=True))
    np.savez(tmp_path / "mnist.npz", **pack)
    (tmp_path / "mnist").rename(tmp_path / "away")
    from_pack = packs.mnist()
    np.testing.assert_array_equal(from_files.train.X, from_pack.train.X)
    np.testing.assert_array_equal(from_files.test.y, from_pack.test.y)


def test_the_turntable_pack(data_pack):
    data_pack("icub_camera50.npz")
    between = packs.turntable("frames")
    assert (len(between.train), len(between.test)) == (2400, 1250)
    beyond = packs.turntable("arc")
    assert (len(beyond.train), len(beyond.test)) == (43 * 50, 30 * 50)
    for data in (between, beyond):
        assert len(np.unique(data.train.instances)) == 150
        assert np.unique(data.train.instances // 3 - data.train.y).tolist() == [0]
    with pytest.raises(InvalidParameter, match="frames, arc, not 'views'"):
        packs.turntable("views")


def test_classes_by_name_are_all_of_their_examples(data_pack):
    data_pack("caltech101_effnetlite0.npz")
    found = packs.by_name("caltech101_effnetlite0.npz")
    whole = packs.caltech101()
    assert sum(map(len, found.values())) == len(whole.train) + len(whole.test) == 8677
    assert len(found["airplanes"]) == 800


def test_a_single_array_is_refused_as_a_pack(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros(3))
    with pytest.raises(WrongPack, match="a single array"):
        packs.opened(str(tmp_path / "x.npy"))
