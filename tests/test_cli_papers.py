"""The commands that re-run papers and list their data."""

import json

import pytest
from click.testing import CliRunner

from everlearn.cli.app import app
from everlearn.papers import transfer


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


def test_what_is_missing_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setenv("EVERLEARN_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    transfer._pack.cache_clear()  # another test may have read it
    result = run("reproduce", "transfer", "--quick", "--out", tmp_path / "out", expect=1)
    assert "caltech101_effnetlite0.npz is missing" in result.output
    result = run("reproduce", "rlsc", "--only", "table9", "--out", tmp_path, expect=1)
    assert "there are fig1, fig2" in result.output
    result = run("data", "get", "core50", expect=1)
    assert "Get it from https://vlomonaco.github.io/core50/" in result.output


def test_data_sets_are_listed(tmp_path, monkeypatch):
    monkeypatch.setenv("EVERLEARN_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "mnist").mkdir()
    places = json.loads(run("data", "list", "--json").stdout)
    assert places["mnist"] == str(tmp_path / "mnist")
    assert places["cifar100"] == "everlearn data get cifar100"
    assert places["core50"].startswith("https://")


@pytest.mark.parametrize("words", [("data", "get"), ("data", "get", "cats"), ("reproduce", "x")])
def test_wrong_usage_is_exit_code_two(words):
    run(*words, expect=2)
