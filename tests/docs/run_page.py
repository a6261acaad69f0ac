"""Run the steps of one page in an environment of its own: python -m tests.docs.run_page STEPS

STEPS is a JSON file: a list of Python blocks and commands in the order of the page. What fails is
printed with the line of the page, and ends the run. This file imports nothing that a reader with
the page's packages would not have.
"""

import json
import os
import shutil
import sys
import warnings
from glob import glob
from pathlib import Path
from typing import Any


def cells(line: str) -> list[str]:
    """A line of output without its layout: tabs in a file, columns of spaces on a page."""
    return [cell.strip() for cell in line.replace("   ", "\t").split("\t") if cell.strip()]


def run_command(step: dict[str, Any]) -> None:
    from click.testing import CliRunner

    from everlearn.cli.app import app

    arguments = [part for word in step["arguments"] for part in expanded(word)]
    result = CliRunner().invoke(app, arguments, prog_name="everlearn")
    raised = result.exception
    told = f"{step['command']}\n{result.output}\n{raised!r}"
    assert raised is None or isinstance(raised, SystemExit), told
    assert result.exit_code == 0, told
    if step.get("output"):
        printed = [cells(line) for line in result.stdout.splitlines() if line.strip()]
        shown = [cells(line) for line in step["output"]]
        assert shown == printed, f"{told}\nthe page shows {shown}"


def expanded(word: str) -> list[str]:
    return (sorted(glob(word)) or [word]) if "*" in word else [word]


def run_python(step: dict[str, Any], page: str, namespace: dict[str, object]) -> None:
    # As many lines in front as on the page, so that a traceback names the page's own line.
    code = compile("\n" * step["line"] + step["code"], page, "exec")
    exec(code, namespace)


def main(page: str, steps: list[dict[str, Any]]) -> None:
    warnings.simplefilter("error")
    sys.path.insert(0, os.getcwd())
    sys.argv = ["page"]
    namespace: dict[str, object] = {"__name__": "page"}
    for step in steps:
        if "template" in step:
            # A command in a sentence: tried in a folder as it was first made.
            before = os.getcwd()
            shutil.rmtree(step["folder"], ignore_errors=True)
            shutil.copytree(step["template"], step["folder"])
            os.chdir(step["folder"])
            run_command(step)
            os.chdir(before)
        elif "code" in step:
            run_python(step, page, namespace)
        else:
            run_command(step)


if __name__ == "__main__":
    described = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    main(described["page"], described["steps"])
