"""An environment with exactly the extras a page names, made of links to installed packages.

A reader who installs what a page says has these packages and no others. ``Environment`` links them
into a folder; a Python started with ``-S`` and this folder on its path sees nothing else.
"""

import importlib.metadata
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.docs.blocks import ROOT

OWN = {"everlearn": "src", "everlearn-papers": "papers/src", "everlearn-networks": "networks/src"}
PROJECTS = {"everlearn": ".", "everlearn-papers": "papers", "everlearn-networks": "networks"}
INSTALLED = re.compile(r"pip install ([^`\n&]+)")


class NotInstalledHere(Exception):
    """A package that the page names is not installed on this machine."""


def named_on(page: Path) -> list[str]:
    """Requirements that the install lines of a page name; everlearn itself if there are none."""
    found = ["everlearn"]
    for line in INSTALLED.findall(page.read_text("utf-8")):
        for word in shlex.split(line, comments=True):
            if word.startswith("./"):
                found.append(f"everlearn-{word[2:]}")
            elif not word.startswith("-"):
                found.append(re.sub(r"^\.", "everlearn", word))
    return sorted(set(found))


def closure(wanted: list[str]) -> dict[str, importlib.metadata.Distribution | None]:
    """Everything that pip would install for these requirements; ours have no distribution."""
    found: dict[str, importlib.metadata.Distribution | None] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    waiting = [Requirement(word) for word in wanted]
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        if (name, frozenset(requirement.extras)) in seen:
            continue
        seen.add((name, frozenset(requirement.extras)))
        if name in OWN:
            found[name] = None
            waiting += _of_ours(name, requirement.extras)
        else:
            try:
                found[name] = importlib.metadata.distribution(name)
            except importlib.metadata.PackageNotFoundError:
                raise NotInstalledHere(name) from None
            waiting += _of(found[name], requirement.extras)
    return found


def _of_ours(name: str, extras: set[str]) -> list[Requirement]:
    text = (ROOT / PROJECTS[name] / "pyproject.toml").read_text("utf-8")
    project = tomllib.loads(text)["project"]
    lines = list(project.get("dependencies", []))
    for extra in extras:
        lines += project["optional-dependencies"][extra]
    return [Requirement(line) for line in lines]


def _of(distribution: importlib.metadata.Distribution, extras: set[str]) -> list[Requirement]:
    found = []
    for line in distribution.requires or []:
        requirement = Requirement(line)
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": word}) for word in {"", *extras}):
            found.append(requirement)
    return found


class Environment:
    """A folder of links: the only packages that a Python sees beside its standard library."""

    def __init__(self, wanted: list[str], folder: Path) -> None:
        self.folder = folder
        found = closure(wanted)
        self.paths = [folder, *(ROOT / OWN[name] for name in found if name in OWN)]
        for name, distribution in found.items():
            if distribution is None:
                distribution = importlib.metadata.distribution(name)
            for top in sorted({str(file).split("/")[0] for file in distribution.files or []}):
                place = Path(str(distribution.locate_file(top)))
                usable = top not in ("..", "__pycache__") and not top.endswith(".pth")
                if usable and place.exists() and not (folder / top).exists():
                    (folder / top).symlink_to(place)


class Runner:
    """A Python that has imported what every page needs, and forks for each page."""

    def __init__(self, least: Environment) -> None:
        self._python = subprocess.Popen(
            [sys.executable, "-S", "-m", "tests.docs.run_page"],
            env=_variables(least),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(
        self, environment: Environment, page: str, steps: list[dict[str, object]], folder: Path
    ) -> tuple[int, str]:
        """Run the steps of a page in a folder: the exit status, and what went to standard error."""
        assert self._python.stdin is not None
        assert self._python.stdout is not None
        printed = {"stdout": str(folder / "stdout.txt"), "stderr": str(folder / "stderr.txt")}
        told = {"page": page, "steps": steps, "folder": str(folder)} | printed
        told |= {"variables": _variables(environment)}
        print(json.dumps(told), file=self._python.stdin, flush=True)
        status = int(self._python.stdout.readline())
        return status, Path(printed["stderr"]).read_text("utf-8")

    def close(self) -> None:
        self._python.communicate()


def _variables(environment: Environment) -> dict[str, str]:
    """The environment's path, and the repository's root for ``tests.docs``."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "COV_"))}
    return kept | {"PYTHONPATH": os.pathsep.join(map(str, [*environment.paths, ROOT]))}
