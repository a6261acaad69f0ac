"""Restored and copied journals: a model never mixes two timelines."""

import contextlib
import shutil

import numpy as np
import pytest
from click.testing import CliRunner

from everlearn import InitialWhitening, Memory, RecursiveRLSC, StreamingLDA, StreamPipeline
from everlearn.cli.app import app
from everlearn.errors import AlreadyThere, DamagedJournal, NotAMemory
from everlearn.memory.model.model import Model
from everlearn.memory.storage.backup import restore
from everlearn.memory.storage.snapshot import write_snapshot
from everlearn.memory.storage.sqlite.database import FILE
from everlearn.memory.storage.sqlite.folder import FolderCaches
from tests.memory.conftest import same_bits, state_of


def test_a_restored_journal_ignores_snapshots_of_the_lost_timeline(tmp_path, rng):
    """Teach 300, copy the journal, teach 800 other things, put the copy back, teach 850."""
    folder = tmp_path / "memory"
    X = rng.normal(size=(1950, 8)).astype(np.float32)
    with Memory(folder) as memory:
        memory.teach_many((x, f"name {i % 5}") for i, x in enumerate(X[:300]))
    copy = (folder / FILE).read_bytes()
    with Memory(folder) as memory:
        memory.teach_many((x, f"name {(i + 1) % 5}") for i, x in enumerate(X[300:1100]))
    (folder / FILE).write_bytes(copy)
    with Memory(folder) as memory:
        memory.teach_many((x, f"name {i % 5}") for i, x in enumerate(X[1100:]))
    with Memory(folder) as memory, Memory(tmp_path / "never") as never:
        never.teach_many((x, f"name {i % 5}") for i, x in enumerate(X[:300]))
        never.teach_many((x, f"name {i % 5}") for i, x in enumerate(X[1100:]))
        assert same_bits(state_of(memory), state_of(never))


@pytest.fixture
def taught(tmp_path, clusters):
    X, names = clusters(each=80)
    with Memory(tmp_path / "memory") as memory:
        memory.teach_many(zip(X, names, strict=True))
    return tmp_path / "memory", X, names


def test_a_backup_made_while_teaching_is_a_memory_of_one_moment(taught, tmp_path):
    folder, X, _ = taught
    with Memory(folder) as memory, Memory(folder, read_only=True) as reader:
        memory.teach(-X[0], "before")
        reader.backup(tmp_path / "backup")
        memory.teach(-X[1], "after")
        with pytest.raises(AlreadyThere, match="give the backup a new folder"):
            memory.backup(tmp_path / "backup")
    with Memory(tmp_path / "backup", read_only=True) as backup:
        assert {"before", "after"} & set(backup.names()) == {"before"}
        assert backup.verify().problems == ()


def test_restoring_is_atomic_and_readers_continue(taught, tmp_path):
    folder, X, names = taught
    with Memory(folder) as memory:
        memory.backup(tmp_path / "backup")
        expected = state_of(memory)
        memory.teach_many((x, "other") for x in -X)
    with Memory(folder, read_only=True) as reader:
        assert "other" in reader.names()
        assert restore(tmp_path / "backup", folder) == len(X)
        assert "other" not in reader.names()
        assert reader.ask(X[0])[0].name == names[0]
    with Memory(folder) as memory:
        assert same_bits(state_of(memory), expected)
        assert memory.verify().problems == ()


def test_a_damaged_backup_is_not_restored(taught, tmp_path):
    folder, X, _ = taught
    with Memory(folder) as memory:
        memory.backup(tmp_path / "backup")
    data = bytearray((tmp_path / "backup" / FILE).read_bytes())
    at = data.rfind(X[5].tobytes())
    data[at] ^= 1
    (tmp_path / "backup" / FILE).write_bytes(data)
    before = (folder / FILE).read_bytes()
    with pytest.raises(DamagedJournal, match="altered"):
        restore(tmp_path / "backup", folder)
    assert (folder / FILE).read_bytes() == before
    with pytest.raises(NotAMemory):
        restore(tmp_path / "nothing", folder)


