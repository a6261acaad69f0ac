"""The exported file, used without everlearn, against ``ask``."""

import re
import subprocess
import sys

import pytest
from PIL import Image

from everlearn import Memory
from tests.docs.blocks import ROOT
from tests.docs.photographs import TAUGHT, THINGS, fill

PROGRAM = ROOT / "examples" / "ask_exported.py"
# Whoever imports anything of ours, or what the learners need, fails.
HIDE = (
    "import runpy, sys\n"
    "for name in ('everlearn', 'scipy', 'sklearn', 'numba', 'safetensors', 'click', 'rich'):\n"
    "    sys.modules[name] = None\n"
    "sys.argv = sys.argv[1:]\n"
    "runpy.run_path(sys.argv[0], run_name='__main__')\n"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("exported")
    fill(place)
    # Lying on its side, as a phone writes it; and transparent.
    with Image.open(place / "cup.jpg") as cup:
        exif = Image.Exif()
        exif[0x0112] = 6
        cup.rotate(90, expand=True).save(place / "turned.jpg", exif=exif, quality=95)
        cup.convert("RGBA").save(place / "clear.png")
    with Memory(place / "memory") as memory:
        for name in THINGS:
            for number in range(1, TAUGHT + 1):
                memory.teach(place / "photos" / name / f"{number}.jpg", name)
        memory.export(place / "things.onnx", with_embedder=True)
    return place


def test_it_answers_as_ask_does(folder):
    files = sorted(str(path) for path in (folder / "test").rglob("*.jpg"))
    files += [str(folder / "turned.jpg"), str(folder / "clear.png")]
    large = bytearray(b"x" * 400_000_000)  # of this process, which does not count
    done = subprocess.run(
        [sys.executable, "-c", HIDE, PROGRAM, folder / "things.onnx", *files],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = done.stdout.splitlines()
    assert len(lines) == len(files)
    with Memory(folder / "memory", read_only=True) as memory:
        for file, line in zip(files, lines, strict=True):
            answers = memory.ask(file)
            said, best, share = re.fullmatch(
                rf"{re.escape(file)}  (\S+)  \((\S+) (\d+)%.*\)", line
            ).groups()
            assert best == answers[0].name
            assert abs(int(share) / 100 - answers[0].probability) < 0.03
            # Where a picture ranks within the step that decides, ask draws a lot; seldom.
            undecided = abs(answers.p_value - (1 - memory.accept)) < 0.1
            assert said == ("unknown" if answers.unknown else best) or undecided
    most = re.search(r"at most (\d+) MB", done.stderr)
    assert 30 < int(most[1]) < len(large) / 1e6
