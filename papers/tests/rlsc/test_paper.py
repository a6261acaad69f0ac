"""The RLSC paper: its quick run, its exact figure, and the shortcut of its experiment."""

import json

import numpy as np
import pytest
from everlearn_papers import reproduce
from everlearn_papers.report import published
from everlearn_papers.rlsc.paper import boundary_on_axis
from everlearn_papers.rlsc.protocol import (
    REGULARIZATIONS,
    Trial,
    best_answers,
    by_the_rule,
    rebalanced,
)
from scipy.optimize import brentq
from scipy.stats import multivariate_normal
from sklearn.datasets import load_digits

from everlearn import RecursiveRLSC
from everlearn.streams.examples import Examples


@pytest.mark.parametrize("gamma", [0.5, 0.7, 0.9])
def test_the_boundary_of_two_gaussians(gamma):
    numbers = published("rlsc")["fig1"]
    ours, theirs = (
        multivariate_normal(mean, deviation**2 * np.eye(2))
        for mean, deviation in zip(numbers["means"], numbers["deviations"], strict=True)
    )

    def difference(x):
        return gamma * ours.pdf([x, 0.0]) - (1 - gamma) * theirs.pdf([x, 0.0])

    expected = brentq(difference, -0.5, 0.9)
    found = boundary_on_axis(numbers["means"], numbers["deviations"], gamma)
    assert found == pytest.approx(expected, abs=1e-4)


def test_one_solution_per_regularization_serves_every_recoding():
    X, y = load_digits(return_X_y=True)
    X = X / 16.0
    learned = np.r_[np.flatnonzero(y != 8)[:900], np.flatnonzero(y == 8)[:5]]
    balanced, new, validation, test = (
        Examples(X[rows], y[rows])
        for rows in (learned[:900], learned[900:], slice(1000, 1300), slice(1300, None))
    )
    trial = Trial(8, balanced, new, validation, test)
    learner = RecursiveRLSC(recoding=0.0).fit(X[learned], y[learned])
    found = best_answers(learner, trial, (0.0, 0.7))
    for alpha in (0.0, 0.7):
        learners = [
            RecursiveRLSC(regularization=900 * lam, recoding=alpha).fit(X[learned], y[learned])
            for lam in REGULARIZATIONS
        ]
        best = max(learners, key=lambda each: each.score(validation.X, validation.y))
        answers, right, share = found[alpha]
        assert 900 * share == best.regularization
        np.testing.assert_array_equal(answers, best.predict(test.X))
        assert right == best.score(validation.X, validation.y)


def test_recoding_is_the_largest_without_loss_on_balanced_classes():
    """Sec. VI-C."""
    values = [90.0, 91.0, 89.0, 90.0, 90.0, 80.0, 70.0, 60.0, 50.0, 40.0, 30.0]
    sweep = {str(round(0.1 * step, 1)): {"validation": [v]} for step, v in enumerate(values)}
    assert by_the_rule({"sweep": sweep}, 0) == 0.4


def test_rebalancing_by_weights_equals_that_of_the_library():
    X, y = load_digits(return_X_y=True)
    X = X / 16.0
    balanced = Examples(X[y < 3], y[y < 3])
    new = Examples(X[y == 3][:4], y[y == 3][:4])
    ours = rebalanced(balanced, new).set_params(regularization=1.0)
    other = RecursiveRLSC(weighting="rebalance", recoding=1.0, regularization=4.0)
    other.fit(np.concatenate([balanced.X, new.X]), np.concatenate([balanced.y, new.y]))
    # Weights N / n_k against N / (K n_k): λ is K times as large for the same solution.
    np.testing.assert_allclose(ours.coef_, other.coef_, atol=1e-8)


def test_the_quick_run(data_pack, tmp_path):
    data_pack("mnist.npz")
    data_pack("icub_camera50.npz")
    report = reproduce("rlsc", quick=True, out=tmp_path)
    results = json.loads((tmp_path / "results.json").read_text())["parts"]
    printed = ["fig1", "fig2", "fig3", "table1", "substitutes", "categories", "regularization"]
    assert list(results) == [*printed, "turntable_figures", "update_time"]
    assert {row["n_imb"] for row in results["categories"]["rows"]} == {1, 5}
    assert [row["examples before"] for row in results["update_time"]["rows"]] == [100, 300, 1000]
    rows = {
        (row["n_imb"], row["accuracy"], row["method"]): float(row["measured"].split()[0])
        for row in results["table1"]["rows"]
    }
    # The paper's finding: naive ignores the rare class, recoding finds it, at no cost in total.
    assert rows[10, "rare", "Naive"] < 10
    assert rows[50, "rare", "Recoding"] > rows[50, "rare", "Naive"] + 10
    assert rows[50, "total", "Recoding"] > rows[50, "total", "Naive"]
    assert {"published", "measured"} <= set(results["table1"]["rows"][0])
    text = report.read_text()
    assert "Quick run" in text
    assert "substitute" in text
    for figure in ("fig1.png", "fig2.png", "fig3.png"):
        assert (tmp_path / figure).read_bytes().startswith(b"\x89PNG")


def test_every_published_number_states_its_source():
    numbers = published("rlsc")
    assert all("source" in value for key, value in numbers.items() if key not in ("paper", "notes"))
    assert [row["n_imb"] for row in numbers["table1"]["MNIST"]] == [1, 5, 10, 50, 100]
    assert numbers["table1"]["MNIST"][4]["rare"]["RC"] == [62.7, 2.9]
