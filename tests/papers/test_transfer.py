"""The transfer paper: its quick run, and how its tasks are made."""

import json

import numpy as np

from everlearn.papers import reproduce
from everlearn.papers.report import published
from everlearn.papers.transfer.tasks import learn_sources, make_task


def test_a_task_alternates_and_its_test_is_apart(rng):
    background, ours, known = (rng.normal(size=(n, 5)) + c for n, c in ((60, 0), (50, 2), (20, 4)))
    sources = learn_sources([known], background[:30])
    task = make_task(ours, background[30:], sources, [0], rng, n_train=10, n_test=15)
    assert task.train_y.tolist() == [True, False] * 10
    assert task.test_y.sum() == 15
    # Columns begin with the training samples: a sample is 1 to itself, and no test sample is one.
    np.testing.assert_allclose(np.diag(task.train[:, :20]), 1.0)
    assert task.test[:, :20].max() < 1.0
    # The prior finds its own class, and speaks of source columns alone.
    weights, bias = task.priors[0]
    assert not np.any(weights[:20])
    scores = (
        np.exp(
            -((np.concatenate([known, background[:30]])[:, None] - sources.X) ** 2).sum(axis=2)
            / sources.bandwidth
        )
        @ weights[20:]
        + bias
    )
    assert np.mean((scores > 0) == (np.arange(50) < 20)) > 0.9


def test_the_quick_run(data_pack, tmp_path):
    data_pack("caltech101_effnetlite0.npz")
    reproduce("transfer", quick=True, out=tmp_path)
    results = json.loads((tmp_path / "results.json").read_text())["parts"]
    rows = {row["method"]: row for row in results["fig2"]["rows"]}
    mistakes = {
        name: float(row["mistakes 7-60"]) for name, row in rows.items() if row["mistakes 7-60"]
    }
    # As published: what starts from Multi-KT makes fewer mistakes than what weighs its priors.
    for name in ("TROL", "TROL+", "TR-OTL"):
        assert mistakes[name] < min(mistakes["OTL"], mistakes["M-OTL"])
        assert float(rows[name]["at 10"]) > float(rows["Multi-KT"]["at 10"]) - 2
    for figure in ("fig1.png", "fig2.png", "fig2-weights.png", "fig3.png"):
        assert (tmp_path / figure).read_bytes().startswith(b"\x89PNG")


def test_every_claim_names_its_source():
    numbers = published("transfer")
    assert all("source" in value for key, value in numbers.items() if key not in ("paper", "notes"))
