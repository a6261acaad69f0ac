"""Every benchmark and attack can be started; its claims are not tested here."""

import importlib
import inspect
import re
import subprocess
import sys
import weakref
from importlib.util import find_spec
from types import ModuleType

import pytest

from attacks.__main__ import ATTACKS
from benchmarks.__main__ import BENCHMARKS, BY_NAME
from benchmarks.cluster_ray import processes_of_ray
from tests.docs.blocks import ROOT
from tests.docs.reading import read_command

FOLDER = ROOT / "benchmarks"
LISTED = [
    *(f"benchmarks.{name}" for name in (*BENCHMARKS, *BY_NAME)),
    *(f"attacks.{name}" for name in ATTACKS),
]
FILES = [
    f"{package}.{path.stem}"
    for package in ("attacks", "benchmarks")
    for path in sorted((ROOT / package).glob("*.py"))
    if not path.stem.startswith("__")
]
# Whose package is no dependency of a development installation.
NEEDS = {
    "attacks.cluster_faults": "psutil",
    "benchmarks.cluster_driver": "psutil",
    "benchmarks.cluster_engines": "psutil",
    "benchmarks.cluster_images": "psutil",
    "benchmarks.cluster_shards": "psutil",
    "benchmarks.cluster_unlearn": "psutil",
    "benchmarks.deep": "torch",
    "benchmarks.gpu": "torch",
}


def imported(name: str) -> ModuleType:
    package = NEEDS.get(name)
    if package and find_spec(package) is None:
        pytest.skip(f"{name} needs {package}, which is not installed")
    return importlib.import_module(name)


@pytest.mark.parametrize("name", LISTED)
def test_benchmarks_run_by_name_yield_lines(name):
    lines = imported(name).lines
    assert inspect.isgeneratorfunction(lines)
    assert all(p.default is not p.empty for p in inspect.signature(lines).parameters.values())


@pytest.mark.parametrize("name", sorted({*FILES} - {*LISTED}))
def test_benchmarks_that_yield_lines_can_be_run_by_name(name):
    assert not hasattr(imported(name), "lines"), "to be listed in __main__.py"


def test_pages_mention_existing_benchmarks():
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), FOLDER / "RESULTS.md"]
    told = [
        command
        for page in pages
        for command in re.findall(
            r"`(python -m (?:attacks|benchmarks)[^`…]*)`", page.read_text("utf-8")
        )
    ]
    assert told
    for command in told:
        read_command(command)


def test_processes_of_ray_are_found_beside_a_proxy_of_what_is_gone():
    proxy = weakref.proxy(set())
    with pytest.raises(ReferenceError):
        len(proxy)
    with started("python", "-c", "pass", "ray") as ours, started("python", "-c", "pass") as other:
        found = processes_of_ray()
        assert ours in found
        assert other not in found


def started(*arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(arguments, executable=sys.executable)
