import hashlib
import io
import tarfile
from pathlib import Path

import numpy as np
import pytest

from everlearn import NearestClassMean, StreamingLDA
from everlearn.cluster import fit
from everlearn.cluster.listing import listed
from everlearn.cluster.pictures import embedded, examples_of
from everlearn.cluster.store import CheckpointStore
from everlearn.cluster.vectors import VECTORS, read_vectors, write_vectors
from everlearn.errors import BadShard, InvalidInput
from everlearn.images.embedders import Pixels

image = pytest.importorskip("PIL.Image", reason="pillow is not installed")


def png(pixels):
    file = io.BytesIO()
    image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def write_tar(path, members, mode="w"):
    with tarfile.open(path, mode) as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return str(path)


@pytest.fixture
def pictures(rng):
    return [rng.integers(0, 255, (8, 8, 3), dtype=np.uint8) for _ in range(6)]


def assert_knows(trained, pictures, labels):
    vectors = Pixels(size=4).embed(pictures)
    one = NearestClassMean().fit(vectors, labels)
    assert trained.learner.classes_.tolist() == one.classes_.tolist()
    np.testing.assert_allclose(
        trained.learner.decision_function(vectors), one.decision_function(vectors), atol=1e-9
    )


@pytest.mark.parametrize(("suffix", "mode"), [("tar", "w"), ("tar.gz", "w:gz")])
def test_a_webdataset_gives_each_image_the_label_beside_it(
    reference, tmp_path, pictures, suffix, mode
):
    members = []
    for index, pixels in enumerate(pictures):
        label = (f"{index:06d}.cls", str(index % 3).encode())
        picture = (f"{index:06d}.png", png(pixels))
        members += [label, picture] if index % 2 else [picture, label]
        members.append((f"{index:06d}.json", b"{}"))
    path = write_tar(tmp_path / f"a.{suffix}", members, mode)
    trained = fit(NearestClassMean(), path, embedder="pixels-4")
    assert_knows(trained, pictures, [index % 3 for index in range(6)])


def test_without_labels_beside_them_images_are_named_by_their_folder(reference, tmp_path, pictures):
    labels = ["cup", "cup", "cup", "lamp", "lamp", "lamp"]
    members = [
        (f"{n}/{i}.png", png(p)) for i, (n, p) in enumerate(zip(labels, pictures, strict=True))
    ]
    trained = fit(NearestClassMean(), write_tar(tmp_path / "a.tar", members), embedder="pixels-4")
    assert_knows(trained, pictures, labels)


def test_folders_of_folders_are_read(reference, photos):
    trained = fit(NearestClassMean(), str(photos.folder), embedder=lambda: Pixels(size=4))
    assert_knows(trained, photos.images, photos.y)


def test_an_unreadable_image_raises_or_is_skipped_and_listed(reference, photos):
    (photos.folder / "cup" / "1.png").write_bytes(b"no image")
    with pytest.raises(BadShard, match=r"cup/1\.png"):
        fit(NearestClassMean(), str(photos.folder), embedder="pixels-4")
    trained = fit(NearestClassMean(), str(photos.folder), embedder="pixels-4", on_bad="skip")
    ((address, problems),) = trained.bad.items()
    assert address.startswith(str(photos.folder / "cup"))
    assert "cup/1.png" in problems[0]
    assert trained.rows == 5


def test_images_without_an_embedder_raise_a_named_error(reference, photos):
    with pytest.raises(BadShard, match="embedder"):
        fit(NearestClassMean(), str(photos.folder))


def test_links_and_devices_in_a_tar_are_ignored(tmp_path, pictures):
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as tar:
        link = tarfile.TarInfo("cup/link.png")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
        info = tarfile.TarInfo("cup/a.png")
        info.size = len(png(pictures[0]))
        tar.addfile(info, io.BytesIO(png(pictures[0])))
    assert [example.name for example in examples_of(listed(str(path))[0])] == ["cup/a.png"]


def test_an_image_beyond_the_limit_is_not_read_into_memory(tmp_path, monkeypatch):
    from everlearn.images.decode import Limits

    monkeypatch.setattr("everlearn.cluster.pictures.DEFAULT_LIMITS", Limits(bytes=10))
    path = write_tar(tmp_path / "a.tar", [("cup/a.png", b"x" * 11), ("cup/b.png", b"x" * 10)])
    assert [example.data for example in examples_of(listed(path)[0])] == [None, b"x" * 10]


@pytest.mark.parametrize(
    ("members", "error"),
    [
        ([("readme.txt", b"hello")], BadShard),
        ([("a.png", b"x")], InvalidInput),
        ([("a.png", b"x"), ("a.cls", b"1" * 5000)], InvalidInput),
        ([("a.png", b"x"), ("a.cls", b"\xff\xfe")], InvalidInput),
    ],
)
def test_a_tar_without_images_or_labels_is_refused(tmp_path, members, error):
    with pytest.raises(error):
        list(examples_of(listed(write_tar(tmp_path / "a.tar", members))[0]))


def test_kept_vectors_avoid_a_second_embedding(reference, photos, tmp_path, monkeypatch):
    checkpoint = str(tmp_path / "checkpoint")
    arguments = {"embedder": "pixels-4", "checkpoint": checkpoint, "keep_vectors": True}
    fit(NearestClassMean(), str(photos.folder), **arguments)
    monkeypatch.setattr("everlearn.cluster.work.embedded", pytest.fail)
    trained = fit(StreamingLDA(), str(photos.folder), **arguments)
    vectors = Pixels(size=4).embed(photos.images)
    np.testing.assert_allclose(
        trained.learner.decision_function(vectors),
        StreamingLDA().fit(vectors, photos.y).decision_function(vectors),
        atol=1e-9,
    )


def test_kept_vectors_include_everything_a_memory_stores(photos, tmp_path):
    shard = listed(str(photos.folder))[0]
    examples = list(embedded(shard, Pixels(size=4), pytest.fail))
    store = CheckpointStore(str(tmp_path / "checkpoint"))
    write_vectors(store, "name", examples, ["cup/9.png is no image"])
    kept = read_vectors(store, "name")
    assert kept.problems == ("cup/9.png is no image",)
    for ours, theirs in zip(kept.examples, examples, strict=True):
        assert (ours.name, ours.label) == (theirs.name, theirs.label)
        assert ours.digest == hashlib.sha256(Path(ours.name).read_bytes()).digest()
        assert ours.thumbnail == theirs.thumbnail
        np.testing.assert_array_equal(ours.vector, theirs.vector)
    store.write("name", b"damaged", VECTORS)
    assert read_vectors(store, "name") is None
    assert read_vectors(store, "other") is None
