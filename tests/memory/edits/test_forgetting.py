"""Forgetting, undo, redo and correcting: exact, reported, and never by accident."""

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from everlearn import Memory, NearestClassMean, StreamingLDA
from everlearn.cli.app import app
from everlearn.errors import InvalidInput, NothingToUndo, OtherName
from everlearn.memory.storage.log import WINDOW


@pytest.fixture
def taught(tmp_path, clusters):
    X, names = clusters()
    with Memory(tmp_path / "memory") as memory:
        memory.teach_many(zip(X, names, strict=True))
        yield memory


@pytest.mark.parametrize("word", ["", " ", "\t\n"])
@pytest.mark.parametrize("option", ["what", "name", "source"])
@pytest.mark.parametrize("erase", [True, False])
def test_an_empty_argument_forgets_nothing(taught, word, option, erase):
    before = taught.names()
    arguments = {"erase": erase} if option == "what" else {option: word, "erase": erase}
    with pytest.raises(InvalidInput, match="empty word"):
        taught.forget(*([word] if option == "what" else []), **arguments)
    assert taught.names() == before
    assert taught.history()[0].kind == "teach"


def run(memory, *words, **options):
    memory.close()
    return CliRunner().invoke(app, ["-m", str(memory.path), *map(str, words)], **options)


@pytest.mark.parametrize("erase", [[], ["--erase"]])
def test_a_source_that_is_no_path_is_forgotten_from_the_command_line(tmp_path, monkeypatch, erase):
    """As a service gets it from clients; a path below the current folder comes first."""
    monkeypatch.chdir(tmp_path)
    with Memory(tmp_path / "memory") as memory:
        memory.teach([1.0, 0.0], "a", source="camera/1.jpg")
        memory.teach([0.0, 1.0], "b", source=str(tmp_path / "camera" / "1.jpg"))
    result = run(memory, "forget", *erase, "--source", "camera", "--yes")
    assert "forgot 1 teaching of 1 name (b)" in result.stdout
    result = run(memory, "forget", *erase, "--source", "camera", "--yes")
    assert "forgot 1 teaching of 1 name (a)" in result.stdout
    result = run(memory, "forget", *erase, "--source", "camera", "--yes")
    assert result.exit_code == 1


@pytest.mark.parametrize(
    "words", [[""], ["--erase", ""], ["--source", ""], ["--name", " "], ["--erase", "--source", ""]]
)
def test_an_unset_variable_forgets_nothing(taught, words):
    result = run(taught, "forget", "--yes", *words)
    assert result.exit_code == 1
    assert "is a variable unset?" in result.stderr
    with Memory(taught.path, read_only=True) as memory:
        assert len(memory.teachings()) == 24


def test_forgetting_a_folder_shows_the_counts_and_asks(tmp_path, clusters):
    X, names = clusters()
    with Memory(tmp_path / "memory") as memory:
        for i, (x, name) in enumerate(zip(X, names, strict=True)):
            memory.teach(x, name, source=str(tmp_path / "photos" / f"{i}.png"))
    refused = run(memory, "forget", "--source", tmp_path / "photos", input="n\n")
    assert refused.exit_code == 1
    assert "24 teachings of 4 names (class 0, class 1, class 2, class 3)" in refused.stderr
    asked = run(memory, "forget", "--erase", "class 1", input="n\n")
    assert "6 teachings of 1 name (class 1) for good" in asked.stderr
    done = run(memory, "forget", "--source", tmp_path / "photos", input="y\n")
    assert "forgot 24 teachings of 4 names" in done.stdout


def test_undo_and_redo_report_what_they_changed(taught):
    taught.forget(name="class 2")
    taught.rename("class 3", "three")
    undone = taught.undo()
    assert (undone.kind, undone.count, undone.names) == ("rename", 6, ("class 3", "three"))
    undone = taught.undo()
    assert (undone.kind, undone.count, undone.names) == ("forget", 6, ("class 2",))
    assert list(taught.names()) == [f"class {k}" for k in range(4)]
    assert taught.redo().kind == "forget"
    assert taught.redo().kind == "rename"
    assert list(taught.names()) == ["class 0", "class 1", "three"]
    with pytest.raises(NothingToUndo, match="nothing to redo"):
        taught.redo()
    assert "undone: rename, 6 teachings (class 3, three)" in run(taught, "undo").stdout


