"""Run the steps of pages, each in a process of its own: python -m tests.docs.run_page

Each line of standard input is a JSON object: the page, its steps (Python blocks and commands in
their order), the folder to run them in, its environment, and files for what is printed. What fails
is printed with the line of the page, and ends the run. The answer is one line with the exit status.

scikit-learn, which every environment has, takes a second to import: it is imported once, and pages
run in forks of this process. This file imports nothing that a reader would have to install.
"""

import importlib
import json
import os
import shutil
import sys
import warnings
from glob import glob
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


def next_page() -> dict[str, Any]:
    """Fork for each page asked for, and return in the fork; the process itself ends with stdin."""
    for line in sys.stdin:
        if os.fork() == 0:
            return json.loads(line)  # type: ignore[no-any-return]
        print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
    sys.exit()


if __name__ == "__main__":
    warnings.simplefilter("error")
    importlib.import_module("sklearn.utils.validation")
    described = next_page()
    own = os.environ["PYTHONPATH"].split(os.pathsep)
    os.environ.update(described["variables"])
    path = os.environ["PYTHONPATH"].split(os.pathsep)
    sys.path[:] = [*path, *(place for place in sys.path if place not in own)]
    os.chdir(described["folder"])
    for number, file in enumerate((os.devnull, described["stdout"], described["stderr"])):
        os.dup2(os.open(file, os.O_RDWR | os.O_CREAT), number)
    main(described["page"], described["steps"])
