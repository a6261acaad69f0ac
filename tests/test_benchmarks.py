"""Every benchmark can be started; whether its claims hold is for the benchmark to say."""

import importlib
import inspect
import re
from importlib.util import find_spec
from types import ModuleType

import pytest

from benchmarks.__main__ import BENCHMARKS, BY_NAME
from tests.docs.blocks import ROOT
from tests.docs.reading import read_command

FOLDER = ROOT / "benchmarks"
FILES = sorted(path for path in FOLDER.glob("*.py") if not path.stem.startswith("__"))
LISTED = (*BENCHMARKS, *BY_NAME)
# Whose package is no dependency of a development installation.
NEEDS = {
    "cluster_driver": "psutil",
    "cluster_engines": "psutil",
    "cluster_faults": "psutil",
    "cluster_images": "psutil",
    "cluster_shards": "psutil",
    "cluster_unlearn": "psutil",
    "deep": "torch",
    "gpu": "torch",
}


def imported(name: str) -> ModuleType:
    package = NEEDS.get(name)
    if package and find_spec(package) is None:
        pytest.skip(f"benchmarks.{name} needs {package}, which is not installed")
    return importlib.import_module(f"benchmarks.{name}")


@pytest.mark.parametrize("name", LISTED)
def test_what_is_run_by_name_gives_lines(name):
    lines = imported(name).lines
    assert inspect.isgeneratorfunction(lines)
    assert all(p.default is not p.empty for p in inspect.signature(lines).parameters.values())


@pytest.mark.parametrize("name", sorted({path.stem for path in FILES} - {*LISTED}))
def test_what_gives_lines_is_run_by_name(name):
    assert not hasattr(imported(name), "lines"), "to be listed in benchmarks/__main__.py"


def test_pages_speak_of_benchmarks_that_there_are():
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), FOLDER / "RESULTS.md"]
    told = [
        command
        for page in pages
        for command in re.findall(r"`(python -m benchmarks[^`…]*)`", page.read_text("utf-8"))
    ]
    assert told
    for command in told:
        read_command(command)
