"""After an erase, no byte of what was erased is in any file of the folder."""

import hashlib
import hmac
import json
import os
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from attacks import traces
from everlearn import Memory, Pixels
from everlearn.errors import NothingToUndo, UnknownLabel
from everlearn.memory.edits import unknowns
from everlearn.memory.edits.writing import TeachingWriter
from everlearn.memory.storage import erase as erasing
from everlearn.memory.storage import receipts
from everlearn.memory.storage.regions import proposals_of
from everlearn.memory.storage.rows import Example
from everlearn.memory.storage.sqlite.database import SQLiteDatabase
from everlearn.regions import region_embedder
from tests.memory.conftest import same_bits, state_of
from tests.memory.test_finding import SquareFinder, SquareProposer, scene, square

SECRET = np.full(16, 0.123456, dtype=np.float32)
THUMBNAIL = b"a small picture of somebody" * 5
TRACES = [
    *traces.of_vector("vector", SECRET),
    *traces.of_text("name", "secret name"),
    *traces.of_text("path", "/secret/place.jpg"),
    *traces.of_bytes("thumbnail", THUMBNAIL),
]


@pytest.fixture
def filled(tmp_path, clusters):
    """A Memory with a secret among many others."""
    X, names = clusters(each=80)
    memory = Memory(tmp_path / "memory")
    memory.teach_many(zip(X[:300], names[:300], strict=True))
    teach_secret(memory)
    yield memory, X, names
    memory.close()


def teach_secret(memory):
    example = Example(SECRET, "/secret/place.jpg", bytes(32), THUMBNAIL)
    TeachingWriter(memory._opened.journal, "teach", again=False, also=True).write(
        [("secret name", example)]
    )


def traces_in(folder):
    return traces.found([folder], TRACES)


def test_before_an_erase_the_search_finds_something(filled):
    memory, *_ = filled
    found = " ".join(traces_in(memory.path))
    assert all(f"{what} in" in found for what in ("vector (<f4)", "name", "path", "thumbnail"))


def test_the_model_equals_that_of_a_memory_taught_only_the_rest(filled, tmp_path):
    """Also if the erased teaching is in the first window, so that all later positions change."""
    memory, X, names = filled
    memory.forget(X[3], erase=True)
    memory.forget(name="secret name", erase=True)
    left = [pair for i, pair in enumerate(zip(X[:300], names[:300], strict=True)) if i != 3]
    with Memory(tmp_path / "never") as never:
        never.teach_many(left)
        assert same_bits(state_of(memory), state_of(never))
    assert memory.verify().problems == ()
    assert traces_in(memory.path) == []


def test_earlier_forgotten_teachings_are_erased_too(filled):
    memory, *_ = filled
    memory.forget(name="secret name")
    done = memory.forget(name="secret name", erase=True)
    assert (done.count, done.names) == (1, {"secret name": 1})
    assert traces_in(memory.path) == []


def test_every_erase_removes_teachings_that_no_longer_count(filled):
    memory, *_ = filled
    memory.forget(name="secret name")
    done = memory.forget(name="class 0", erase=True)
    assert done.receipt.also_removed == 1
    assert traces_in(memory.path) == []


def test_the_former_name_after_a_rename_is_erased(filled):
    memory, *_ = filled
    memory.rename("secret name", "harmless")
    memory.forget(name="secret name", erase=True)
    assert memory.names()["harmless"].count == 1
    assert b"secret name" not in (memory.path / "journal.sqlite").read_bytes()
    with pytest.raises(UnknownLabel):
        memory.forget(name="secret name", erase=True)


def test_an_erase_is_pending_while_a_reader_holds_old_pages(filled, monkeypatch):
    memory, *_ = filled
    monkeypatch.setattr("everlearn.memory.storage.sqlite.database.PATIENCE_SECONDS", 0.05)
    with Memory(memory.path, read_only=True) as reader:
        with reader._opened.journal.db.read_transaction():
            reader.names()
            reader._opened.journal.db.run("BEGIN")
            reader._opened.journal.names()
            done = memory.forget(name="secret name", erase=True)
            assert done.receipt.pending
            assert memory.info()["erase_pending"]
            assert traces_in(memory.path) != []
        memory.teach(np.ones(16), "after")
        assert not memory.info()["erase_pending"]
    assert traces_in(memory.path) == []
    assert not reader_sees(memory.path, "secret name")


def reader_sees(folder, name):
    with Memory(folder, read_only=True) as reader:
        return name in reader.names()


def test_an_erase_killed_after_its_commit_is_finished_at_the_next_opening(filled, monkeypatch):
    memory, *_ = filled
    with monkeypatch.context() as patch:
        patch.setattr(
            SQLiteDatabase, "rebuild", lambda self: (_ for _ in ()).throw(KeyboardInterrupt)
        )
        with pytest.raises(KeyboardInterrupt):
            memory.forget(name="secret name", erase=True)
    memory._opened.closed = True
    memory._opened.release()
    with Memory(memory.path, read_only=True) as reader:
        assert reader.verify().erase_pending
    Memory(memory.path).close()
    assert traces_in(memory.path) == []


