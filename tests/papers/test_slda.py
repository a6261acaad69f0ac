"""The SLDA paper: its quick run shows the paper's order, and is resumed."""

import json

import pytest

from everlearn.errors import UnknownExperiment
from everlearn.papers import reproduce
from everlearn.papers.report import published
from everlearn.papers.slda import paper as slda


def measured(results, part="table1"):
    return {
        (row["stream"], row["row"]): float(row["measured"].split()[0])
        for row in results["parts"][part]["rows"]
    }


def test_the_quick_run(data_pack, tmp_path):
    data_pack("icub_camera50.npz")
    data_pack("cifar100_small_effnetlite0.npz")
    reproduce("slda", quick=True, out=tmp_path)
    results = json.loads((tmp_path / "results.json").read_text())
    omega = measured(results)
    for ordering in ("class iid", "class instance"):
        stream = f"icub_camera50, {ordering}"
        assert omega[stream, slda.FINE] < omega[stream, slda.EXSTREAM] - 0.1
        assert omega[stream, slda.PLASTIC] >= omega[stream, slda.FIXED] - 0.002
        assert omega[stream, slda.PLASTIC] > 0.98
    cifar = "CIFAR-100, class iid"
    assert omega[cifar, slda.PLASTIC] > 0.98
    assert omega[cifar, slda.FIXED] > omega[cifar, slda.FINE] + 0.1
    assert omega[cifar, slda.OFFLINE] == 1.0
    for figure in ("fig1.png", "compute.png"):
        assert (tmp_path / figure).read_bytes().startswith(b"\x89PNG")
    # A second run finds every seed on disk.
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("*.json")}
    reproduce("slda", only="fig1", quick=True, out=tmp_path)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("*.json")} == kept


def test_what_does_not_exist_is_said(tmp_path):
    with pytest.raises(UnknownExperiment, match="there are rlsc"):
        reproduce("alexnet", out=tmp_path)
    with pytest.raises(UnknownExperiment, match="there are table1, table2, fig1, compute"):
        reproduce("slda", only="table9", out=tmp_path)


def test_every_published_number_names_its_source():
    numbers = published("slda")
    assert all("source" in value for key, value in numbers.items() if key not in ("paper", "notes"))
    assert numbers["table1"]["CORe50, class iid"]["SLDA (plastic)"] == 0.958
    assert numbers["table2"]["CORe50, class instance"]["SLDA (fixed)"]["with task labels"] == 0.971
