"""``everlearn ingest``: any number of images into a Memory or a model file."""

import io
import json
import shutil
import tarfile

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from attacks import traces
from everlearn import Memory, RecursiveRLSC, load
from everlearn.cli.app import app
from everlearn.cluster.store import CheckpointStore
from everlearn.cluster.vectors import _checksum
from everlearn.errors import ReadOnlyMemory
from everlearn.images.embedders import Pixels
from everlearn.workflows.ingest import ingest


@pytest.fixture
def run(tmp_path, reference):
    def run(*arguments, code=0):
        command = ["-m", str(tmp_path / "memory"), "ingest", *map(str, arguments)]
        result = CliRunner().invoke(app, [*command, "--embedder", "pixels-4"])
        assert result.exit_code == code, result.output
        return result

    return run


def test_ingested_images_keep_their_source(run, photos, tmp_path):
    assert "taught 6" in run(photos.folder).output
    again = json.loads(run(photos.folder, "--json").stdout)
    assert again["taught"] == 0
    with Memory(tmp_path / "memory", embedder=Pixels(size=4)) as memory:
        counts = {name: record.count for name, record in memory.names().items()}
        assert counts == {"cup": 3, "lamp": 3}
        assert memory.ask(photos.images[0])[0].name == "cup"
        assert memory.forget(source=str(photos.folder / "lamp")).count == 3


def test_ingest_uses_the_network_of_the_memory(photos, tmp_path):
    folder = tmp_path / "memory"
    with Memory(folder, embedder=Pixels(size=5)) as memory:
        memory.teach(photos.images[0], "cup")
    found = CliRunner().invoke(app, ["-m", str(folder), "ingest", str(photos.folder)])
    assert found.exit_code == 0, found.output
    with Memory(folder) as memory:
        assert memory.info()["embedder"] == Pixels(size=5).name
        assert memory.names()["lamp"].count == 3


def test_a_model_file_equals_that_of_one_stream(run, photos, tmp_path):
    run(photos.folder, "--model", tmp_path / "model")
    vectors = Pixels(size=4).embed(photos.images)
    # As a Memory does it: signed roots, at length one.
    roots = np.sign(vectors) * np.sqrt(np.abs(vectors.astype(np.float64)))
    roots /= np.linalg.norm(roots, axis=1, keepdims=True)
    one = RecursiveRLSC(regularization=0.3, recoding=0.5).fit(roots, photos.y)
    np.testing.assert_allclose(
        load(tmp_path / "model").learner.decision_function(vectors),
        one.decision_function(roots),
        atol=1e-9,
    )


def test_unreadable_images_raise_or_are_listed(run, photos, tmp_path):
    (photos.folder / "cup" / "1.png").write_bytes(b"no image")
    assert "cup/1.png" in run(photos.folder, "--model", tmp_path / "model", code=1).output
    told = run(photos.folder, "--skip-bad", "--model", tmp_path / "model", "--json", code=1)
    assert json.loads(told.stdout)["taught"] == 5
    assert load(tmp_path / "model").rows == 5


def test_shards_of_vectors_are_refused_for_a_memory(run, shards, reference):
    reference.run = pytest.fail
    assert "--model" in run(*shards.paths, code=2).output


def counts(tmp_path):
    with Memory(tmp_path / "memory", read_only=True) as memory:
        assert memory.verify().ok
        return {name: record.count for name, record in memory.names().items()}


def test_a_shard_with_an_unreadable_image_keeps_the_others(run, photos, tmp_path):
    """Every readable image arrives, and the one that cannot be read is named, each time."""
    (photos.folder / "cup" / "1.png").write_bytes(b"no image")
    for _ in range(2):
        told = json.loads(run(photos.folder, "--skip-bad", "--json", code=1).stdout)
        (reason,) = (reason for reasons in told["bad"].values() for reason in reasons)
        assert "cup/1.png" in reason
    with Memory(tmp_path / "memory", embedder=Pixels(size=4)) as memory:
        counts = {name: record.count for name, record in memory.names().items()}
    assert counts == {"cup": 2, "lamp": 3}


def test_images_are_embedded_once_and_nothing_is_fitted(run, photos, monkeypatch, tmp_path):
    embedded, run_batch = [], Pixels.run

    def counted(self, batch):
        embedded.append(len(batch))
        return run_batch(self, batch)

    monkeypatch.setattr(Pixels, "run", counted)
    parts = tmp_path / "parts"
    for _ in range(2):
        run(photos.folder, "--checkpoint", parts)
    assert sum(embedded) == 6
    store = CheckpointStore(str(parts))
    assert [store.read(name).learner for name in store.names()] == [None]


