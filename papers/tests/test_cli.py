"""The commands that re-run papers and list their data."""

import hashlib
import json
import re

import pytest
from click.testing import CliRunner
from everlearn_papers import cli as commands
from everlearn_papers.data.catalogue import SOURCES, Source
from everlearn_papers.reproduce import PAPERS
from everlearn_papers.transfer import experiments

from everlearn.cli.app import app
from papers.tests import tiny_paper


def run(*words, expect=0):
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == expect, result.output + repr(result.exception)
    return result


def test_reproduce_one_figure(tmp_path):
    shown = run("reproduce", "rlsc", "--only", "fig1", "--out", tmp_path, "--json").stdout
    assert json.loads(shown)["report"] == str(tmp_path / "report.md")
    results = json.loads((tmp_path / "results.json").read_text())
    rows = results["parts"]["fig1"]["rows"]
    # The standard boundary moves with γ, the rebalanced one does not.
    standard = [row["standard boundary at x ="] for row in rows]
    assert standard == sorted(standard)
    assert standard[0] < standard[-1]
    assert len({row["rebalanced boundary at x ="] for row in rows}) == 1
    assert rows[0]["standard boundary at x ="] == rows[0]["rebalanced boundary at x ="]
    assert "everlearn reproduce rlsc --only fig1" in (tmp_path / "report.md").read_text()


