"""Familiarity scores and their blend, against models that were never taught what is left out."""

import numpy as np
import pytest

from everlearn import Memory, RecursiveRLSC
from everlearn.memory.insight.influence import Ridge
from everlearn.memory.model import familiar
from everlearn.memory.model.blend import LIKENESS
from everlearn.memory.model.familiar import choose, scoring
from everlearn.memory.model.head import unit
from everlearn.memory.model.unknown import Familiarity
from everlearn.statistics.slices import finished


def ridge_regression():
    return RecursiveRLSC(regularization=0.3, recoding=0.5)


def scored(*arguments):
    """All of it at once."""
    return finished(scoring(*arguments, np.inf))


def means_of(X, y):
    classes = np.unique(y)
    counts = np.array([np.sum(y == k) for k in classes], dtype=float)
    return Familiarity(counts, np.array([X[y == k].mean(axis=0) for k in classes]))


@pytest.fixture
def examples(rng):
    """Seven names with 2 to 8 examples each."""
    y = np.repeat(np.arange(7), [2, 3, 4, 5, 6, 7, 8])
    centres = rng.normal(size=(7, 20))
    return unit(centres[y] + 0.8 * rng.normal(size=(len(y), 20))), y


def test_scores_without_an_example_are_those_of_a_model_without_it(examples):
    X, y = examples
    known, _ = scored(means_of(X, y), X, X, y, Ridge(ridge_regression().fit(X, y)))
    for i in range(len(X)):
        others = np.arange(len(X)) != i
        theirs = ridge_regression().fit(X[others], y[others]).decision_function(X[i : i + 1])
        assert known.scores[i, 2] * (len(X) - 1) ** 0.5 == pytest.approx(theirs.max())


def test_unknowns_are_scored_by_a_model_without_their_name(examples):
    X, y = examples
    ridge = Ridge(ridge_regression().fit(X, y))
    _, unknowns = scored(means_of(X, y), X, X, y, ridge)
    for name in range(7):
        others, own = y != name, y == name
        model = ridge_regression().fit(X[others], y[others])
        theirs = model.decision_function(X[own]).max(axis=1) / others.sum() ** 0.5
        assert np.allclose(unknowns.scores[own, 2], theirs)
        directions = means_of(X, y).directions[np.arange(7) != name]
        near = X[own] @ directions.T
        assert np.allclose(unknowns.scores[own, 0], near.max(axis=1))
        assert np.allclose(unknowns.scores[own, 1], near.mean(axis=1))


def test_the_block_size_does_not_change_the_scores(examples, monkeypatch):
    X, y = examples
    order = np.random.default_rng(1).permutation(len(y))
    X, y = X[order], y[order]
    ridge = Ridge(ridge_regression().fit(X, y))
    whole = scored(means_of(X, y), X, X, y, ridge)
    monkeypatch.setattr(familiar, "BLOCK", 7 * 9)
    parts = scored(means_of(X, y), X, X, y, ridge)
    for one, other in zip(whole, parts, strict=True):
        assert np.allclose(one.scores, other.scores)
        assert one.nearest.tolist() == other.nearest.tolist()


def test_memory_is_linear_in_the_number_of_names(rng, monkeypatch):
    """No array has a row and a column for every name."""
    shapes = []
    count = 1500
    y = np.arange(count)
    X = unit(rng.normal(size=(count, 8)))
    monkeypatch.setattr(familiar, "BLOCK", 1 << 16)
    table = familiar.product_table

    def watched(rows, others, piece):
        shapes.append((len(rows), len(others)))
        return table(rows, others, piece)

    monkeypatch.setattr(familiar, "product_table", watched)
    choose(means_of(X, y), X, X, y, None)
    assert sum(rows for rows, _ in shapes) == count
    assert max(rows * names for rows, names in shapes) <= 1 << 16


def test_a_blend_is_a_mean_of_standardised_scores(examples):
    X, y = examples
    known, _ = scored(means_of(X, y), X, X, y, Ridge(ridge_regression().fit(X, y)))
    likeness, average, score = known.scores.T

    def standard(values):
        return (values - values.mean()) / values.std()

    for parts in familiar.BLENDS[1:]:
        columns = {"likeness": likeness, "contrast": likeness - average, "score": score}
        mean = np.mean([standard(columns[part]) for part in parts], axis=0)
        expected = likeness.mean() + likeness.std() * mean
        assert np.allclose(known.blended(familiar._blend_of(parts, known.scores)), expected)


def test_with_too_few_examples_likeness_is_used(examples):
    X, y = examples
    few = y < 3
    chosen = choose(means_of(X[few], y[few]), X[few], X[few], y[few], None)
    assert chosen.blend is LIKENESS
    assert len(chosen.unknowns) == 0


def test_the_blend_does_not_depend_on_the_order_of_teaching(tmp_path, examples, rng):
    X, y = examples
    answers = []
    for place in ("one", "other"):
        order = rng.permutation(len(y))
        with Memory(tmp_path / place) as memory:
            memory.teach_many((X[i].astype(np.float32), f"name {y[i]}") for i in order)
            answers.append(memory.ask(X[0] + X[9]))
    assert answers[0].familiarity == pytest.approx(answers[1].familiarity, abs=1e-5)
    assert answers[0].threshold == pytest.approx(answers[1].threshold, abs=1e-5)


def test_the_predicted_share_of_unknowns_equals_the_measured_one(tmp_path, data_pack):
    """The other names of CIFAR-100 are unknown."""
    data = data_pack("cifar100_small_effnetlite0.npz")
    labels, X = data["labels_train"], data["features_train"]
    rng = np.random.default_rng(5)
    order = rng.permutation(np.unique(labels))
    rows = {k: rng.permutation(np.flatnonzero(labels == k))[:15] for k in order}
    with Memory(tmp_path) as memory:
        memory.teach_many((X[i], f"name {k}") for k in order[:60] for i in rows[k][:5])
        predicted = memory.report().strangers_noticed
        unknowns = [i for k in order[60:] for i in rows[k][:10]]
        noticed = np.mean([memory.ask(X[i]).unknown for i in unknowns])
        known = [i for k in order[:60] for i in rows[k][5:]]
        accepted = np.mean([not memory.ask(X[i]).unknown for i in known])
    assert predicted == pytest.approx(noticed, abs=0.1)
    assert accepted > 0.9