def forged(path, **changes):
    with np.load(path, allow_pickle=False) as file:
        arrays = {key: file[key] for key in file.files}
    np.savez(path, **(arrays | changes))


@pytest.mark.parametrize("how", ["nan", "nan with checksum", "other", "cut", "text"])
def test_altered_vectors_are_recomputed(run, photos, tmp_path, how):
    run(photos.folder)
    with Memory(tmp_path / "memory", read_only=True) as memory:
        before = memory.classifier.named_steps["ridge"].coef_
    for path in (tmp_path / "memory.parts" / "vectors").iterdir():
        if how == "nan":
            forged(path, X=np.full((3, 16), np.nan, dtype=np.float32))
        elif how == "nan with checksum":
            forged(path, X=np.full((3, 16), np.nan, dtype=np.float32))
            with np.load(path) as file:
                arrays = {key: file[key] for key in file.files if key != "checksum"}
            forged(path, checksum=np.array(_checksum(path.name, arrays)))
        elif how == "other":
            forged(path, X=np.ones((3, 16), dtype=np.float32))
        else:
            path.write_bytes(b"no npz" if how == "text" else path.read_bytes()[:-40])
    shutil.rmtree(tmp_path / "memory")
    run(photos.folder)
    assert counts(tmp_path) == {"cup": 3, "lamp": 3}
    with Memory(tmp_path / "memory", read_only=True) as memory:
        assert np.array_equal(memory.classifier.named_steps["ridge"].coef_, before)


def test_a_picture_under_two_names_is_reported(run, photos, tmp_path):
    copied = (photos.folder / "cup" / "0.png").read_bytes()
    (photos.folder / "lamp" / "9.png").write_bytes(copied)
    result = run(photos.folder, code=1)
    assert "is already taught as 'cup'" in result.output
    assert counts(tmp_path) == {"cup": 3, "lamp": 3}


