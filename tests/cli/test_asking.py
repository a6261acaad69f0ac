"""``everlearn ask``: folders, tables, files sorted by their answers."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from everlearn import Memory
from everlearn.cli.app import app
from everlearn.cli.asking import _alternatives, _verdict
from everlearn.images.embedders import Pixels
from everlearn.images.video import frames
from everlearn.memory.answers import Answer, Answers


@pytest.fixture
def folder(tmp_path):
    """A Memory that tells dark from light, and a folder of three pictures and a broken one."""
    rng = np.random.default_rng(0)

    def picture(name, low, high):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(low, high, (16, 16, 3), dtype=np.uint8)).save(path)
        return path

    with Memory(tmp_path / "memory", embedder=Pixels(size=4)) as memory:
        for number in range(4):
            memory.teach(picture(f"taught/dark/{number}.png", 0, 60), "dark")
            memory.teach(picture(f"taught/light/{number}.png", 190, 255), "light")
    picture("asked/a.png", 0, 60)
    picture("asked/deeper/b.png", 190, 255)
    (tmp_path / "asked" / "notes.txt").write_text("no picture")
    return tmp_path


def run(folder, *words, expect=0):
    result = CliRunner().invoke(
        app, ["--network", "pixels-4", *map(str, words), "-m", str(folder / "memory")]
    )
    assert result.exit_code == expect, result.output
    return result


def test_a_folder_stands_for_its_pictures_and_memory_may_be_the_last_option(folder):
    answers = json.loads(run(folder, "ask", folder / "asked", "--json").stdout)
    assert [one["file"].rpartition("/")[2] for one in answers] == ["a.png", "b.png"]


def test_answers_are_written_as_a_table(folder):
    run(folder, "ask", folder / "asked", "--csv", folder / "out.csv")
    with open(folder / "out.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    shown = json.loads(run(folder, "ask", folder / "asked", "--json").stdout)
    for row, answer in zip(rows, shown, strict=True):
        said = "unknown" if answer["unknown"] else answer["answers"][0]["name"]
        assert (row["file"], row["answer"]) == (answer["file"], said)


def test_files_are_copied_by_their_answers_and_never_overwritten(folder):
    shown = json.loads(run(folder, "ask", folder / "asked", "--json").stdout)
    for _ in range(2):
        run(folder, "ask", folder / "asked", "--sort-into", folder / "sorted")
    for answer in shown:
        said = "unknown" if answer["unknown"] else answer["answers"][0]["name"]
        stem = answer["file"].rpartition("/")[2].removesuffix(".png")
        copies = [folder / "sorted" / said / f"{stem}{more}.png" for more in ("", " 2")]
        with open(answer["file"], "rb") as file:
            data = file.read()
        assert [copy.read_bytes() for copy in copies] == [data, data]


def test_unknown_is_printed_without_a_probability():
    """The probability would be conditional on being known."""
    names = [Answer("cup", 0.9), Answer("pen", 0.1)]
    unknown = Answers(names, unknown=True, familiarity=0.1, threshold=0.5)
    assert (_verdict(unknown), _alternatives(unknown)) == ("unknown", "most like cup, pen")
    known = Answers(names, unknown=False, familiarity=0.9, threshold=0.5)
    assert (_verdict(known), _alternatives(known)) == ("cup 90%", "pen 10%")


def test_a_picture_just_above_the_threshold_is_called_probably():
    only_just = Answers([Answer("cup", 0.9)], unknown=False, familiarity=0.5, threshold=0.5)
    only_just.probably = True
    assert _verdict(only_just) == "probably cup 90%"
    only_just.probably = False
    assert _verdict(only_just) == "cup 90%"


def test_a_folder_without_pictures_is_reported(folder):
    (folder / "empty").mkdir()
    assert "holds no images" in run(folder, "ask", folder / "empty", expect=1).output


def test_a_video_is_asked_frame_by_frame(folder):
    av = pytest.importorskip("av")
    clip = folder / "asked" / "clip.mp4"
    with av.open(str(clip), "w") as container:
        stream = container.add_stream("mpeg4", rate=10)
        stream.width = stream.height = 64
        stream.pix_fmt = "yuv420p"
        for index in range(40):
            ramp = np.linspace(0, 60, 64, dtype=np.uint8)[:, None, None] + (
                0 if index < 20 else 190
            )
            pixels = np.broadcast_to(ramp if index < 20 else ramp[::-1], (64, 64, 3)).copy()
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode())
    answers = json.loads(run(folder, "ask", clip, "--json").stdout)
    moments = ["0.000s", "1.000s", "2.000s", "3.000s"]
    assert [one["file"] for one in answers] == [f"{clip}/{moment}" for moment in moments]
    for index, frame in enumerate(frames(clip, 1.0)):
        Image.fromarray(frame.opened()).save(folder / f"frame {index}.png")
        alone = json.loads(run(folder, "ask", folder / f"frame {index}.png", "--json").stdout)[0]
        assert answers[index] | {"file": ""} == alone | {"file": ""}
    assert answers[0]["answers"] != answers[3]["answers"]
    coarse = json.loads(run(folder, "ask", clip, "--every", "2", "--json").stdout)
    assert [one["file"] for one in coarse] == [f"{clip}/0.000s", f"{clip}/2.000s"]
    run(folder, "ask", clip, "--csv", folder / "out.csv")
    with open(folder / "out.csv", newline="") as file:
        assert len(list(csv.DictReader(file))) == 4
    # Among the images of a folder only if it is said.
    assert len(json.loads(run(folder, "ask", folder / "asked", "--json").stdout)) == 2
    both = run(folder, "ask", folder / "asked", "--every", "2", "--json").stdout
    assert len(json.loads(both)) == 4
    assert "cannot be sorted" in run(folder, "ask", clip, "--sort-into", folder, expect=2).output


@pytest.mark.parametrize("sign", ["=", "+", "-", "@", "\t"])
def test_no_cell_of_a_table_is_a_formula(folder, monkeypatch, sign):
    """A spreadsheet would compute names and paths that begin like one."""
    names = [f"{sign} night".strip(), f"{sign} day".strip()]
    with Memory(folder / "memory", embedder=Pixels(size=4)) as memory:
        memory.rename("dark", names[0])
        memory.rename("light", names[1])
    monkeypatch.chdir(folder / "asked")
    (folder / "asked" / "a.png").rename(f"{sign}a.png")
    base = ["-m", str(folder / "memory"), "--network", "pixels-4"]
    done = CliRunner().invoke(app, [*base, "ask", "--csv", "out.csv", "--", f"{sign}a.png"])
    assert done.exit_code == 0, done.output
    with open("out.csv", newline="") as file:
        rows = list(csv.reader(file))
    assert [cell for row in rows for cell in row if cell.startswith(tuple("=+-@\t\r"))] == []
    assert Path(rows[1][0]).samefile(f"{sign}a.png")
    assert {cell.removeprefix("'") for cell in rows[1]} & set(names)
