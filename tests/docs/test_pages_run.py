"""Every code block and every command of the documentation is run, or read where it cannot be."""

import re
import sys
from importlib.util import find_spec

import pytest
from click.testing import CliRunner

from everlearn.cli.app import app
from tests.docs.blocks import LANGUAGES, ROOT, Block, blocks, commands, outside_of_blocks, pages
from tests.docs.photographs import fill
from tests.docs.reading import read_command, read_python, runnable, words

PAGES = pages()
RUN = [page for page in PAGES if any(b.language in ("python", "console") for b in blocks(page))]
# What a machine may have or not; with it, the block is run.
PACKAGES = {"torch", "dask", "river", "polars", "pandas", "av"}


def named(page):
    return str(page.relative_to(ROOT))


def missing(block: Block) -> bool:
    """Whether something that the block needs is not here."""
    needs = set(re.findall(r"\w+", block.needs))
    if not needs:
        return False
    return not needs <= PACKAGES or any(find_spec(package) is None for package in needs)


def run_command(command: str, page: str, line: int) -> None:
    arguments = [part for word in words(command)[1:] for part in expanded(word)]
    result = CliRunner().invoke(app, arguments, prog_name="everlearn")
    raised = result.exception
    told = f"{page}, line {line}: {command}\n{result.output}\n{raised!r}"
    assert raised is None or isinstance(raised, SystemExit), told
    assert result.exit_code == 0, told


def expanded(word: str) -> list[str]:
    from glob import glob

    return (sorted(glob(word)) or [word]) if "*" in word else [word]


def run_python(block: Block, page: str, namespace: dict[str, object]) -> None:
    # As many lines in front as on the page, so that a traceback names the page's own line.
    code = compile("\n" * block.line + block.code, page, "exec")
    exec(code, namespace)


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_block_says_what_it_is(page):
    for block in blocks(page):
        assert block.language in LANGUAGES, (
            f"{named(page)}, line {block.line}: what is a {block.language!r} block? "
            f"one of {sorted(LANGUAGES)}"
        )
    prose = outside_of_blocks(page)
    typed = re.findall(
        r"^(?:    )\s*(?:\$ |everlearn |pip |python |make |curl |from |import ).*$", prose, re.M
    )
    assert not typed, f"{named(page)}: put commands and code into fenced blocks: {typed[:3]}"


@pytest.mark.parametrize("page", RUN, ids=named)
def test_every_block_runs(page, tmp_path, monkeypatch):
    fill(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["page"])
    # What a page imports from its own folder is not there for the next one.
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    namespace: dict[str, object] = {"__name__": "page"}
    for block in blocks(page):
        if block.language in ("python", "setup"):
            if missing(block):
                read_python(block.code)
            else:
                run_python(block, named(page), namespace)
        elif block.language == "console":
            for command in commands(block):
                if runnable(command) and not missing(block):
                    run_command(command, named(page), block.line)
                else:
                    read_command(command)


def test_a_command_that_does_not_exist_is_noticed():
    for wrong in (
        "everlearn tech photos/",
        "everlearn ask --remembr new.jpg",
        "pip install 'everlearn[everything]'",
        "make everything",
        "python -m benchmarks no_such_thing",
        "python -m benchmarks side_by_side",
        "python -m attacks no_such_thing",
        "python -m attacks.crash --no-such-option",
        "python -m benchmarks.cluster_engines --no-such-option",
        "frobnicate",
    ):
        with pytest.raises(Exception):  # noqa: B017, PT011
            read_command(wrong)
    with pytest.raises(ImportError):
        read_python("from everlearn import Nothing")
