"""Install lines of the documentation: one kind on every page, and they work."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.badges import drawn, facts
from scripts.install_lines import EXTRAS, NOTES, PUBLISHED, pages, rewritten
from tests.docs.blocks import ROOT
from tests.docs.photographs import fill

REALLY = os.environ.get("EVERLEARN_INSTALL_TESTS") == "1"
really = pytest.mark.skipif(
    not REALLY, reason="EVERLEARN_INSTALL_TESTS=1 is not set, so nothing was installed"
)


def lines() -> list[str]:
    """Every distinct install line with an extra, as it would be typed."""
    return sorted({m[0] for page in pages() for m in EXTRAS.finditer(page.read_text("utf-8"))})


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_page_uses_the_same_install_lines(page):
    text = page.read_text("utf-8")
    assert rewritten(text) == text, "run python scripts/install_lines.py"


def test_install_lines_switch_between_index_and_clone():
    text = "pip install '.[cli]' and pip install . ./papers"
    other = rewritten(text, published=True)
    assert other == "pip install 'everlearn[cli]' and pip install everlearn-papers"
    assert rewritten(other, published=False) == text


def test_the_readme_starts_with_install_lines_that_work():
    text = (ROOT / "README.md").read_text("utf-8")
    first = re.search(r"```console\n\$ (.+)", text)
    assert first is not None
    assert first[1].startswith("pip install 'everlearn[") is PUBLISHED


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """An empty environment with the README's first install line."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    text = (ROOT / "README.md").read_text("utf-8")
    install(folder, EXTRAS.search(text)[0])
    return folder


def install(folder: Path, line: str, *more: str) -> str:
    program, *rest = shlex.split(line)
    done = subprocess.run(
        [folder / "bin" / program, *rest, *more, "--disable-pip-version-check"],
        cwd=ROOT,
        env=bare(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def bare() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "EVERLEARN_"))}


@really
def test_the_first_line_is_enough_to_teach_and_ask(environment, tmp_path):
    fill(tmp_path)
    program = environment / "bin" / "everlearn"
    for words, said in ((["teach", "photos"], "taught"), (["ask", "cup.jpg"], "cup.jpg")):
        done = subprocess.run(
            [program, *words], cwd=tmp_path, env=bare(), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert said in done.stdout
    python = environment / "bin" / "python"
    listed = subprocess.run([python, "-m", "pip", "list"], capture_output=True, text=True)
    assert "numba" not in listed.stdout


@really
def test_the_install_line_for_mqtt_includes_the_service(environment):
    """Torch and the engines of a cluster are large: their lines are only read."""
    line = next(line for line in lines() if EXTRAS.search(line)[1] == "mqtt")
    install(environment, line, "--quiet")
    program = "import everlearn.service.server, everlearn.service.mqtt, paho.mqtt.client"
    subprocess.run([environment / "bin" / "python", "-c", program], env=bare(), check=True)


@really
def test_the_lines_of_uvx_and_pipx_work(environment, tmp_path):
    """With the wheel in place of the name, which the package index does not have yet."""
    python = environment / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", "uv", "pipx"], check=True)
    subprocess.run(
        [python, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", tmp_path, ROOT],
        check=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    places = {"PIPX_HOME": tmp_path / "pipx", "PIPX_BIN_DIR": tmp_path / "bin"}
    lines = re.findall(r"`((?:uvx|pipx) .+?)`", NOTES[True])
    assert len(lines) == 2
    for line in lines:
        words = shlex.split(line.replace("[cli]", f"[cli] @ {wheel.as_uri()}"))
        subprocess.run(
            [environment / "bin" / words[0], *words[1:]],
            cwd=tmp_path,
            env=bare() | {name: str(place) for name, place in places.items()},
            check=True,
        )
    subprocess.run([tmp_path / "bin" / "everlearn", "--version"], env=bare(), check=True)


def test_the_first_page_and_its_film_are_short():
    from PIL import Image

    readme = (ROOT / "README.md").read_text("utf-8")
    assert len(readme.splitlines()) <= 120
    film = ROOT / "docs" / "images" / "film.webp"
    assert str(film.relative_to(ROOT)) in readme
    assert film.stat().st_size <= 2_000_000
    with Image.open(film) as moving:
        lasting = 0
        for number in range(moving.n_frames):
            moving.seek(number)
            moving.load()
            lasting += moving.info["duration"]
    assert lasting <= 20_000


def test_badges_state_measured_facts():
    readme = (ROOT / "README.md").read_text("utf-8")
    for name, halves in facts().items():
        drawing = ROOT / "docs" / "images" / name
        assert str(drawing.relative_to(ROOT)) in readme
        assert drawing.read_text("utf-8") == drawn(*halves), "run python scripts/badges.py"


def test_the_site_has_at_most_seven_entries():
    text = (ROOT / "mkdocs.yml").read_text("utf-8")
    assert len(re.findall(r"^  - ", text[text.index("\nnav:") :], re.MULTILINE)) <= 7