def test_a_new_change_ends_redo(taught):
    taught.forget(name="class 2")
    taught.undo()
    taught.teach(np.ones(16), "new")
    with pytest.raises(NothingToUndo):
        taught.redo()
    taught.undo()
    assert taught.redo().names == ("new",)


def test_a_correction_moves_the_image_in_one_operation(taught, tmp_path):
    x = np.linspace(0, 1, 16)
    taught.teach(x, "wrong")
    with pytest.raises(OtherName, match="'wrong'; use correct"):
        taught.teach(x, "right")
    done = taught.correct(x, "right")
    assert (done.moved_from, done.taught) == (("wrong",), False)
    assert "wrong" not in taught.names()
    assert taught.names()["right"].count == 1
    assert taught.undo().kind == "correct"
    assert taught.names()["wrong"].count == 1
    assert "right" not in taught.names()
    assert taught.correct(-x, "right").taught
    assert taught.correct(-x, "right") == taught.correct(-x, "right")
    assert taught.correct(x, "right", also=True).moved_from == ()
    assert {"right", "wrong"} <= set(taught.names())
    taught.correct(x, "right")
    assert taught.names()["right"].count == 2
    assert "wrong" not in taught.names()


def test_a_file_name_that_is_not_utf8_is_taught_and_forgotten(tmp_path):
    source = "/photos/\udcff.png"
    with Memory(tmp_path) as memory:
        memory.teach([1.0, 2.0], "cup", source=source)
        assert memory.teachings()[0].source == "/photos/\\udcff.png"
        assert memory.forget(source=source).count == 1


def test_an_embedder_that_gives_nan_is_refused_by_name(tmp_path):
    from attacks.hostile_images import photograph
    from everlearn.errors import NotFinite
    from everlearn.images.embedders import Pixels

    class Broken(Pixels):
        name = "broken"

        def run(self, batch):
            return batch * np.nan

    broken = Broken(size=4)
    broken.name = "broken"
    with Memory(tmp_path, embedder=broken) as memory:
        with pytest.raises(NotFinite, match="'broken'"):
            memory.teach(np.asarray(photograph(30)), "cup")
        assert not memory.names()
    assert Path(tmp_path, "journal.sqlite").exists()


def memory_of(path, count, classifier=None):
    rng = np.random.default_rng(5)
    memory = Memory(path, classifier=classifier)
    for number, vector in enumerate(rng.normal(size=(count, 12))):
        memory.teach(vector, f"name {number % 3}", source="/shelf/picture")
    return memory


@pytest.mark.parametrize("count", [WINDOW - 1, WINDOW, WINDOW + 44])
@pytest.mark.parametrize("classifier", [None, StreamingLDA(), NearestClassMean()])
def test_forgetting_everything_leaves_a_memory_that_opens_and_learns(tmp_path, count, classifier):
    with memory_of(tmp_path / "m", count, classifier) as memory:
        memory.forget(source="/shelf")
    for _ in range(2):
        with Memory(tmp_path / "m") as memory:
            assert memory.names() == {}
            assert memory.ask(np.ones(12)).unknown
            assert memory.verify().ok
    with Memory(tmp_path / "m") as memory:
        memory.undo()
        assert sum(record.count for record in memory.names().values()) == count
    with Memory(tmp_path / "m", read_only=True) as memory:
        assert len(memory.ask(np.ones(12))) == 3
        assert memory.verify().ok


def test_undoing_everything_leaves_a_memory_that_opens_and_learns(tmp_path):
    rng = np.random.default_rng(6)
    with Memory(tmp_path / "m") as memory:
        memory.teach_many((vector, "cup") for vector in rng.normal(size=(WINDOW + 10, 12)))
        memory.undo()
    with Memory(tmp_path / "m") as memory:
        assert memory.verify().ok
        memory.teach(np.ones(12), "pen")
        assert memory.ask(np.ones(12))[0].name == "pen"
