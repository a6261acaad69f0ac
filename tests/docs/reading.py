"""Checks commands that a test cannot run: the command, its options and its files must exist."""

import ast
import importlib
import re
import shlex
import tomllib
from pathlib import Path

import click

from attacks.__main__ import ATTACKS
from benchmarks.__main__ import BENCHMARKS, BY_NAME
from everlearn.cli.app import app
from tests.docs.blocks import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
# Programs that are not ours: nothing but the words can be looked at.
OTHERS = {"git", "docker", "curl", "sudo", "systemctl", "pre-commit", "cd", "npm", "node", "nginx"}
# Settings in front of a command, as a shell has them.
SETTING = re.compile(r"^[A-Z_]+=.*$")
NEVER_ENDING = {"serve", "watch", "label-studio", "frigate", "fiftyone", "immich"}
HOURS = {"bench", "reproduce", "data", "demo"}


def words(command: str) -> list[str]:
    split = shlex.split(command, comments=True)
    while split and SETTING.match(split[0]):
        split = split[1:]
    return split


def runnable(command: str) -> bool:
    """Whether it is a command of ours that ends by itself, and soon."""
    program, *rest = words(command) or [""]
    called = [word for word in rest if not word.startswith("-")]
    return program == "everlearn" and not NEVER_ENDING.union(HOURS).intersection(called[:1])


def complete(command: str) -> bool:
    """Whether it is complete: ``everlearn ask`` alone only names the command."""
    context = click.Context(app, info_name="everlearn", **app.context_settings)
    _, left, _ = app.make_parser(context).parse_args(words(command)[1:])
    if not left:
        return False
    inner = app.get_command(context, left[0])
    try:
        inner.make_context(left[0], left[1:], parent=context)
    except click.MissingParameter:
        return False
    except click.UsageError:
        return True  # files that are not here; the folder it is run in has them
    return True


def read_command(command: str) -> None:
    """Raise where something in the command does not exist."""
    program, *rest = words(command) or [""]
    program = Path(program).name
    if program == "everlearn":
        _read_everlearn(rest)
    elif program in ("pip", "uv"):
        _read_extras(command)
    elif program == "make":
        targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
        asked = [word for word in rest if "=" not in word]
        assert set(asked) <= set(targets), f"no such target: {command}"
    elif program in ("python", "python3"):
        _read_python(rest)
    elif program == "pytest":
        assert all((ROOT / word).exists() for word in rest if not word.startswith("-")), command
    else:
        assert program in OTHERS, f"nobody knows how to read {command!r}"


def read_python(code: str) -> None:
    """Compile the code and make its imports from everlearn."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("everlearn"):
            try:
                module = importlib.import_module(str(node.module))
            except ImportError as missing:
                if missing.name == node.module:
                    raise
                continue  # a package that nobody has to install
            for name in node.names:
                if not hasattr(module, name.name):
                    importlib.import_module(f"{node.module}.{name.name}")


def _read_everlearn(rest: list[str]) -> None:
    context = click.Context(app, info_name="everlearn", **app.context_settings)
    _, left, _ = app.make_parser(context).parse_args(list(rest))
    if not left:
        return
    command = app.get_command(context, left[0])
    assert command is not None, f"everlearn has no command {left[0]}"
    inner = click.Context(command, info_name=left[0], parent=context)
    command.make_parser(inner).parse_args(left[1:])  # raises for an option that there is not


def _read_extras(command: str) -> None:
    for extras in re.findall(r"(?:everlearn|\.)\[([\w,-]+)\]", command):
        unknown = set(extras.split(",")) - set(PROJECT["optional-dependencies"])
        assert not unknown, f"no such extra: {unknown}"


def _read_python(rest: list[str]) -> None:
    if rest[0] == "-c":
        read_python(rest[1])
    elif rest[:2] == ["-m", "benchmarks"]:
        unknown = set(rest[2:]) - {*BENCHMARKS, *BY_NAME, "all"}
        assert not unknown, f"no benchmark is called {unknown}"
    elif rest[:2] == ["-m", "attacks"]:
        unknown = set(rest[2:]) - set(ATTACKS)
        assert not unknown, f"no attack is called {unknown}"
    elif rest[0] == "-m" and rest[1].startswith(("attacks.", "benchmarks.")):
        command = ROOT / f"{rest[1].replace('.', '/')}.py"
        assert command.exists(), f"there is no {rest[1]}"
        text = command.read_text(encoding="utf-8")
        options = [word for word in rest[2:] if word.startswith("--")]
        assert all(f'"{option}"' in text for option in options), f"{rest[1]} has not all {options}"
    elif rest[0] == "-m":
        assert rest[1] in {"pip", "venv", "http.server"}, rest
    else:
        assert (ROOT / rest[0]).exists(), f"there is no {rest[0]}"
