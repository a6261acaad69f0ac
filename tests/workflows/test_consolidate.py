"""Consolidation is kept only if it helps, resumes after a kill, and is used by the Memory."""

import pytest

pytest.importorskip("torch", reason="everlearn.deep needs torch: pip install 'everlearn[torch]'")

from pathlib import Path

import numpy as np
from PIL import Image

from attacks import traces
from everlearn import Memory, NearestClassMean
from everlearn.deep.consolidate import consolidation
from everlearn.deep.embedding import DeepEmbedder
from everlearn.errors import CannotRead, InvalidParameter, ReadOnlyMemory, WrongEmbedder
from everlearn.evaluation.metrics import better_than_chance
from everlearn.images.embedders import Pixels
from everlearn.workflows.consolidate import consolidate, embedder_of
from tests.deep.small import SIZE, quick, striped, tiny

LONG = quick(epochs=16)


def untrained():
    return DeepEmbedder(tiny(), size=SIZE)


@pytest.fixture
def memory(tmp_path):
    pictures, labels = striped(16)
    pairs = []
    for number, (picture, label) in enumerate(zip(pictures, labels, strict=True)):
        file = tmp_path / f"{number:03}.png"
        Image.fromarray(picture).save(file)
        pairs.append((file, f"kind {label}"))
    with Memory(tmp_path / "memory", embedder=untrained()) as opened:
        opened.teach_many(pairs)
        yield opened


def accuracy(memory):
    asked, truth = striped(16, seed=1)
    said = [memory.ask(picture)[0].name for picture in asked]
    return np.mean([name == f"kind {k}" for name, k in zip(said, truth, strict=True)])


def test_consolidation_improves_a_memory_and_persists(memory):
    before, names = accuracy(memory), memory.names()
    found = consolidate(memory, recipe=LONG, held_out=0.25)
    assert found.taken
    assert found.after > found.before
    assert accuracy(memory) > max(before, 0.8)
    assert {n: r.count for n, r in memory.names().items()} == {n: r.count for n, r in names.items()}
    folder, name = memory.path, memory.info()["embedder"]
    assert name == found.embedder.name
    memory.close()
    again = embedder_of(folder, name, network=tiny(seed=9))
    with Memory(folder, embedder=again, read_only=True) as reopened:
        assert accuracy(reopened) > 0.8
    assert not list(folder.glob("night-*"))
    assert len(list(folder.glob("network-*"))) == 1


def test_consolidation_that_does_not_help_changes_nothing(memory, monkeypatch):
    answers = memory.ask(striped(1)[0][0])[0]
    as_good = "everlearn.deep.consolidate._held_out_hits"
    monkeypatch.setattr(as_good, lambda network, pictures, held: np.arange(10) % 2 == 0)
    found = consolidate(memory, recipe=quick(epochs=1))
    assert not found.taken
    assert memory.ask(striped(1)[0][0])[0] == answers
    assert not list(memory.path.glob("n*-*.*"))


def test_consolidation_has_to_help_by_more_than_chance():
    before = np.zeros(100, dtype=bool)
    after = before.copy()
    assert not better_than_chance(before, after)
    after[:1] = True
    assert not better_than_chance(before, after), "one picture is chance"
    after[:16] = True
    before[90:] = True  # 16 became right and 10 wrong: 6 is more than the root of 26
    assert better_than_chance(before, after)
    before[80:] = True
    assert not better_than_chance(before, after)


def test_a_killed_consolidation_resumes(memory):
    class Killed(BaseException):
        pass

    def kill(epoch):
        if epoch.number == 8:
            raise Killed

    name = memory.info()["embedder"]
    with pytest.raises(Killed):
        consolidate(memory, recipe=LONG, progress=kill)
    assert memory.info()["embedder"] == name
    told = []
    consolidate(memory, recipe=LONG, progress=lambda epoch: told.append(epoch.number))
    assert told[0] == 6, "the checkpoint was after epoch 5"


def test_a_lost_picture_or_another_embedder_is_refused(memory, tmp_path):
    (tmp_path / "007.png").unlink()
    with pytest.raises(CannotRead, match="no longer at its source"):
        consolidate(memory, recipe=LONG)
    with (
        Memory(tmp_path / "other", embedder=Pixels()) as other,
        pytest.raises(WrongEmbedder, match="train_base"),
    ):
        consolidate(other)