def test_missing_data_is_reported_in_one_line(tmp_path, monkeypatch):
    monkeypatch.setenv("EVERLEARN_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    experiments.classes.cache_clear()  # another test may have read it
    result = run("reproduce", "transfer", "--quick", "--out", tmp_path / "out", expect=1)
    assert "caltech101_effnetlite0.npz is missing" in result.output
    result = run("reproduce", "rlsc", "--only", "table9", "--out", tmp_path, expect=1)
    assert "there are fig1, fig2" in result.output
    result = run("data", "get", "imagenet", expect=1)
    assert "Get it from https://www.image-net.org/" in result.output


@pytest.fixture
def two_papers(tmp_path):
    """Two tiny papers in place of the real ones, under their names."""
    real = dict(PAPERS)
    PAPERS.clear()
    PAPERS.update(dict.fromkeys(("rlsc", "slda"), tiny_paper.__name__))
    (tmp_path / "out").mkdir()
    yield tmp_path / "out"
    # All anew, so that they are in their order again.
    PAPERS.clear()
    PAPERS.update(real)


def test_reproduce_all_continues_if_data_is_missing(two_papers):
    result = run("reproduce", "all", "--quick", "--out", two_papers, expect=1)
    for name in PAPERS:
        said = rf"^{name}: \d+ s, \d+ s of processor time, not done: {name}, table2: data is miss"
        assert re.search(said, result.stderr, re.MULTILINE)
    for name in PAPERS:
        parts = json.loads((two_papers / name / "results.json").read_text())["parts"]
        assert list(parts) == ["table1", "fig1"]
    (two_papers / "data").touch()
    result = run("reproduce", "all", "--quick", "--out", two_papers)
    said = rf"^rlsc: \d+ s, \d+ s of processor time, report: {two_papers}/rlsc/report.md$"
    assert re.search(said, result.stdout, re.M)
    told = json.loads(run("reproduce", "all", "--quick", "--out", two_papers, "--json").stdout)
    assert list(told) == ["rlsc", "slda"]
    assert told["slda"]["report"] == str(two_papers / "slda" / "report.md")
    assert told["slda"]["seconds"] >= 0
    assert told["slda"]["processor_seconds"] >= 0


def test_long_parts_are_skipped_and_listed(two_papers, monkeypatch):
    monkeypatch.setattr(tiny_paper, "LONG", ("fig1", "table2"), raising=False)
    (two_papers / "data").touch()
    named = "left out, because they take long: rlsc fig1, rlsc table2"

    def made():
        return list(json.loads((two_papers / "rlsc" / "results.json").read_text())["parts"])

    result = run("reproduce", "rlsc", "--jobs", 1, "--out", two_papers / "rlsc")
    assert result.stderr.splitlines()[0] == f"{named}; --long makes them"
    assert made() == ["table1"]
    result = run("reproduce", "all", "--jobs", 1, "--out", two_papers)
    assert result.stderr.splitlines()[0] == f"{named}, slda fig1, slda table2; --long makes them"
    assert made() == ["table1"]
    result = run("reproduce", "rlsc", "--only", "fig1", "--jobs", 1, "--out", two_papers / "rlsc")
    assert "left out" not in result.output
    assert made() == ["table1", "fig1"]
    result = run("reproduce", "all", "--long", "--jobs", 1, "--out", two_papers)
    assert "left out" not in result.output
    assert made() == ["table1", "fig1", "table2"]


def test_a_quick_run_is_refused_in_a_folder_of_full_runs(two_papers):
    (two_papers / "data").touch()
    run("reproduce", "rlsc", "--jobs", 1, "--out", two_papers / "x")
    result = run("reproduce", "rlsc", "--quick", "--out", two_papers / "x", expect=1)
    assert "holds a full run" in result.output


def test_progress_names_parts_and_counts_experiments(two_papers, monkeypatch):
    monkeypatch.setattr(commands, "PLAIN_SECONDS", 0.0)
    (two_papers / "data").touch()
    said = run("reproduce", "rlsc", "--jobs", 1, "--out", two_papers / "x").stderr.splitlines()
    assert "rlsc, table1 (1 of 3): 3 of 4 experiments" in said
    assert "rlsc, fig1 (2 of 3): 3 of 3 experiments" in said
    assert "rlsc, table2 (3 of 3)" in said


def test_progress_on_a_terminal(two_papers, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    (two_papers / "data").touch()
    result = run("reproduce", "rlsc", "--jobs", 1, "--out", two_papers / "x")
    assert f"report: {two_papers}/x/report.md" in result.stdout
    assert "rlsc, table2 (3 of 3)" in result.stderr


@pytest.mark.parametrize("terminal", [True, False])
def test_data_get_shows_progress(tmp_path, monkeypatch, terminal):
    monkeypatch.setenv("EVERLEARN_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(commands, "PLAIN_SECONDS", 0.0)
    if terminal:
        monkeypatch.setenv("FORCE_COLOR", "1")
    (tmp_path / "usps.bin").write_bytes(bytes(3_000_000))
    digest = hashlib.md5(bytes(3_000_000)).hexdigest()
    source = Source("usps", "https://x", {f"file://{tmp_path}/usps.bin": digest})
    monkeypatch.setitem(SOURCES, "usps", source)
    result = run("data", "get", "usps", "--json")
    assert json.loads(result.stdout) == {"usps": str(tmp_path / "data" / "usps")}
    assert "usps.bin" in result.stderr
    if not terminal:
        assert result.stderr.splitlines()[-1] == "usps.bin: 3 of 3 MB"


def test_packs_are_listed_with_their_location(tmp_path, monkeypatch):
    monkeypatch.setenv("EVERLEARN_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("mnist.npz", "icub_camera50.npz"):
        (tmp_path / name).touch()
    places = json.loads(run("data", "list", "--json").stdout)
    assert places["mnist"] == str(tmp_path / "mnist.npz")
    assert places["icub_camera50.npz"] == str(tmp_path / "icub_camera50.npz")
    assert places["omniglot_28.npz"].startswith("missing: Omniglot")
    assert places["coil20"] == "everlearn data get coil20"


def test_data_sets_are_listed(tmp_path, monkeypatch):
    monkeypatch.setenv("EVERLEARN_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "mnist").mkdir()
    places = json.loads(run("data", "list", "--json").stdout)
    assert places["mnist"] == str(tmp_path / "mnist")
    assert places["cifar100"] == "everlearn data get cifar100"
    assert places["imagenet"].startswith("https://")


@pytest.mark.parametrize(
    "words",
    [
        ("data", "get"),
        ("data", "get", "cats"),
        ("reproduce", "x"),
        ("reproduce", "all", "--only", "fig1"),
    ],
)
def test_wrong_usage_has_exit_code_two(words):
    run(*words, expect=2)
