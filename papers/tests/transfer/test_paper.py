"""The transfer paper: its quick run, and how its tasks are made."""

import json

import numpy as np
import pytest
from everlearn_papers import reproduce
from everlearn_papers.report import published
from everlearn_papers.transfer.cost import growth
from everlearn_papers.transfer.experiments import N_SOURCE, one_prior
from everlearn_papers.transfer.tasks import (
    CHECKPOINTS,
    N_FIRST,
    bound_of_trol_plus,
    contenders,
    learn_sources,
    make_task,
    run,
)


@pytest.fixture
def task(rng):
    background, ours, known = (rng.normal(size=(n, 5)) + c for n, c in ((60, 0), (50, 2), (20, 4)))
    sources = learn_sources([known], background[:30])
    return make_task(ours, background[30:], sources, [0], rng, n_train=10, n_test=15), sources


def test_training_samples_alternate_and_test_samples_are_separate(task):
    task, sources = task
    assert task.train.y.tolist() == [True, False] * 10
    assert task.test.y.tolist() == [True] * 15 + [False] * 15
    # Columns begin with the training samples: a sample is 1 to itself, and no test sample is one.
    np.testing.assert_allclose(np.diag(task.train.X[:, :20]), 1.0)
    assert task.test.X[:, :20].max() < 1.0
    # The prior finds its own class, and speaks of source columns alone.
    ((weights, intercept),) = task.prior_models
    assert not np.any(weights[:20])
    squares = ((sources.X[:, None] - sources.X) ** 2).sum(axis=2)
    scores = np.exp(-sources.gamma * squares) @ weights[20:] + intercept
    assert np.mean((scores > 0) == (np.arange(50) >= 30)) > 0.9


def test_a_run_equals_the_loop_of_the_paper(rng):
    """Mistakes are counted from the seventh sample, asked before it is taught."""
    images = {name: rng.normal(size=(90, 5)) + place for name, place in (("a", 0), ("b", 1))}
    sources = learn_sources([images["b"][:20]], images["a"][:30])
    task = make_task(images["b"][20:], images["a"][30:], sources, [0], rng)
    found = run(contenders(task, "ball")["TROL"](), task, batch=False)
    learner, mistakes, recognition = contenders(task, "ball")["TROL"](), [], []
    for n, (x, label) in enumerate(zip(task.train.X, task.train.y.tolist(), strict=True), start=1):
        if n > N_FIRST:
            mistakes.append(learner.predict_one(x) != label)
        learner.learn_one(x, label)
        if n in CHECKPOINTS:
            recognition.append(learner.score(task.test.X, task.test.y))
    assert found.recognition == recognition
    assert found.mistakes[-1] == sum(mistakes) > 0
    assert found.mistakes[1] == sum(mistakes[:4])
    assert bound_of_trol_plus(task, "ball") >= found.mistakes[-1]


def test_the_quick_run(data_pack, tmp_path):
    data_pack("caltech101_effnetlite0.npz")
    data_pack("office_caltech10.npz")
    reproduce("transfer", quick=True, out=tmp_path)
    results = json.loads((tmp_path / "results.json").read_text())["parts"]
    rows = {row["method"]: row for row in results["fig2"]["rows"]}
    mistakes = {
        name: float(row["mistakes 7-60"]) for name, row in rows.items() if row["mistakes 7-60"]
    }
    assert len(rows) == 13
    # An intercept that the paper's priors do not have is what makes OTL fail at first.
    for name in ("OTL", "M-OTL", "TROL+ (priors), scaled"):
        assert mistakes[name] < mistakes[f"{name}, with intercepts"]
        assert float(rows[name]["at 6"]) > 10 + float(rows[f"{name}, with intercepts"]["at 6"])
    for name in ("TROL", "TROL+", "TR-OTL"):
        assert float(rows[name]["at 10"]) > float(rows["Multi-KT"]["at 10"]) - 2
    for figure in ("fig1.png", "fig2.png", "fig2-weights.png", "fig3.png", "domains.png"):
        assert (tmp_path / figure).read_bytes().startswith(b"\x89PNG")


def test_every_claim_states_its_source():
    numbers = published("transfer")
    assert all("source" in value for key, value in numbers.items() if key not in ("paper", "notes"))


def test_balanced_sources_have_as_many_negatives_as_positives(data_pack):
    data_pack("caltech101_effnetlite0.npz")
    settings = {"features": "caltech101-32", "pair": ["watch", "bonsai"], "orderings": 1}
    assert one_prior(0, **settings, balanced=True)["negatives"] == N_SOURCE
    assert one_prior(0, **settings)["negatives"] > 5 * N_SOURCE


def test_the_exponent_of_a_cost_is_that_of_its_power():
    sizes = [100, 200, 400]
    assert growth(sizes, [size**2.5 for size in sizes]) == pytest.approx(2.5)