def test_temporary_files_of_killed_processes_are_erased(filled):
    memory, *_ = filled
    (memory.path / ".snapshot-256-abc.def").write_bytes(SECRET.tobytes())
    memory.forget(name="secret name", erase=True)
    assert traces_in(memory.path) == []


def test_undo_stops_at_an_erase(filled):
    memory, X, _ = filled
    memory.forget(name="secret name", erase=True)
    with pytest.raises(NothingToUndo, match="erase"):
        memory.undo()
    memory.teach(-X[0], "new")
    assert memory.undo().kind == "teach"
    with pytest.raises(NothingToUndo, match="erase"):
        memory.undo()
    kinds = [change.kind for change in memory.history()]
    assert kinds == ["teach", "erase"]


def test_ids_of_erased_teachings_are_not_reused(filled):
    memory, *_ = filled
    last = memory.teachings()[-1].id
    memory.forget(id=last, erase=True)
    memory.teach(np.ones(16), "new")
    assert memory.teachings()[-1].id == last + 1


def test_checking_a_receipt_finds_restored_teachings(filled, tmp_path):
    memory, *_ = filled
    receipt = memory.forget(name="secret name", erase=True).receipt
    path = tmp_path / "receipt.json"
    receipt.save(path)
    assert memory.verify(path).problems == ()
    assert traces_in(path) == []
    teach_secret(memory)
    found = " ".join(memory.verify(path).problems)
    assert "a name" in found
    assert "a vector" in found
    facts = json.loads(path.read_text())
    facts["teachings"] = []
    path.write_text(json.dumps(facts))
    assert "or was altered" in " ".join(memory.verify(path).problems)


def test_an_erase_that_could_not_rewrite_pages_is_finished_later(filled, monkeypatch):
    memory, *_ = filled
    with monkeypatch.context() as patch:
        patch.setattr(erasing, "finish", lambda *_, **__: False)
        patch.setattr("everlearn.memory.opened.finish", lambda *_, **__: False)
        done = memory.forget(name="secret name", erase=True)
        assert done.receipt.pending
        assert "secret name" not in memory.names()
    memory.teach(np.ones(16), "after")
    assert traces_in(memory.path) == []


def kept_unknown(memory, vector, source, digest):
    with memory._opened.one_change() as journal:
        unknowns.remember(journal, Example(vector, source, digest, b"thumbnail of " + digest[:4]))


def receipt_of(memory, tmp_path, **selection):
    path = tmp_path / "receipt.json"
    done = memory.forget(**selection, erase=True)
    done.receipt.save(path)
    return path, done.receipt


def test_a_receipt_leaves_out_values_shared_with_other_teachings(filled, tmp_path):
    """All frames of a camera have one source, and a picture may have two names."""
    memory, *_ = filled
    both = np.linspace(0.1, 1.0, 16).astype(np.float32)
    for number, name in enumerate(("ann", "ben", "ann", "ben")):
        memory.teach(both if number < 2 else both[::-1] * number, name, source="camera", also=True)
    path, receipt = receipt_of(memory, tmp_path, name="ann")
    # Its name, one vector and one picture; Ben has the source, the other vector and picture too.
    assert len(receipt.erased) == 3
    found = memory.verify(path)
    assert found.problems == ()
    assert "none of the 3 items listed in the receipt is left" in str(found)
    memory.teach(both[::-1] * 2, "carla", source="camera")
    assert "a vector that was erased is still there" in memory.verify(path).problems


@pytest.mark.parametrize("name", ["cup", "mug"])
def test_a_receipt_of_one_box_lists_what_its_picture_does_not_share(tmp_path, rng, name):
    """The picture and its path stay with the other box, and the name if that has it too."""
    photo = tmp_path / "photo.png"
    Image.fromarray(rng.integers(0, 255, (64, 64, 3), dtype=np.uint8)).save(photo)
    left, right = (0.0, 0.0, 0.5, 0.5), (0.5, 0.5, 1.0, 1.0)
    with Memory(tmp_path / "memory", embedder=Pixels(size=4)) as memory:
        memory.teach(photo, name, box=left)
        memory.teach(photo, "cup", box=right)
        erased, kept = (memory._opened.journal.vector_bytes(number) for number in (1, 2))
        path, receipt = receipt_of(memory, tmp_path, id=1)
        secret = memory._opened.journal.fact("receipt_key").encode()
        expected = [erased] if name == "cup" else [erased, b"mug"]
        assert receipt.erased == sorted(
            hmac.new(secret, data, hashlib.sha256).hexdigest() for data in expected
        )
        assert (receipt.teachings, receipt.pending) == ([1], False)
        assert memory.verify(path).problems == ()
        data = b"".join(file.read_bytes() for file in memory.path.iterdir())
        assert erased not in data
        assert kept in data
        assert [one.box for one in memory.teachings()] == [right]
        memory.teach(photo, name, box=left)
        assert "a vector that was erased is still there" in memory.verify(path).problems


