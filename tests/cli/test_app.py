"""The command line: every command, its words, its JSON and its exit code."""

import contextlib
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from importlib.metadata import EntryPoints
from pathlib import Path

import click
import numpy as np
import onnxruntime
import pytest
from click.testing import CliRunner
from PIL import Image

from attacks.hostile_images import photograph, saved
from everlearn import Memory
from everlearn.cli.app import app
from everlearn.errors import CannotWrite
from everlearn.images.decode import decode
from everlearn.images.embedders import WEIGHTS, Pixels
from everlearn.images.folders import labelled_files
from everlearn.memory.storage.sqlite.database import SQLiteDatabase
from everlearn.memory.words import counted

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Three things seen four times each."""
    place = tmp_path_factory.mktemp("photos")
    for name, base, colour in (("leaf", 0, 1), ("brick", 120, 0), ("sky", 240, 2)):
        for index in range(4):
            pixels = np.asarray(photograph(80).rotate(base + 3 * index)).copy()
            pixels[..., colour] = 255 - pixels[..., colour] // 3
            path = place / name / f"{index}.png"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(saved(Image.fromarray(pixels), "PNG"))
    return place


@pytest.fixture(scope="module")
def learner_of_photos(photos, tmp_path_factory):
    """A Memory that was taught all of them, to be copied."""
    place = tmp_path_factory.mktemp("taught") / "memory"
    with Memory(place) as memory:
        memory.teach_many(labelled_files([photos]))
    return place


@pytest.fixture
def taught(learner_of_photos, tmp_path):
    """The Memory of this test was taught the photos."""
    shutil.copytree(learner_of_photos, tmp_path / "memory")


@pytest.fixture
def run(tmp_path):
    """Run a command on a Memory of this test; gives the result."""

    def command(*words, expect=0):
        arguments = ["--memory", str(tmp_path / "memory"), *map(str, words)]
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == expect, result.output + repr(result.exception)
        return result

    return command


def as_json(result):
    return json.loads(result.stdout)


def test_teach_and_ask(run, photos):
    assert "taught 12 images of 3 names" in run("teach", photos).stdout
    assert "0 images of 3 names, 12 known already" in run("teach", photos).stdout
    lines = run("ask", photos / "leaf" / "0.png", photos / "sky" / "1.png").stdout.splitlines()
    assert [line.split("\t")[1].split()[0] for line in lines] == ["answer", "leaf", "sky"]
    answers = as_json(run("ask", "--json", "--top", "2", photos / "brick" / "3.png"))
    assert answers[0]["answers"][0]["name"] == "brick"
    assert len(answers[0]["answers"]) == 2
    assert answers[0]["unknown"] is False


@pytest.mark.parametrize(
    "words", [("--as", "cup"), ("--box", "auto"), ("--every", "2"), ("--outermost",)]
)
def test_options_that_annotations_replace_are_refused(run, tmp_path, words):
    refused = run("teach", "--boxes", tmp_path / "boxes.json", *words, expect=2)
    assert "--boxes takes names and boxes from the annotations" in refused.stderr


def test_boxes_are_taught_to_a_memory_in_a_database(address, photos, tmp_path):
    photo = photos / "leaf" / "0.png"
    with Image.open(photo) as picture:
        width, height = picture.size
    coco = {
        "images": [{"id": 1, "file_name": str(photo), "width": width, "height": height}],
        "categories": [{"id": 1, "name": "leaf"}],
        "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [0, 0, 40, 40]}],
    }
    (tmp_path / "boxes.json").write_text(json.dumps(coco))
    words = ["-m", address, "--network", "pixels-4", "teach", "--regions", "whole"]
    result = CliRunner().invoke(app, [*words, "--boxes", str(tmp_path / "boxes.json")])
    assert result.exit_code == 0, result.output + repr(result.exception)
    assert result.stdout == "taught 1 box of 1 name in 1 image\n"


def test_teach_as_a_name(run, photos):
    taught = as_json(run("teach", "--json", "--as", "plant", photos / "leaf"))
    assert taught == {"taught": 4, "repeated": 0, "unreadable": [], "left_out": []}
    again = as_json(run("teach", "--json", "--again", "--as", "plant", photos / "leaf" / "0.png"))
    assert again["taught"] == 1
    assert as_json(run("names", "--json"))["plant"]["count"] == 5
    assert "plant\t5\t20" in run("names").stdout


@pytest.mark.parametrize("command", ["reproduce", "data"])
def test_commands_of_the_papers_name_their_package(run, monkeypatch, command):
    monkeypatch.setattr("everlearn.cli.app.entry_points", lambda **_: EntryPoints())
    assert "pip install everlearn-papers" in run(command, "all", expect=1).stderr


def test_names_from_nested_folders_are_shown_before_teaching(run, photos, tmp_path):
    nest = tmp_path / "nest" / "2024" / "05"
    shutil.copytree(photos / "leaf", nest / "Cardinal")
    shutil.copytree(photos / "sky", nest / ".trash")
    planned = run("teach", "--plan", tmp_path / "nest")
    assert "Cardinal: 4 images from 2024/05/Cardinal 4" in planned.stderr
    assert planned.stdout.splitlines()[1:] == ["Cardinal\t4"]
    assert not (tmp_path / "memory").exists()
    taught = run("teach", tmp_path / "nest")
    assert taught.stderr.startswith(planned.stderr)
    assert list(as_json(run("names", "--json"))) == ["Cardinal"]
    outermost = as_json(run("teach", "--json", "--plan", "--outermost", tmp_path / "nest"))
    assert outermost["names"] == {"2024": 4}


def test_names_of_folders_are_spelled_as_known_and_misspellings_shown(run, photos, tmp_path):
    run("teach", "--as", "Leaf", photos / "leaf" / "0.png")
    for name, thing in (
        (" leaf", "leaf"),
        ("Brick", "brick"),
        ("leafs", "sky"),
        ("unknown", "sky"),
    ):
        shutil.copytree(photos / thing, tmp_path / "mixed" / name)
    (tmp_path / "mixed" / "brick ").mkdir()
    shutil.move(tmp_path / "mixed" / "Brick" / "3.png", tmp_path / "mixed" / "brick ")
    planned = run("teach", "--plan", tmp_path / "mixed")
    assert set(planned.stdout.splitlines()[1:]) == {"Leaf\t4", "Brick\t4", "leafs\t4"}
    assert "' leaf' is taught as 'Leaf'" in planned.stderr
    assert "'brick ' is taught as 'Brick'" in planned.stderr
    assert "'leafs' is new; did you mean 'Leaf'?" in planned.stderr
    assert "left out: 4 in a folder called unknown" in planned.stderr
    assert "did you mean" not in run("teach", "--plan", "--new", tmp_path / "mixed").stderr
    plan = as_json(run("teach", "--plan", "--json", tmp_path / "mixed"))
    assert plan["taught_as"] == {" leaf": "Leaf", "brick ": "Brick"}
    assert plan["did_you_mean"] == {"leafs": "Leaf"}
    taught = run("teach", tmp_path / "mixed")
    assert taught.stderr.startswith(planned.stderr)
    counts = {name: one["count"] for name, one in as_json(run("names", "--json")).items()}
    assert counts == {"Leaf": 4, "Brick": 4, "leafs": 4}
    # Folders are compared with names in any spelling, and a reserved one holds unknown things.
    report = as_json(run("evaluate", "--json", tmp_path / "mixed"))
    assert (report["images"], report["unknown_images"]) == (12, 4)


def test_unreadable_images_are_listed_with_exit_code_one(run, photos, tmp_path):
    bad = tmp_path / "bad.jpg"
    bad.write_bytes(b"no image")
    result = run("teach", "--as", "leaf", bad, photos / "leaf", expect=1)
    assert "taught 4 images" in result.stdout
    use = "use a JPEG, PNG, WebP, GIF, BMP, AVIF or HEIC file"
    assert f"bad.jpg is in no known image format; {use}\n" in result.stderr
    result = run("ask", bad, photos / "leaf" / "0.png", expect=1)
    assert "error: " in result.stdout
    assert "leaf" in result.stdout
    described = as_json(run("ask", "--json", bad, expect=1))
    assert f"bad.jpg is in no known image format; {use}" in described[0]["error"]


@pytest.mark.usefixtures("taught")
def test_forget_undo_rename(run, photos):
    assert "forgot 4" in run("forget", "sky").stdout
    assert list(as_json(run("names", "--json"))) == ["brick", "leaf"]
    assert as_json(run("undo", "--json"))["undone"]["kind"] == "forget"
    assert "is now called" in run("rename", "sky", "heaven").stdout
    assert as_json(run("rename", "--json", "leaf", "plant")) == {"old": "leaf", "new": "plant"}
    assert list(as_json(run("names", "--json"))) == ["brick", "heaven", "plant"]
    assert as_json(run("forget", "-y", "--json", "--source", photos / "brick"))["forgotten"] == 4
    assert as_json(run("forget", "-y", "--json", "--erase", "--name", "plant"))["forgotten"] == 4
    assert "an erase, which cannot be undone" in run("undo", expect=1).stderr
    assert list(as_json(run("names", "--json"))) == ["heaven"]


def test_merge(run, photos, tmp_path):
    with Memory(tmp_path / "other") as other:
        other.teach_many((path, "leaf") for path in (photos / "leaf").iterdir())
    run("teach", "--as", "leaf", photos / "leaf" / "0.png")
    assert as_json(run("merge", "--json", tmp_path / "other"))["taught"] == 3
    assert "learned 0" in run("merge", tmp_path / "other").stdout


def test_evaluate(run, photos, tmp_path):
    run("teach", photos / "leaf", "--as", "leaf")
    run("teach", photos / "sky", "--as", "sky")
    plot = tmp_path / "confusion.png"
    report = as_json(run("evaluate", "--json", "--plot", plot, photos))
    assert report["accuracy"] == 1.0
    assert report["images"] == 8
    assert report["unknown_images"] == 4
    assert report["per_name"] == {n: {"right": 4, "images": 4} for n in ("leaf", "sky")}
    assert decode(plot).shape[2] == 3
    assert len(report["taught_before"]) == 8
    lost = tmp_path / "missing" / "confusion.png"
    result = run("evaluate", "--plot", lost, photos, expect=1)
    assert "100.0% of 8 images right" in result.stdout
    assert "of 4 images of unknown names called unknown" in result.stdout
    assert "careful: 8 of these images were taught" in result.stderr
    assert "cannot be written" in result.stderr
    report = as_json(run("evaluate", "--json", "--plot", lost, photos, expect=1))
    assert report["images"] == 8
    assert "cannot be written" in report["plot_error"]


@pytest.mark.usefixtures("taught")
def test_export(run, tmp_path):
    file = tmp_path / "head.onnx"
    assert "3 names" in run("export", file).stdout
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    assert session.get_inputs()[0].shape[1] == 1280
    assert as_json(run("export", "--json", file))["names"] == ["brick", "leaf", "sky"]


@pytest.mark.usefixtures("taught")
def test_info(run):
    facts = as_json(run("info", "--json"))
    assert facts["teachings"] == 12
    assert facts["features"] == 1280
    assert "RecursiveRLSC" in facts["classifier"]
    assert "teachings\t12" in run("info").stdout


@pytest.mark.usefixtures("taught")
def test_classifiers_are_compared_and_switched(run, photos):
    found = as_json(run("compare-classifiers", "--json"))
    assert {standing["classifier"] for standing in found} == {"ridge", "lda", "mean", "auto"}
    assert all(standing["asked"] == 12 for standing in found)
    for words in (("ridge",), ("lda", "mean")):
        told = run("compare-classifiers", *words).stdout
        assert "none is significantly better than ridge" in told, "all are right"
        assert "switches" not in told
    assert "all 12 teachings" in run("use", "lda").stdout
    assert "StreamingLDA" in as_json(run("info", "--json"))["classifier"]
    assert "leaf" in run("ask", photos / "leaf" / "0.png").stdout
    run("use", "svm", expect=2)


@pytest.mark.usefixtures("taught")
def test_after_a_change_of_network_images_are_taught_and_asked_as_before(run, photos, tmp_path):
    """Included networks are found by name; a file is given with --network."""
    run("reembed", "pixels", "--size", "8")
    assert "0 images of 3 names, 12 known already" in run("teach", photos).stdout
    assert "leaf" in run("ask", photos / "leaf" / "0.png").stdout
    shutil.copy(WEIGHTS / "efficientnet_lite0.onnx", tmp_path / "mine.onnx")
    done = run("reembed", tmp_path / "mine.onnx", "--mean", "120", "--scale", "64")
    assert "--network" in done.stdout
    assert "--network" in run("ask", photos / "leaf" / "0.png", expect=1).stderr
    with_file = ("--network", tmp_path / "mine.onnx")
    assert "leaf" in run(*with_file, "ask", photos / "leaf" / "0.png").stdout
    assert "12 known already" in run(*with_file, "teach", photos).stdout


def test_watch(run, photos):
    words = run("watch", photos, "--pause", "0.01", "--looks", "3").stdout.splitlines()
    assert len(words) == 12
    assert words[0].startswith("brick: ")
    assert "--pause SECONDS" in run("watch", photos, "--every", "0.01", expect=2).output
    documents = run("watch", photos, "--json", "--pause", "0.01", "--looks", "2").stdout
    first, _ = json.JSONDecoder().raw_decode(documents)
    assert first["taught"] is False
    assert first["name"] == "brick"


@pytest.mark.parametrize(
    ("value", "shown"),
    [(15_430.0, "15,430"), (1.2e7, "12,000,000"), (3.14159, "3.142"), (0.5, "0.5")],
)
def test_bench_prints_plain_figures(run, monkeypatch, value, shown):
    monkeypatch.setattr("everlearn.cli.showing.measure", lambda *_, **__: {"speed": value})
    assert run("bench").stdout == f"what\tmeasured\nspeed\t{shown}\n"


def test_bench_measures(run):
    measured = as_json(run("bench", "--json", "--images", "12"))
    assert all(value > 0 for value in measured.values())
    assert measured.keys() >= {"teach, images per second", "ask from a vector, ms"}


def test_demo_ends_with_what_to_type_next():
    result = CliRunner().invoke(app, ["demo"])
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert any("everlearn teach photos/" in line for line in lines[-4:])
    assert any("everlearn serve" in line for line in lines[-2:])
    assert any("temple, never taught: unknown" in line for line in lines)
    assert any("a fourth: flower" in line for line in lines)
    assert any("flower forgotten: unknown" in line for line in lines)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("ask", "x.jpg"), "teach one first"),
        (("names",), "teach one first"),
        (("undo",), "nothing has been taught"),
        (("forget", "nothing"), "is not a name, source or image"),
        (("rename", "a", "b"), "was never taught"),
        (("teach", "/does/not/exist"), "does not exist"),
    ],
)
def test_failures_print_one_line_with_exit_code_one(run, words, message):
    result = run(*words, expect=1)
    assert message in result.stderr
    assert result.stderr.startswith("everlearn: ")
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("words", [(), ("teach",), ("ask",), ("unheard-of",), ("ask", "--what")])
def test_wrong_usage_has_exit_code_two(words):
    assert CliRunner().invoke(app, words).exit_code == 2


def test_help_fits_one_screen():
    shown = CliRunner().invoke(app, ["--help"]).stdout
    assert len(shown.splitlines()) <= 64
    assert max(map(len, shown.splitlines())) <= 100


def every_command():
    context = click.Context(app, **app.context_settings)
    found = [(name, app.get_command(context, name)) for name in app.list_commands(context)]
    groups = [(name, group.commands) for name, group in found if isinstance(group, click.Group)]
    inner = [(f"{name} {word}", one) for name, all in groups for word, one in all.items()]
    return [(name, one) for name, one in found if not isinstance(one, click.Group)] + inner


@pytest.mark.parametrize(("name", "command"), every_command())
def test_every_command_has_json_output_and_help(name, command):
    options = {word for option in command.params for word in option.opts}
    assert "--json" in options
    assert command.help
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, f"{name} {parameter.opts} has no help"


def test_the_reference_equals_the_help_of_the_commands():
    location = ROOT / "scripts" / "command_line_docs.py"
    spec = importlib.util.spec_from_file_location("command_line_docs", location)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert script.PAGE.read_text() == script.page(), "run python scripts/command_line_docs.py"


def test_every_command_appears_in_a_guide():
    written = set((ROOT / "docs").rglob("*.md")) - {ROOT / "docs" / "command-line.md"}
    pages = "".join(page.read_text("utf-8") for page in written)
    missing = [
        name for name, _ in every_command() if not re.search(rf"everlearn (-m \S+ )?{name}", pages)
    ]
    assert not missing


def test_completion_is_offered():
    done = subprocess.run(
        [sys.executable, "-m", "everlearn"],
        env=os.environ | {"_EVERLEARN_COMPLETE": "bash_source"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "complete" in done.stdout


def test_an_interrupted_teach_says_how_many_are_saved_and_how_to_go_on(run, photos, monkeypatch):
    @contextlib.contextmanager
    def interrupted(*_):
        steps = iter(range(5))

        def step():
            if next(steps) == 4:
                raise KeyboardInterrupt

        yield step

    with monkeypatch.context() as patch:
        patch.setattr("everlearn.cli.teaching.progress", interrupted)
        stopped = run("teach", photos, expect=130)
    assert stopped.stderr == (
        "Stopped. 5 of 12 pictures are saved; run the same command to continue.\n"
    )
    saved = sum(one["count"] for one in as_json(run("names", "--json")).values())
    assert saved >= 5
    told = run("teach", photos).stdout
    assert f"taught {counted(12 - saved, 'image')} of 3 names, {saved} known already" in told


def test_an_interrupt_keeps_finished_teachings(tmp_path, photos):
    """Ctrl-C while watching: exit code 130, and everything reported as taught is stored."""
    process = subprocess.Popen(
        [sys.executable, "-m", "everlearn", "-m", tmp_path, "watch", photos, "--pause", "0.05"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
        # What a shell starts in the background ignores interrupts, and so would its children.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    # Reading ends when the process is killed.
    watchdog = threading.Timer(120, process.kill)
    watchdog.start()
    try:
        shown = process.stdout.readline()
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        shown += process.stdout.read()
        assert process.wait() == 130
    finally:
        watchdog.cancel()
        process.stdout.close()
        process.kill()
        process.wait()
    with Memory(tmp_path, read_only=True) as memory:
        assert sum(record.count for record in memory.names().values()) >= len(shown.splitlines())


EMPTY = [
    ("export", ""), ("ask", "{}", "--csv", ""), ("check", "--html", ""), ("ingest", ""),
    ("ingest", "{}", "--model", ""), ("serve", "--host", ""),
    ("ingest", "{}", "--checkpoint", "file"),
]  # fmt: skip
NOT_TEXT = [
    ("forget", "\udce9", "-y"), ("forget", "--name", "\udce9", "-y"), ("show", "\udce9"),
    ("rename", "\udce9", "b"), ("why", "{}", "--name", "\udce9"), ("serve", "--host", "\udce9"),
]  # fmt: skip


@pytest.mark.parametrize("words", [*EMPTY, *NOT_TEXT], ids=ascii)
def test_empty_words_and_words_that_are_not_text_raise_named_errors(tmp_path, monkeypatch, words):
    """As from an unset variable, and from a terminal with another encoding."""
    monkeypatch.chdir(tmp_path)
    picture = tmp_path / "cup" / "1.png"
    picture.parent.mkdir()
    Image.new("RGB", (9, 9)).save(picture)
    (tmp_path / "file").write_bytes(b"")
    with Memory(tmp_path / "memory", embedder=Pixels(size=4)) as memory:
        memory.teach(picture, "cup")
        memory.teach(np.zeros((9, 9, 3), np.uint8), "dark", again=True)
    done = CliRunner().invoke(app, [word.format(picture) for word in words])
    assert isinstance(done.exception, SystemExit) or done.exception is None, repr(done.exception)
    assert done.exit_code in (1, 2) or words[0] == "show"
    assert done.stderr or words[0] == "show"


class TestReceiptOfAnErase:
    """An erase cannot be repeated for its receipt."""

    def erased(self, tmp_path, receipt):
        with Memory(tmp_path / "memory") as memory:
            memory.teach([1.0, 0.0], "a")
            memory.teach([0.0, 1.0], "b")
        base = ["-m", str(tmp_path / "memory")]
        words = ["forget", "a", "--erase", "-y", "--receipt", str(receipt)]
        return CliRunner().invoke(app, [*base, *words])

    @pytest.mark.parametrize("place", ["", "missing/r.json", "folder"])
    def test_without_a_place_for_it_nothing_is_erased(self, tmp_path, place):
        (tmp_path / "folder").mkdir()
        done = self.erased(tmp_path, tmp_path / place if place else "")
        assert done.exit_code == 1
        assert "cannot be written" in done.stderr
        assert "forgot" not in done.stdout
        with Memory(tmp_path / "memory", read_only=True) as memory:
            assert list(memory.names()) == ["a", "b"]
        assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "memory"]

    def test_if_it_cannot_be_written_it_is_printed(self, tmp_path, monkeypatch):
        def full(*_):
            raise CannotWrite("r.json cannot be written: No space left on device")

        monkeypatch.setattr("everlearn.memory.storage.receipts.replace_file", full)
        done = self.erased(tmp_path, tmp_path / "r.json")
        assert done.exit_code == 1
        assert "The erase is done" in done.stderr
        printed = json.loads(done.stdout.splitlines()[-1])
        assert printed["teachings"] == [1]
        monkeypatch.undo()
        (tmp_path / "r.json").write_text(json.dumps(printed))
        with Memory(tmp_path / "memory", read_only=True) as memory:
            assert list(memory.names()) == ["b"]
            assert memory.verify(tmp_path / "r.json").ok

    def test_a_pending_erase_is_not_called_done(self, tmp_path, monkeypatch):
        """A full disk prevents both the erase's last step and the receipt."""

        def full(*_, **__):
            raise CannotWrite("r.json cannot be written: No space left on device")

        monkeypatch.setattr("everlearn.memory.storage.receipts.replace_file", full)
        monkeypatch.setattr(SQLiteDatabase, "remove_traces", full)
        done = self.erased(tmp_path, tmp_path / "r.json")
        assert done.exit_code == 1
        assert "The erase is pending" in done.stderr
        assert "the disk is full" in done.stderr
        assert "done" not in done.output
        assert json.loads(done.stdout.splitlines()[-1])["pending"]
