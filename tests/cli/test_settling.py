"""How a Memory looks and how strict it is, from the command line."""

import json

import numpy as np
from click.testing import CliRunner
from PIL import Image

from everlearn.cli.app import app


def run(folder, *words):
    done = CliRunner().invoke(app, ["-m", str(folder), *words])
    return done.exit_code, done.stdout


def test_init_settles_network_and_strictness(tmp_path, rng):
    folder = tmp_path / "memory"
    code, said = run(folder, "init", "--network", "pixels-4+pixels-2", "--accept", "0.9", "--json")
    assert code == 0
    made = json.loads(said)
    assert made["embedder"] == 'side by side [["pixels 4 grey", 16], ["pixels 2 grey", 4]]'
    assert made["accept"] == 0.9
    (tmp_path / "cup").mkdir()
    pixels = rng.integers(0, 256, (16, 16, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "cup" / "1.png")
    assert run(folder, "teach", str(tmp_path / "cup" / "1.png"), "--as", "cup")[0] == 0
    code, said = run(folder, "info", "--json")
    assert json.loads(said)["embedder"] == made["embedder"]
    assert run(folder, "init", "--network", "pixels-3")[0] == 1


def test_strictness_is_said_and_changed(tmp_path):
    folder = tmp_path / "memory"
    assert run(folder, "init", "--network", "pixels-4")[0] == 0
    assert json.loads(run(folder, "strictness", "--json")[1]) == {"accept": 0.95}
    assert json.loads(run(folder, "strictness", "0.99", "--json")[1]) == {"accept": 0.99}
    assert "99.0%" in run(folder, "strictness")[1]
    assert run(folder, "strictness", "1.0")[0] == 2
