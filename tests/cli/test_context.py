"""A name typed by hand that looks like a misspelling is asked about, not taught."""

import sys

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from everlearn import Memory
from everlearn.cli.app import app
from everlearn.images.embedders import EfficientNetLite0, Pixels


@pytest.fixture
def pictures(tmp_path):
    rng = np.random.default_rng(0)
    files = []
    for number in range(3):
        files.append(tmp_path / f"{number}.png")
        Image.fromarray(rng.integers(0, 255, (9, 9, 3), dtype=np.uint8)).save(files[-1])
    with Memory(tmp_path / "memory", embedder=Pixels(size=4)) as memory:
        memory.teach(files[0], "Purple Finch")
        memory.teach(files[2], "Wren")
    return files


@pytest.mark.parametrize(
    "command",
    [("teach", "{}", "--as", "{name}"), ("correct", "{}", "{name}"), ("rename", "Wren", "{name}")],
)
def test_a_probable_misspelling_is_refused_without_new(pictures, tmp_path, command):
    def run(name, *more):
        words = [word.format(pictures[1], name=name) for word in command]
        base = ["-m", str(tmp_path / "memory"), "--network", "pixels-4"]
        return CliRunner().invoke(app, [*base, *words, *more])

    def counts():
        with Memory(tmp_path / "memory", read_only=True) as memory:
            found = {name: record.count for name, record in memory.names().items()}
        return {name: count for name, count in found.items() if name != "Wren"}

    refused = run("Purpel Finch")
    assert refused.exit_code == 2
    assert "did you mean 'Purple Finch'" in refused.output
    assert counts() == {"Purple Finch": 1}
    assert run("Purpel Finch", "--new").exit_code == 0
    assert counts() == {"Purple Finch": 1, "Purpel Finch": 1}


def test_a_misspelling_is_renamed_to_what_was_meant(pictures, tmp_path):
    with Memory(tmp_path / "memory", embedder=Pixels(size=4)) as memory:
        memory.teach(pictures[1], "Purpel Finhc")
    base = ["-m", str(tmp_path / "memory"), "rename"]
    result = CliRunner().invoke(app, [*base, "purpel finhc", "purple finch"])
    assert result.stdout == (
        "purpel finhc is now called Purple Finch and merged with its 1 teaching; "
        "everlearn undo takes it back\n"
    )
    result = CliRunner().invoke(app, [*base, "wren", "Wrens"])
    assert result.exit_code == 0, "it resembles only the name it replaces"
    assert result.stdout == "wren is now called Wrens\n"


@pytest.mark.skipif(sys.platform != "linux", reason="addresses are limited on Linux")
class TestLittleMemory:
    """BLAS may ask for memory forever: what is sure to fail is refused before it begins."""

    @pytest.fixture(autouse=True)
    def limit(self, monkeypatch):
        import resource

        monkeypatch.setattr(resource, "getrlimit", lambda _: (650_000 * 1024,) * 2)

    @pytest.mark.parametrize("command", ["teach", "undo", "serve"])
    def test_a_network_is_refused(self, tmp_path, command):
        words = [command, str(tmp_path)] if command == "teach" else [command]
        Image.new("RGB", (9, 9)).save(tmp_path / "a.png")
        done = CliRunner().invoke(app, ["-m", str(tmp_path / "memory"), *words])
        assert done.exit_code == 1
        *_, line = done.stderr.splitlines()
        assert "650,000 KB of address space (ulimit -v)" in line
        assert not (tmp_path / "memory").exists()

    def test_pixels_and_vectors_are_not(self, pictures, tmp_path):
        base = ["-m", str(tmp_path / "memory")]
        taught = CliRunner().invoke(app, [*base, "teach", str(pictures[1]), "--as", "Wren"])
        assert (taught.exit_code, taught.stderr) == (0, "")
        with Memory(tmp_path / "vectors") as memory:
            memory.teach([1.0, 0.0], "a")
        assert CliRunner().invoke(app, ["-m", str(tmp_path / "vectors"), "undo"]).exit_code == 0

    def test_the_journal_can_be_read(self, tmp_path):
        with Memory(tmp_path / "memory", embedder=EfficientNetLite0()) as memory:
            memory.teach(np.zeros((9, 9, 3), np.uint8), "a")
        for words in (["names"], ["info"], ["history"], ["show"], ["backup", str(tmp_path / "b")]):
            done = CliRunner().invoke(app, ["-m", str(tmp_path / "memory"), *words])
            assert done.exit_code == 0, done.output
