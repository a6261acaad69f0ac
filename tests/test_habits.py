"""The files a stranger looks for: there, well formed, and in agreement with each other."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import everlearn

ROOT = Path(__file__).parents[1]
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
SCHEMAS = [
    ("vendor.github-workflows", WORKFLOWS),
    ("vendor.github-issue-forms", [GITHUB / "ISSUE_TEMPLATE" / n for n in ("bug.yml", "wish.yml")]),
    ("vendor.github-issue-config", [GITHUB / "ISSUE_TEMPLATE" / "config.yml"]),
    ("vendor.citation-file-format", [ROOT / "CITATION.cff"]),
]


@pytest.mark.parametrize(("schema", "files"), SCHEMAS, ids=[name for name, _ in SCHEMAS])
def test_files_are_as_their_readers_want_them(schema, files):
    pytest.importorskip("check_jsonschema", reason="check-jsonschema is not installed")
    done = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *files],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_call_what_there_is(workflow):
    jobs = yaml.safe_load(workflow.read_text("utf-8"))["jobs"]
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    for job in jobs.values():
        assert job["timeout-minutes"] <= 60
        for step in job["steps"]:
            assert ("uses" in step) != ("run" in step)
            for target in re.findall(r"make (\w+)", step.get("run", "")):
                assert target in targets
            for script in re.findall(r"python (\S+\.py)", step.get("run", "")):
                assert (ROOT / script).exists()


def test_the_version_stands_in_one_place():
    assert "version" in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dynamic"]
    papers = tomllib.loads((ROOT / "papers" / "pyproject.toml").read_text())["project"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert newest is not None
    assert everlearn.__version__ == newest[1] == citation["version"] == papers["version"]


def test_hooks_before_a_commit_are_tools_of_the_project():
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = " ".join(tools["optional-dependencies"]["dev"]).replace("import-linter", "lint-imports")
    for repository in yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]:
        for hook in repository["hooks"]:
            assert hook["entry"].split()[0].removeprefix(".venv/bin/") in named
