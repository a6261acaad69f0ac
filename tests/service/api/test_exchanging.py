"""Merge and sync over HTTP equal those between two folders."""

import hashlib

import numpy as np
import pytest
from click.testing import CliRunner

from everlearn import Client, Memory, errors
from everlearn.cli.app import app
from everlearn.memory.edits.writing import begin, ensure_kind
from everlearn.memory.storage.appending import add_teaching
from everlearn.memory.storage.rows import Example, TaughtBox
from everlearn.memory.storage.sqlite.database import FILE
from everlearn.regions.boxes import Box
from everlearn.service import client as client_module
from tests.service.conftest import TOKEN


@pytest.fixture
def vectors(rng):
    return rng.normal(size=(40, 12)).astype(np.float32)


@pytest.fixture
def client(live):
    with Client(live, token=TOKEN) as client:
        yield client


@pytest.fixture
def home(memories, vectors):
    """What the service has: ten pictures, one of them forgotten, one erased."""
    home = memories["home"]
    home.teach_many((x, "cup") for x in vectors[:10])
    home.forget(vectors[3])
    home.forget(vectors[4], erase=True)
    return home


@pytest.fixture
def other(tmp_path, vectors):
    """What is here: some of it too, new ones, one with two names, one under another name."""
    with Memory(tmp_path / "other") as other:
        other.teach_many((x, "pen") for x in vectors[20:30])
        other.teach(vectors[25], "pencil", also=True)
        other.teach(vectors[0], "mug")
        yield other


def digest_of(x):
    return hashlib.sha256(x.tobytes()).digest()


def named(memory):
    return {(digest.hex(), box, name) for (digest, box), name in memory.counting()}


def test_a_merge_over_http_is_the_merge_of_two_folders(client, home, other, tmp_path, monkeypatch):
    home.backup(tmp_path / "twin")
    with Memory(tmp_path / "twin") as twin:
        expected = twin.merge(other)
        counted = named(twin)
    monkeypatch.setattr(client_module, "PART_BYTES", 8_000)  # several parts
    merged = client.merge(other)
    assert (merged, merged.conflicts, merged.kept_out, merged.forgotten) == (
        expected, expected.conflicts, expected.kept_out, expected.forgotten,
    )  # fmt: skip
    assert [(one.here, one.there) for one in merged.conflicts] == [(("cup",), "mug")]
    assert named(home) == counted
    assert client.would_undo().kind == "merge"
    client.undo()
    assert sum(record.count for record in home.names().values()) == 8
    assert home.verify().problems == ()


def test_forgotten_and_erased_teachings_do_not_come_back(client, home, other, vectors):
    other.teach_many((x, "cup") for x in vectors[5:8])
    client.merge(other)
    other.forget(vectors[5])
    other.forget(vectors[6], erase=True)
    other.forget(vectors[21])
    merged = client.merge(other)
    # The erase took what was forgotten before it with it.
    assert (merged.forgotten, merged.erased) == (3, 2)
    kept = named(home)
    client.merge(other)
    assert named(home) == kept
    # And what the service erased does not come back from somebody who still has it.
    with Memory(other.path.parent / "third") as third:
        with third._opened.one_change() as journal:
            old = Example(vectors[4], "", digest_of(vectors[4]), taught_at=1.0)
            ensure_kind(journal, old)
            add_teaching(journal, begin(journal, "teach"), "cup", old)
        assert client.merge(third).kept_out == 1


@pytest.mark.parametrize("erase", [False, True])
def test_one_of_two_boxes_of_a_name_is_passed_on_both_ways(client, memories, tmp_path, rng, erase):
    home = memories["home"]
    digest, vectors = bytes(32), rng.normal(size=(3, 12)).astype(np.float32)
    boxes = [Box(0.0, 0.0, 0.5, 0.5), Box(0.5, 0.5, 1.0, 1.0), None]
    with Memory(tmp_path / "other") as other:
        for memory in (home, other):
            for x, box in zip(vectors, boxes, strict=True):
                region = None if box is None else TaughtBox(box, found=False)
                assert memory.teach(Example(x, "", digest, region=region), "cup")
        other.forget(id=1, erase=erase)
        home.forget(id=2, erase=erase)
        assert named(home) == {(digest.hex(), box, "cup") for box in (boxes[0], None)}
        done = client.sync(other)
        assert (done.here.forgotten, done.there.forgotten, done.equal) == (1, 1, True)
        assert named(home) == named(other) == {(digest.hex(), None, "cup")}


@pytest.mark.parametrize(("conflicts", "name"), [("here", "cup"), ("there", "mug")])
def test_a_sync_makes_both_equal(client, home, other, vectors, conflicts, name):
    listed = client.sync(other)
    assert not listed.equal
    assert len(listed.here.conflicts) == len(listed.there.conflicts) == 1
    done = client.sync(other, conflicts=conflicts)
    assert done.equal
    assert named(home) == named(other)
    for memory in (home, other):
        assert memory.verify().problems == ()
    first = digest_of(vectors[0]), None
    assert {own for same, own in home.counting() if same == first} == {name}


def test_a_file_that_is_not_a_journal_is_refused_and_changes_nothing(client, home, other, tmp_path):
    before = home.position
    for body in (b"", b"no journal", bytes(5000)):
        with pytest.raises((errors.NotAMemory, errors.DamagedJournal, errors.CannotRead)):
            client._service.change_by_file("merge", body, client_module.JOURNAL_TYPE)
    other.backup(tmp_path / "copy")
    data = bytearray((tmp_path / "copy" / FILE).read_bytes())
    for at in range(2000, len(data), 997):
        data[at] ^= 1
    with pytest.raises(errors.EverlearnError):
        client._service.change_by_file("merge", bytes(data), client_module.JOURNAL_TYPE)
    assert home.position == before


def test_the_command_exchanges_with_a_service(live, home, other, monkeypatch):
    monkeypatch.setenv("EVERLEARN_TOKEN", TOKEN)
    other.close()
    command = ["-m", str(other.path), "sync", live]
    listed = CliRunner().invoke(app, command)
    assert listed.exit_code == 0, listed.output
    assert "is mug here and cup there" in listed.stderr
    settled = CliRunner().invoke(app, [*command, "--conflicts", "here"])
    assert "both are equal\n" in settled.stdout
    with Memory(other.path, read_only=True) as there:
        assert named(there) == named(home)
        assert "mug" in home.names()
