"""The SLDA paper: its quick run shows the paper's order, and is resumed."""

import json

import numpy as np
import pytest
from everlearn_papers import reproduce
from everlearn_papers.errors import UnknownExperiment
from everlearn_papers.report import published
from everlearn_papers.slda import paper as slda
from everlearn_papers.slda.last_layer import INVERSE_DECAYS, OfflineLayer
from everlearn_papers.slda.start import begun


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
        assert omega[stream, slda.FINE] < omega[stream, slda.EXSTREAM] - 0.02
        assert omega[stream, slda.PLASTIC] >= omega[stream, slda.FIXED] - 0.002
        assert omega[stream, slda.PLASTIC] > 0.95
    cifar = "CIFAR-100, class iid"
    assert omega[cifar, slda.PLASTIC] > 0.98
    assert omega[cifar, slda.PLASTIC] >= omega[cifar, slda.FIXED]
    assert omega[cifar, slda.OFFLINE] == 1.0
    for figure in ("fig1.png", "compute.png"):
        assert (tmp_path / figure).read_bytes().startswith(b"\x89PNG")
    # A second run finds every seed on disk.
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("*.json")}
    reproduce("slda", only="fig1", quick=True, out=tmp_path)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("*.json")} == kept


@pytest.mark.parametrize(("n_before", "plastic"), [(0, True), (40, True), (40, False)])
def test_a_given_covariance_is_averaged_with_that_of_the_stream(rng, n_before, plastic):
    """Against the formula, whatever the batches."""
    y = rng.integers(0, 4, 60)
    X = rng.normal(size=(60, 5)) + y[:, None]
    root = rng.normal(size=(5, 5))
    before = root @ root.T
    learner = begun((before, n_before), "plastic" if plastic else "fixed")
    for part in np.array_split(np.arange(60), 7):
        learner.partial_fit(X[part], y[part])
    means = np.array([X[y == k].mean(axis=0) for k in range(4)])
    centred = X - means[y]
    sigma = (n_before * before + centred.T @ centred) / (n_before + 60) if plastic else before
    precision = np.linalg.inv((1 - 1e-4) * sigma + 1e-4 * np.eye(5))
    expected = X @ precision @ means.T - 0.5 * np.sum(means @ precision * means, axis=1)
    ours = learner.decision_function(X)  # up to a term that all classes share
    np.testing.assert_allclose(ours - ours[:, :1], expected - expected[:, :1], rtol=1e-6, atol=1e-8)
    assert learner.classes_.tolist() == [0, 1, 2, 3]


def test_the_offline_layer_is_trained_to_convergence(rng):
    """The gradient of its loss is zero, and its weight decay was chosen on held-out examples."""
    y = np.repeat(np.arange(5), 12)
    X = rng.normal(size=(60, 8)).astype(np.float32) + 0.5 * np.eye(5, 8, dtype=np.float32)[y]
    made = OfflineLayer().fit(X, y)
    layer = made.layer_
    assert layer.C in INVERSE_DECAYS
    scores = made.decision_function(X)
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    gradient = layer.C * (shares - np.eye(5)[y]).T @ X + layer.coef_
    assert np.abs(gradient).max() < 1e-2 * layer.C * len(y)
    assert made.predict(X, among=[1, 2]).max() == 2


def test_unknown_parts_are_reported(tmp_path):
    with pytest.raises(UnknownExperiment, match="there are rlsc"):
        reproduce("alexnet", out=tmp_path)
    with pytest.raises(UnknownExperiment, match="there are table1, table2, table3, fig1"):
        reproduce("slda", only="table9", out=tmp_path)


def test_every_published_number_states_its_source():
    numbers = published("slda")
    assert all("source" in value for key, value in numbers.items() if key not in ("paper", "notes"))
    assert numbers["table1"]["CORe50, class iid"]["SLDA (plastic)"] == 0.958
    assert numbers["table2"]["CORe50, class instance"]["SLDA (fixed)"]["with task labels"] == 0.971
