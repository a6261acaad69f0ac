"""Commands that configure a Memory: network, strictness, classifier."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from everlearn import Memory
from everlearn.cli.app import app
from everlearn.images.embedders import Pixels


def run(folder, *words):
    done = CliRunner().invoke(app, ["-m", str(folder), *words])
    return done.exit_code, done.stdout


def test_init_sets_network_and_strictness(tmp_path, rng):
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


def test_strictness_is_shown_and_changed(tmp_path):
    folder = tmp_path / "memory"
    assert run(folder, "init", "--network", "pixels-4")[0] == 0
    assert json.loads(run(folder, "strictness", "--json")[1]) == {"accept": 0.95}
    assert json.loads(run(folder, "strictness", "0.99", "--json")[1]) == {"accept": 0.99}
    assert "99.0%" in run(folder, "strictness")[1]
    assert run(folder, "strictness", "1.0")[0] == 2


@pytest.fixture
def taught(tmp_path, rng):
    """A folder of two names, and one of their pictures."""
    for name in ("cup", "pen"):
        (tmp_path / "pictures" / name).mkdir(parents=True)
        base = rng.integers(0, 256, (16, 16, 3))
        for number in range(4):
            pixels = np.clip(base + rng.integers(-9, 9, base.shape), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "pictures" / name / f"{number}.png")
    folder = tmp_path / "memory"
    assert run(folder, "init", "--network", "pixels-4")[0] == 0
    assert run(folder, "teach", str(tmp_path / "pictures"))[0] == 0
    return folder, tmp_path / "pictures" / "cup" / "1.png"


def test_a_recommendation_says_what_it_costs(tmp_path):
    """The names differ along an axis of little spread, which class means do not weigh."""
    rng = np.random.default_rng(0)
    with Memory(tmp_path / "memory", classifier="mean") as memory:
        for name, side in (("left", -0.3), ("right", 0.3)):
            noise = rng.normal(size=(60, 6)) * (0.05, 2, 2, 2, 2, 2)
            memory.teach_many(([x[0] + side, *x[1:]], name) for x in noise)
    code, said = run(tmp_path / "memory", "compare-classifiers", "lda", "auto", "mean")
    assert code == 0
    head, *rows = (line.split("\t") for line in said.splitlines() if "\t" in line)
    costs = {row[0]: dict(zip(head, row, strict=True)) for row in rows}
    assert costs["mean"][""] == "in use"
    advice = said.splitlines()[len(rows) + 1 :]
    word = next(row[0] for row in rows if row[0] in ("lda", "auto"))
    assert advice[0].startswith(f"{word} is better; everlearn use {word} switches to it. ")
    assert f"each everlearn ask then takes {costs[word]['each everlearn ask']}, and" in advice[0]
    assert advice[1] == "why, check and compare-networks do not work with it, only with ridge"


def test_why_prints_probabilities(taught):
    folder, picture = taught
    code, said = run(folder, "why", str(picture))
    assert code == 0
    head, first, *_ = (line.split("\t") for line in said.splitlines())
    assert head == ["teaching", "name", "cup without it", "source"]
    assert re.fullmatch(r"\d+\.\d%", first[2])
    assert re.search(r"^cup: \d+\.\d%$", said, re.MULTILINE)
    assert re.search(r"^without the first picture: (cup|pen)$", said, re.MULTILINE)
    assert re.search(r"^without the first 2 pictures: (cup|pen)$", said, re.MULTILINE)
    assert "score" not in said
    assert "first 1" not in said


def test_check_names_the_files_of_blurred_and_dark_pictures(tmp_path, rng):
    sharp = rng.integers(0, 256, (64, 64, 3), dtype=np.uint8)
    blurred = Image.fromarray(sharp[:3, :3]).resize((64, 64), Image.Resampling.BICUBIC)
    dark = Image.fromarray(sharp // 32)
    with Memory(tmp_path / "memory", embedder=Pixels(size=8)) as memory:
        for name, picture in (("sharp", Image.fromarray(sharp)), ("fog", blurred), ("dusk", dark)):
            picture.save(tmp_path / f"{name}.png")
            memory.teach(tmp_path / f"{name}.png", "thing")
        ids = {Path(one.source).stem: one.id for one in memory.teachings()}
    code, said = run(tmp_path / "memory", "check")
    assert code == 0
    lines = said.splitlines()
    for what, name in (("blurred", "fog"), ("dark", "dusk")):
        at = lines.index(f"1 picture may be too {what} to learn from:")
        assert lines[at + 1] == f"  {ids[name]}  {tmp_path / name}.png"


def test_advice_after_a_command_is_a_command(taught):
    folder, picture = taught
    assert run(folder, "use", "lda")[0] == 0
    for words in (["why", str(picture)], ["check"]):
        done = CliRunner().invoke(app, ["-m", str(folder), *words])
        assert done.exit_code == 1
        assert "everlearn use ridge" in done.stderr
    assert run(folder, "use", "ridge")[0] == 0
    assert run(folder, "why", str(picture))[0] == 0
    words = ["-m", str(folder), "teach", "--regions", "main", str(picture), "--as", "cup"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 1
    assert "everlearn reembed --regions main" in done.stderr


def test_advice_names_the_options_of_the_command(taught, tmp_path):
    """Each of these was in Python alone."""
    folder, picture = taught
    bad = tmp_path / "bad" / "cup"
    bad.mkdir(parents=True)
    (bad / "1.png").write_bytes(b"no image")

    def said(*words):
        done = CliRunner().invoke(app, ["-m", str(folder), *map(str, words)])
        assert done.exit_code > 0, done.output
        return done.output

    assert "--skip-bad" in said("ingest", bad.parent)
    for words in ((), ("cup", "--name", "cup"), ("--id", "1", "--source", picture)):
        told = said("forget", *words)
        assert "--id, or --name and --source" in told
        assert not re.search(r"\w=", told)
    assert run(folder, "use", "mean")[0] == 0
    assert "everlearn use ridge" in said("find", picture)
    assert "--yes" in said_after_loss(folder, picture)
    assert run(folder, "reembed", "--regions", "main")[0] == 0
    assert "everlearn reembed --regions whole" in said("ingest", bad.parent)


def said_after_loss(folder, picture):
    """What ``reembed`` says if a picture is gone, which is then put back."""
    data = picture.read_bytes()
    picture.unlink()
    done = CliRunner().invoke(app, ["-m", str(folder), "reembed", "pixels-5"])
    picture.write_bytes(data)
    assert done.exit_code == 1
    return done.stderr