@pytest.mark.parametrize("name", ["red", "blue"])
def test_a_receipt_leaves_out_a_vector_that_its_picture_keeps_as_a_proposal(
    tmp_path, monkeypatch, name
):
    """The picture was taught another box, so it and the boxes proposed in it stay."""
    monkeypatch.setattr(region_embedder, "Proposer", SquareProposer)
    monkeypatch.setattr(region_embedder, "MainThing", SquareFinder)
    embedder = Pixels(size=6, colour=True)
    with Memory(tmp_path / "memory", embedder=embedder, regions="things") as memory:
        both = scene(1, ("red", 0, 0), ("blue", 80, 80))
        memory.teach(both, name, box=square(0, 0))
        memory.teach(both, "blue", box=square(80, 80))
        journal = memory._opened.journal
        digest, erased = journal.origin(1)[1], journal.vector_bytes(1)
        path, receipt = receipt_of(memory, tmp_path, id=1)
        assert erased in proposals_of(journal, digest).vectors.tobytes()
        assert len(receipt.erased) == (1 if name == "red" else 0)  # the name
        assert memory.verify(path).problems == ()
        # A receipt that claims to have erased the vector does not hold.
        with memory._opened.one_change() as changed:
            digests = receipts.keyed_digests(changed, [("vector", erased)])
        replace(receipt, erased=digests).save(path)
        assert memory.verify(path).problems == (
            "a vector of a proposal that was erased is still there",
        )
        # With the last box, the proposals are erased too.
        path, receipt = receipt_of(memory, tmp_path, id=2)
        assert proposals_of(journal, digest) is None
        assert memory.verify(path).problems == ()


def test_guesses_cannot_be_tested_against_a_receipt_without_its_key(filled, tmp_path):
    memory, *_ = filled
    path, receipt = receipt_of(memory, tmp_path, name="secret name")
    guesses = (b"secret name", b"/secret/place.jpg", SECRET.tobytes())
    assert not {hashlib.sha256(guess).hexdigest() for guess in guesses} & set(receipt.erased)
    with Memory(tmp_path / "other") as other:
        other.teach(SECRET, "secret name")
        other.forget(name="secret name", erase=True)
        assert "receipt of another Memory" in " ".join(other.verify(path).problems)


def test_a_receipt_of_the_first_version_is_still_checked(filled, tmp_path):
    memory, *_ = filled
    _, receipt = receipt_of(memory, tmp_path, name="secret name")
    facts = vars(receipt) | {"erased": [hashlib.sha256(b"class 1").hexdigest()]}
    for new in ("key", "unknowns_removed", "remaining"):
        del facts[new]
    words = json.dumps(facts, sort_keys=True)
    old = tmp_path / "old.json"
    old.write_text(json.dumps(facts | {"sha256": hashlib.sha256(words.encode()).hexdigest()}))
    assert memory.verify(old).problems == ("a name that was erased is still there",)


def test_unknown_images_of_the_erased_person_are_erased_too(filled, tmp_path):
    memory, X, _ = filled
    dissimilar = -np.ones(16, dtype=np.float32)
    for place, (vector, source) in enumerate(
        [
            (X[1], "/secret/other.jpg"),
            (dissimilar, "/album/Secret Name/3.jpg"),
            (SECRET * 1.1, "/elsewhere/5.jpg"),
            (X[0], "/elsewhere/6.jpg"),
        ]
    ):
        kept_unknown(memory, vector, source, bytes([place + 1]) * 32)
    _, receipt = receipt_of(memory, tmp_path, name="secret name")
    assert receipt.unknowns_removed == 3
    assert [one.example.source for one in unknowns.all_unknowns(memory._opened.journal)] == [
        "/elsewhere/6.jpg"
    ]
    data = b"".join(path.read_bytes() for path in memory.path.iterdir())
    for trace in (b"Secret Name", b"/secret/", b"thumbnail of " + bytes([3]) * 4):
        assert trace not in data


def test_derived_files_are_removed_or_listed(filled, tmp_path):
    memory, *_ = filled
    parts = tmp_path / "memory.parts" / "vectors" / "abc.npz"
    parts.parent.mkdir(parents=True)
    training, network = memory.path / "night-abc.training", memory.path / "network-ab.safetensors"
    for file in (parts, training, network, memory.path / "before-reembed-1"):
        file.write_bytes(SECRET.tobytes())
        os.utime(file, (1, 1))
    memory.remember_checkpoint("s3://bucket/parts")
    path, receipt = receipt_of(memory, tmp_path, name="secret name")
    assert receipt.remaining == [network.name, "s3://bucket/parts"]
    assert not parts.parent.parent.exists()
    assert not training.exists()
    (problem,) = memory.verify(path).problems
    assert network.name in problem
    network.unlink()
    assert memory.verify(path).ok


def test_a_snapshot_that_cannot_be_removed_makes_the_erase_pending(filled, tmp_path):
    memory, *_ = filled
    stuck = memory.path / "snapshot-256-0123456789abcdef0123456789abcdef"
    stuck.mkdir()
    path, receipt = receipt_of(memory, tmp_path, name="secret name")
    assert receipt.pending
    assert "the erase is not finished" in " ".join(memory.verify(path).problems)
    stuck.rmdir()
    memory.teach(np.ones(16), "after")
    assert memory.verify(path).ok