def test_a_name_of_digits_is_kept_as_it_is_written(run, photos, tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        for number, path in enumerate(sorted(photos.folder.rglob("*.png"))[:2]):
            for name, data in (
                (f"{number}.png", path.read_bytes()),
                (f"{number}.cls", b"007" if number else b"7"),
            ):
                info = tarfile.TarInfo(name)
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    run(tmp_path / "a.tar")
    assert counts(tmp_path) == {"7": 1, "007": 1}


def test_a_receipt_lists_vectors_kept_outside_of_the_folder(run, photos, tmp_path):
    run(photos.folder, "--checkpoint", tmp_path / "elsewhere")
    with Memory(tmp_path / "memory") as memory:
        receipt = memory.forget(name="cup", erase=True).receipt
    assert receipt.remaining == [str(tmp_path / "elsewhere")]


def test_a_memory_open_for_asking_only_is_refused_before_anything_is_embedded(
    photos, tmp_path, monkeypatch
):
    embedder = Pixels(size=4)
    with Memory(tmp_path / "memory", embedder=embedder) as memory:
        memory.teach(photos.images[0], "cup")
    monkeypatch.setattr(Pixels, "run", lambda *_: pytest.fail("something was embedded"))
    parts = str(tmp_path / "memory.parts")
    with (
        Memory(tmp_path / "memory", embedder=embedder, read_only=True) as reader,
        pytest.raises(ReadOnlyMemory, match="read_only=True"),
    ):
        ingest(reader, [str(photos.folder)], embedder="pixels-4", checkpoint=parts)
    assert not (tmp_path / "memory.parts").exists()


SECRET = "Geheimer Becher"


@pytest.fixture
def secret(photos, tmp_path):
    """Pictures of a secret: some in the folder of photos, one in a tar file, one elsewhere."""
    place = photos.folder / SECRET
    place.mkdir()
    rng = np.random.default_rng(5)
    pixels = rng.integers(0, 255, (5, 9, 12, 3), dtype=np.uint8)
    files = [place / f"{number}.png" for number in range(3)]
    files += [tmp_path / "in a tar file.png", tmp_path / "merged.png"]
    for image, file in zip(pixels, files, strict=True):
        Image.fromarray(image).save(file)
    with tarfile.open(tmp_path / "shard.tar", "w") as tar:
        tar.add(files[3], f"{SECRET}/one.png")
    return files


def traces_of(files, others):
    wanted = traces.of_text("name", SECRET)
    kept = [file.read_bytes() for file in others]
    for file in files:
        wanted += traces.of_image("image", file.read_bytes(), unlike=kept)
        for size in (4, 5):
            wanted += traces.of_vector(
                "vector", Pixels(size=size).embed([np.asarray(Image.open(file))])[0]
            )
    return wanted


def test_what_an_ingest_left_is_erased_or_named(photos, secret, reference, tmp_path):
    """The folder, its parts, a checkpoint elsewhere, a merged Memory, a backup made afterwards."""
    folder, store, receipt = tmp_path / "memory", tmp_path / "store", tmp_path / "receipt.json"
    parts, backup = tmp_path / "memory.parts", tmp_path / "backup"
    wanted = traces_of(secret, photos.folder.glob("[cl]*/*.png"))
    with Memory(tmp_path / "other", embedder=Pixels(size=4), keep_images="image") as other:
        other.teach(secret[4], SECRET)
    with Memory(folder, embedder=Pixels(size=4), keep_images="image") as memory:
        ingest(memory, [str(photos.folder)], embedder="pixels-4", checkpoint=str(store))
        ingest(memory, [str(tmp_path / "shard.tar")], embedder="pixels-4", checkpoint=str(parts))
        memory.merge(tmp_path / "other")
        memory.ask(255 - np.asarray(Image.open(secret[0])), remember=True)
        memory.reembed(Pixels(size=5), drop=True)
        memory.compare_networks(["pixels-4"])
        small = {one.id: memory.thumbnail(one.id) for one in memory.teachings()}
        gone = {one.id: small.pop(one.id) for one in memory.teachings(SECRET)}
        for image in gone.values():
            wanted += traces.of_bytes("thumbnail", image, unlike=small.values())
        for left in (".network-1.safetensors.12", ".night-1.training.12", ".snapshot-256-1.12"):
            shutil.copy(folder / "journal.sqlite", folder / left)
        shutil.copy(folder / "journal.sqlite", folder / ".journal.sqlite.unfinished")
        before = traces.found([folder, parts, store], wanted)
        for place in ("journal.sqlite", "before-reembed", "reembed-", "memory.parts", "store"):
            assert [one for one in before if place in one], place
        done = memory.forget(name=SECRET, erase=True).receipt
        done.save(receipt)
        memory.backup(backup)
    assert not done.pending
    assert traces.found([folder, backup, receipt], wanted) == []
    assert not parts.exists()
    assert done.remaining == [str(store)]
    assert traces.found([store], wanted)
    for place in (folder, backup):
        with Memory(place, read_only=True) as memory:
            problems = memory.verify(receipt).problems
        assert problems
        assert all(f"{store}/" in problem for problem in problems)
    shutil.rmtree(store)
    with Memory(folder, read_only=True) as memory:
        assert memory.verify(receipt).ok


def test_parts_behind_a_link_are_named_and_not_removed(photos, secret, reference, tmp_path):
    folder, place = tmp_path / "memory", tmp_path / "a large disk"
    place.mkdir()
    (tmp_path / "memory.parts").symlink_to(place)
    with Memory(folder, embedder=Pixels(size=4)) as memory:
        address = str(tmp_path / "memory.parts")
        ingest(memory, [str(photos.folder)], embedder="pixels-4", checkpoint=address)
        done = memory.forget(name=SECRET, erase=True).receipt
        done.save(tmp_path / "receipt.json")
        assert done.remaining == [address]
        assert address in " ".join(memory.verify(tmp_path / "receipt.json").problems)
    assert list((place / "vectors").iterdir())
    told = CliRunner().invoke(app, ["-m", str(folder), "forget", "cup", "--erase", "--yes"])
    assert f"not erased, though computed from the pictures: {address}" in told.output


def test_a_checkpoint_that_cannot_be_searched_is_named_by_the_check(tmp_path):
    with Memory(tmp_path / "memory") as memory:
        memory.teach(np.ones(3), "cup")
        memory.teach(np.zeros(3), "pen")
        memory.remember_checkpoint("s3://bucket/parts")
        memory.forget(name="pen", erase=True).receipt.save(tmp_path / "receipt.json")
        found = memory.verify(tmp_path / "receipt.json")
    assert found.ok
    assert found.unsearched == ("s3://bucket/parts",)
    assert "not searched: s3://bucket/parts" in str(found)