def test_a_memory_in_a_database_is_refused_and_its_copy_in_a_folder_accepted(
    memory, address, tmp_path
):
    """As the message says: consolidate a backup, then re-embed the database with its network."""
    with Memory(address, embedder=untrained()) as shared:
        shared.teach_many((one.source, one.name) for one in memory.teachings())
        with pytest.raises(InvalidParameter, match=r"is a database.*backup.*reembed"):
            consolidate(shared, recipe=LONG)
        shared.backup(tmp_path / "copy")
        with Memory(tmp_path / "copy", embedder=shared.embedder) as copy:
            found = consolidate(copy, recipe=LONG, held_out=0.25)
        assert found.taken
        shared.reembed(found.embedder)
        assert accuracy(shared) > 0.8


def test_a_memory_open_for_asking_only_is_refused_before_the_training(memory):
    memory.close()

    def trained(epoch):
        raise AssertionError("it was trained first")

    with Memory(memory.path, embedder=untrained(), read_only=True) as reader:
        with pytest.raises(ReadOnlyMemory, match="read_only=True"):
            consolidate(reader, progress=trained)
        assert not list(memory.path.glob("night-*"))


def test_network_given_to_a_consolidation_is_not_changed():
    embedder = untrained()
    before = {key: value.clone() for key, value in embedder.network.state_dict().items()}
    found = consolidation(embedder, *striped(10), NearestClassMean(), recipe=quick(epochs=3))
    assert found.taken == (found.after > found.before)
    assert all((before[k] == v).all() for k, v in embedder.network.state_dict().items())


def test_pictures_kept_in_the_journal_are_enough(tmp_path):
    """The files may be gone where the Memory has kept the images."""
    pictures, labels = striped(16)
    with Memory(tmp_path / "memory", embedder=untrained(), keep_images="image") as memory:
        for number, (picture, label) in enumerate(zip(pictures, labels, strict=True)):
            file = tmp_path / f"{number:03}.png"
            Image.fromarray(picture).save(file)
            memory.teach(file, f"kind {label}")
            file.unlink()
        found = consolidate(memory, recipe=LONG, held_out=0.25)
        assert found.taken
        assert accuracy(memory) > 0.8


def test_after_an_erase_a_trained_network_is_named_and_nothing_else_is_left(memory, tmp_path):
    """In the folder, and in a backup made afterwards, whose files are newer than the erase."""

    class Killed(BaseException):
        pass

    def kill(epoch):
        if epoch.number == 6:
            raise Killed

    assert consolidate(memory, recipe=LONG, held_out=0.25).taken
    with pytest.raises(Killed):
        consolidate(memory, recipe=LONG, progress=kill)
    (network,) = memory.path.glob("network-*")
    (training,) = memory.path.glob("night-*")
    small = {one.id: memory.thumbnail(one.id) for one in memory.teachings()}
    gone = memory.teachings("kind 0")
    images = [Path(one.source).read_bytes() for one in memory.teachings() if one not in gone]
    thumbnails = [image for number, image in small.items() if number not in {g.id for g in gone}]
    wanted = traces.of_text("name", "kind 0")
    for one in gone:
        wanted += traces.of_text("path", one.source)
        wanted += traces.of_image("image", Path(one.source).read_bytes(), unlike=images)
        wanted += traces.of_bytes("thumbnail", small[one.id], unlike=thumbnails)
    for number in [one.id for one in gone]:
        vector = np.frombuffer(memory._opened.journal.vector_bytes(number), "<f4")
        wanted += traces.of_vector("vector", vector)
    before = " ".join(traces.found([memory.path], wanted))
    assert all(f"{what} in" in before for what in ("name", "path", "thumbnail", "vector (<f4)"))
    done = memory.forget(name="kind 0", erase=True).receipt
    done.save(tmp_path / "receipt.json")
    memory.backup(tmp_path / "backup")
    assert not training.exists()
    assert done.remaining == [network.name]
    assert traces.found([memory.path, tmp_path / "backup"], wanted) == []
    assert network.name in " ".join(memory.verify(tmp_path / "receipt.json").problems)
    with Memory(tmp_path / "backup", read_only=True) as backup:
        (problem,) = backup.verify(tmp_path / "receipt.json").problems
        assert network.name in problem
        (backup.path / network.name).unlink()
        assert backup.verify(tmp_path / "receipt.json").ok
