"""A name typed by hand that looks like a misspelling is asked about, not taught."""

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from everlearn import Memory
from everlearn.cli.app import app
from everlearn.images.embedders import Pixels


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
    assert result.stdout == "purpel finhc is now called Purple Finch\n"
    result = CliRunner().invoke(app, [*base, "wren", "Wrens"])
    assert result.exit_code == 0, "it resembles only the name it replaces"
