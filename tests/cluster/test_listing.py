import os
import time

import numpy as np
import pytest

from everlearn.cluster.listing import PICTURES_PER_SHARD, listed, require_unchanged
from everlearn.cluster.shards import Kind
from everlearn.errors import BadShard, CannotRead, InvalidInput, WrongKind, WrongShape


def addresses(sources):
    return [shard.address for shard in listed(sources)]


def test_all_spellings_of_a_path_give_one_shard(shards, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link.npz").symlink_to(shards.paths[0])
    spellings = ["000.npz", "./000.npz", shards.paths[0], f"file://{shards.paths[0]}", "link.npz"]
    assert addresses(spellings) == [shards.paths[0]]


def test_a_folder_a_pattern_and_a_list_are_the_same_shards(shards, tmp_path):
    assert listed(str(tmp_path)) == listed(f"{tmp_path}/*.npz") == listed(shards.paths[::-1])


def test_a_changed_file_is_another_shard(shards):
    before = listed(shards.paths[0])[0]
    require_unchanged(before)
    os.utime(shards.paths[0], ns=(time.time_ns(), time.time_ns() + 10**9))
    after = listed(shards.paths[0])[0]
    assert before.address == after.address
    assert before.identity != after.identity
    with pytest.raises(BadShard, match="changed"):
        require_unchanged(before)


def test_images_of_a_folder_are_divided_into_shards_with_their_labels(photos, monkeypatch):
    monkeypatch.setattr("everlearn.cluster.listing.PICTURES_PER_SHARD", 2)
    found = listed(photos.folder)
    assert [shard.kind for shard in found] == [Kind.PICTURES] * 4
    labels = [picture.label for shard in found for picture in shard.pictures]
    assert labels == photos.y.tolist()
    assert PICTURES_PER_SHARD > 2
    (photos.folder / "lamp" / "1.png").write_bytes(b"other")
    changed = [b.identity != a.identity for a, b in zip(found, listed(photos.folder), strict=True)]
    assert changed == [False, False, True, False]


def test_images_beside_the_class_folders_are_reported(photos, caplog):
    before = [shard.identity for shard in listed(photos.folder)]
    assert not caplog.records
    for name in ("one.png", "two.png"):
        (photos.folder / name).write_bytes((photos.folder / "lamp" / "1.png").read_bytes())
    assert [shard.identity for shard in listed(photos.folder)] == before
    assert "2 images directly in" in caplog.text
    assert "one.png" in caplog.text


def test_equal_blocks_of_one_array_are_different_shards(monkeypatch):
    monkeypatch.setattr("everlearn.cluster.listing.ROWS_PER_SHARD", 2)
    X, y = np.zeros((6, 3)), np.zeros(6, dtype=int)
    assert len(listed((X, y))) == 3
    assert len(listed([(X, y), (X.copy(), y.copy())])) == 3
    assert len(listed([(X, y), (X, y + 1)])) == 6


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("nowhere.npz", CannotRead),
        ("nowhere/*.npz", CannotRead),
        ("unheard-of://bucket/a.npz", CannotRead),
        ([], InvalidInput),
        ([42], WrongKind),
        ((np.zeros((3, 2)), np.zeros(4)), WrongShape),
    ],
)
def test_invalid_shards_raise_a_named_error(source, error, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error):
        listed(source)


def test_files_of_unknown_type_are_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(InvalidInput, match=r"\.npz"):
        listed(str(tmp_path / "notes.txt"))
    with pytest.raises(InvalidInput, match="neither"):
        listed(str(tmp_path))


def test_an_empty_address_is_not_the_current_folder(shards, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInput, match="variable unset"):
        listed([""])


def test_a_folder_that_cannot_be_listed_raises_a_named_error(tmp_path):
    (tmp_path / "cup").mkdir()
    (tmp_path / "cup" / "itself.png").symlink_to("itself.png")
    with pytest.raises(CannotRead, match="symbolic links"):
        listed([str(tmp_path)])
