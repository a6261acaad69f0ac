"""The command line with hostile text: escape codes, markup, names that are not valid text."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from attacks.hostile_images import photograph, saved
from everlearn import Memory
from everlearn.cli import output
from everlearn.cli.app import app
from everlearn.images.embedders import Pixels
from everlearn.memory.words import escaped

PICTURE = saved(photograph(40), "PNG")
# Moves the cursor, sets the title of the window, turns text round, ends a line.
HOSTILE = "a\x1b[2J\x1b]0;title\x07\u202eb\n\x9bc"


def run(folder, *words, expect=0):
    result = CliRunner().invoke(app, ["-m", str(folder / "memory"), *map(str, words)])
    assert result.exit_code == expect, result.output + repr(result.exception)
    return result


@given(st.text())
def test_escaped_text_is_printable_and_unambiguous(words):
    shown = escaped(words)
    assert shown.replace("\u200c", "").replace("\u200d", "").isprintable()
    if "\\" not in words:
        assert shown.encode("ascii", "backslashreplace").decode("unicode_escape") == words


def test_invisible_characters_are_shown_and_joined_words_and_emoji_kept():
    assert escaped("a\u3164b\u200bc\u200d") == "a\\u3164b\\u200bc\\u200d"
    for joined in ("می\u200cخواهم", "👩🏽\u200d🚀"):
        assert escaped(joined) == joined


@pytest.mark.parametrize("terminal", [True, False])
def test_tables_do_not_interpret_markup_or_escape_codes(monkeypatch, capsys, terminal):
    if terminal:
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("COLUMNS", "200")
    output.print_table(["name"], [["[/x]"], ["[bold]loud[/bold]"], [":smile:"], [HOSTILE]])
    shown = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)  # rich's own colours
    assert "[/x]" in shown
    assert "[bold]loud[/bold]" in shown
    assert ":smile:" in shown
    assert "\\x1b]0;title\\x07" in shown
    assert not set("\x1b\x07\u202e\x9b") & set(shown)


def test_a_name_that_looks_like_markup_is_printed_verbatim(tmp_path):
    with Memory(tmp_path / "memory") as memory:
        memory.teach([0.0, 1.0], "[/x]")
        memory.teach([1.0, 0.0], "[red]")
    assert "[/x]" in run(tmp_path, "names").stdout
    assert json.loads(run(tmp_path, "names", "--json").stdout)["[/x]"]["count"] == 1


def test_messages_about_files_are_escaped(tmp_path):
    bad = tmp_path / HOSTILE.replace("/", "")
    bad.write_bytes(b"no image")
    result = run(tmp_path, "teach", "--as", "thing", bad, expect=1)
    assert "\\x1b]0;title" in result.stderr
    assert "\x1b" not in result.output
    documents = run(tmp_path, "teach", "--as", "thing", "--json", bad, expect=1).stdout
    assert "\x1b" not in documents
    assert json.loads(documents)["unreadable"][0]["file"].endswith("\x9bc")


@pytest.fixture
def strange(tmp_path):
    """One good class among bad names."""
    place = tmp_path / "photos"
    for folder in (b"good", b"caf\xe9", b"a\x1b[2Jb", b"x" * 250):
        inside = Path(os.fsdecode(os.path.join(os.fsencode(place), folder)))
        inside.mkdir(parents=True)
        (inside / "1.png").write_bytes(PICTURE)
    turned = Path(os.fsdecode(os.fsencode(place) + b"/good/caf\xe9.png"))
    turned.write_bytes(saved(photograph(40).rotate(90), "PNG"))
    return place


def test_progress_may_be_given_as_the_number_of_steps_done(monkeypatch, capsys):
    """A resumed run does not begin at zero, and its total may differ from the expected one."""
    monkeypatch.setattr(output, "PLAIN_SECONDS", 0.0)
    with output.progress("embedding", 12) as step:
        step(8, 20)
        step(20, 20)
    with output.progress("teaching", 12) as step:
        step()
        step()
    shown = [
        line.partition("/s")[0].rpartition(",")[0] for line in capsys.readouterr().err.splitlines()
    ]
    assert shown == [
        "embedding: 8 of 20", "embedding: 20 of 20", "teaching: 1 of 12", "teaching: 2 of 12"
    ]  # fmt: skip


def test_one_bad_name_never_stops_the_others(tmp_path, strange):
    result = run(tmp_path, "teach", strange)
    assert "taught 2 images of 1 name" in result.stdout
    whys = ("a byte that is not text", "a character that cannot be printed", "250 characters")
    for why in whys:
        left_out = f"left out: 1 in a folder whose name is not a valid name: it has {why}"
        assert left_out in result.stderr
    assert "\x1b" not in result.output
    run(tmp_path, "ask", *sorted((strange / "good").iterdir()))
    watched = run(tmp_path, "watch", strange, "--pause", "0.01", "--looks", "3")
    assert all(why in watched.stderr for why in whys)


@pytest.mark.parametrize(
    "words",
    [
        ("ask", "--top", "0", "x.jpg"),
        ("ask", "--top", "-3", "x.jpg"),
        ("bench", "--images", "0"),
        ("watch", "--pause", "-1", "."),
        ("watch", "--pause", "nan", "."),
        ("watch", "--looks", "0", "."),
        ("teach", "--every", "0", "."),
        ("teach", "--most-megapixels", "0", "."),
    ],
)
def test_numbers_out_of_range_are_wrong_usage(tmp_path, words):
    result = run(tmp_path, *words, expect=2)
    assert "Traceback" not in result.output
    document = json.loads(run(tmp_path, *words, "--json", expect=2).stdout)
    assert document["kind"] == "WrongUsage"


@pytest.mark.parametrize(
    "words", [("names",), ("ask", "x.jpg"), ("undo",), ("evaluate", "."), ("teach", "missing")]
)
def test_json_is_a_document_on_failure_too(tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    result = run(tmp_path, *words, "--json", expect=1)
    document = json.loads(result.stdout)
    assert document["error"] in result.stderr.replace("everlearn: ", "", 1)
    assert re.fullmatch(r"[A-Z]\w+", document["kind"])


@pytest.mark.parametrize(
    "words",
    [
        ("names",),
        ("undo",),
        ("forget", "x"),
        ("rename", "a", "b"),
        ("teach", "missing"),
        ("teach", "--as", "big", "--most-megapixels", "0.0001", "picture.png"),
        ("teach", "--as", "big", "--most-megabytes", "0.00001", "picture.png"),
        ("evaluate", "empty"),
        ("merge", "empty"),
        ("export", "head.onnx"),
    ],
)
def test_messages_contain_no_python_terms(tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "picture.png").write_bytes(PICTURE)
    (tmp_path / "empty").mkdir()
    result = run(tmp_path, *words, expect=1)
    assert not re.search(r"\w=|\bTrue\b|\bNone\b|[A-Z][a-z]+\.[a-z]+\b|\(\)", result.stderr)


def test_limits_are_options(tmp_path):
    (tmp_path / "large.png").write_bytes(saved(Image.new("RGB", (5100, 5000)), "PNG"))
    result = run(tmp_path, "teach", "--as", "wall", tmp_path / "large.png", expect=1)
    assert "5100 x 5000 pixels" in result.stderr
    command = ("teach", "--as", "wall", "--most-megapixels", "26", tmp_path / "large.png")
    assert "taught 1 image of 1 name" in run(tmp_path, *command).stdout


def everlearn(*words, **how):
    """The program itself, as a shell starts it."""
    command = [sys.executable, "-m", "everlearn", *map(str, words)]
    return subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False, **how)


@pytest.fixture
def named(tmp_path):
    with Memory(tmp_path / "memory") as memory:
        memory.teach(np.eye(2)[0], "café ☕")
        memory.teach(np.eye(2)[1], "tea")
    return tmp_path / "memory"


@pytest.mark.parametrize("json_", [True, False])
def test_a_terminal_encoding_without_the_letters_loses_nothing(named, json_):
    done = everlearn(
        "-m",
        named,
        "names",
        *(["--json"] if json_ else []),
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONIOENCODING": "latin-1"},
        encoding="latin-1",
    )
    assert done.returncode == 0, done.stderr
    assert "\\u2615" in done.stdout
    assert "Traceback" not in done.stderr
    if json_:
        assert json.loads(done.stdout)["café ☕"]["count"] == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full disk to write to")
def test_a_full_disk_for_the_output_is_reported_in_one_line(named):
    with open("/dev/full", "w") as full:
        done = everlearn("-m", named, "names", stdout=full)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "everlearn: the output cannot be written: No space left on device"
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="addresses are limited on Linux")
@pytest.mark.parametrize(
    "raised",
    [
        MemoryError(),
        ImportError("libopenblas.so: failed to map segment from shared object"),
        OSError("Could not find/load shared object file 'libllvmlite.so'"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_too_little_memory_is_reported_in_one_line(tmp_path, monkeypatch, raised):
    """As raised by Python, by numpy and by numba; real limits end a process in too many ways."""
    import resource

    def without_memory(*_, **__):
        raise raised

    monkeypatch.setattr(resource, "getrlimit", lambda _: (700_000 * 1024,) * 2)
    monkeypatch.setattr("everlearn.cli.maintenance.opened", without_memory)
    done = CliRunner().invoke(app, ["-m", str(tmp_path), "verify"])
    assert done.exit_code == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("everlearn: there is not enough memory")
    assert "700,000 KB of address space (ulimit -v)" in line


def test_every_printed_line_goes_through_one_function():
    """Otherwise a new command could print names unescaped."""
    folder = Path(output.__file__).parent
    raw = [
        path.name
        for path in folder.glob("*.py")
        if path.name != "output.py"
        and re.search(r"click\.(echo|secho)\(|\bprint\(", path.read_text())
    ]
    assert raw == []


@pytest.mark.parametrize(
    ("words", "expected"), [((), "text\ncolumn\ncell\n"), (("--json",), "7\n")]
)
def test_a_result_is_printed_as_text_or_as_json_and_notices_always(words, expected):
    @click.command()
    @output.as_json
    def command():
        output.print_result(7)
        output.say("text")
        output.print_table(["column"], [["cell"]])
        output.notify("notice")

    done = CliRunner().invoke(command, words)
    assert (done.stdout, done.stderr) == (expected, "notice\n")


@pytest.mark.parametrize("words", [("ingest", "{}"), ("find", "{}"), ("evaluate", "{}")])
def test_errors_quote_hostile_paths_without_their_escape_codes(tmp_path, words):
    file = tmp_path / "a\x1b]0;title\x07b.jpg"
    file.write_bytes(b"not an image")
    Memory(tmp_path / "memory", embedder=Pixels(size=4)).close()
    base = ["-m", str(tmp_path / "memory"), "--network", "pixels-4"]
    done = CliRunner().invoke(app, [*base, *(word.format(file) for word in words)])
    assert done.exit_code > 0
    assert "a\\x1b]0;title\\x07b.jpg" in done.output
    assert not set("\x1b\x07") & set(done.output)


@pytest.mark.parametrize("command", ["ask", "check"])
def test_files_are_written_even_if_the_output_is_closed(tmp_path, command):
    """As with ``| head``, which ends the command while it prints."""
    (tmp_path / "a.png").write_bytes(PICTURE)
    with Memory(tmp_path / "memory", embedder=Pixels(size=4)) as memory:
        memory.teach(tmp_path / "a.png", "a")
        memory.teach(np.zeros((9, 9, 3), np.uint8), "b")
    out = {"ask": ("a.png", "--csv", "out", "--sort-into", "dir"), "check": ("--html", "out")}
    reading, writing = os.pipe()
    os.close(reading)
    words = ("-m", "memory", "--network", "pixels-4", command, *out[command])
    done = everlearn(*words, stdout=writing, cwd=tmp_path)
    os.close(writing)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert (tmp_path / "out").stat().st_size > 0
    assert command == "check" or [path.name for path in tmp_path.glob("dir/*/*")] == ["a.png"]