def test_an_inconsistent_file_copy_is_detected(taught, tmp_path):
    """The journal of one moment with the write-ahead log of another."""
    folder, X, _ = taught
    copy = tmp_path / "copy"
    copy.mkdir()
    with Memory(folder) as memory:
        shutil.copy(folder / FILE, copy / FILE)
        memory.teach_many((x, f"other {i % 50}") for i, x in enumerate(-X))
        memory.forget(name="class 1")
        memory._opened.journal.db.checkpoint()
        memory.teach_many((x, f"more {i % 50}") for i, x in enumerate(2 * X[:20]))
        shutil.copy(folder / f"{FILE}-wal", copy / f"{FILE}-wal")
    with contextlib.suppress(DamagedJournal), Memory(copy) as memory:
        # Where it is opened, it is the older of the two moments and nothing else.
        assert memory.verify().problems == ()
        assert not [name for name in memory.names() if not name.startswith("class")]


@pytest.mark.parametrize(
    "classifier",
    [
        None,
        StreamingLDA(),
        RecursiveRLSC(regularization="auto"),
        StreamPipeline([("whiten", InitialWhitening()), ("learner", RecursiveRLSC())]),
    ],
    ids=["default", "slda", "no forget", "whitened by the first batch"],
)
def test_a_memory_asked_at_any_moment_equals_a_replay_bit_for_bit(tmp_path, rng, classifier):
    """Asked after one entry, after many, across parts and windows, with forgetting in between."""
    X = rng.normal(size=(700, 12)).astype(np.float32)
    with Memory(tmp_path / "memory", classifier=classifier) as memory:
        taught = 0
        for count in (1, 2, 14, 30, 1, 209, 1, 5, 270, 40, 7):
            memory.teach_many(
                (x, f"name {i % 5}") for i, x in enumerate(X[taught : taught + count])
            )
            taught += count
            memory.ask(X[0])
            if count in (30, 270):
                memory.forget(name="name 3")
                memory.undo()
            live = memory._opened.read(lambda: memory._opened.model().digest())
            replayed = memory._opened.read(lambda: memory._opened.history.replayed().digest())
            assert live == replayed, taught
        assert memory.verify().problems == ()


def test_verify_finds_a_model_that_differs_from_the_journal(taught):
    folder, X, _ = taught
    with Memory(folder) as memory:
        memory.ask(X[0])
        memory.classifier.learn_one(np.ones(16), 1)
        (problem,) = memory.verify().problems
        assert "the current model" in problem


def test_verify_finds_a_snapshot_that_differs_from_the_journal(taught):
    folder, *_ = taught
    with Memory(folder, read_only=True) as memory:
        model = memory._opened.read(memory._opened.history.opened)
        model.classifier.learn_one(np.ones(16), 1)
        (snapshot,) = folder.glob("snapshot-*")
        position = int(snapshot.name.split("-")[1])
        chain = memory._opened.journal.chain_at(position)
        untaught = memory._opened.history._untaught
    write_snapshot(
        FolderCaches(folder), Model(model.classifier, model.means, position, chain), untaught
    )
    with Memory(folder, read_only=True) as memory:
        (problem,) = memory.verify().problems
        assert "snapshot" in problem


def test_commands(taught, tmp_path):
    folder, *_ = taught

    def run(*words, **options):
        return CliRunner().invoke(app, ["-m", str(folder), *map(str, words)], **options)

    assert "as they were written" in run("verify").stdout
    assert "backed up" in run("backup", tmp_path / "backup").stdout
    refused = run("restore", tmp_path / "backup", input="n\n")
    assert refused.exit_code == 1
    assert "restored 320 teachings" in run("restore", "--yes", tmp_path / "backup").stdout
