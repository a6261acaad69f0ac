"""Forests: bad input, edge cases, threads and the contract."""

import threading
import warnings
from typing import get_args

import numpy as np
import pytest
from everlearn_papers.forests.conventional import ConventionalForest
from sklearn.utils.estimator_checks import check_estimator

from everlearn import NCMForest, SVMForest
from everlearn.base import Promise
from everlearn.errors import InvalidParameter
from everlearn.forest.settings import NodeSampling, NodeSamplingWord, Update, UpdateWord
from tests.forest.forest_oracles import require_consistent

LEARNERS = (NCMForest, SVMForest)
UPDATES = ["uls", "igt", "rtst", "rust", "auto"]


def small(learner, **parameters):
    return learner(n_estimators=5, random_state=0, **parameters)


@pytest.mark.parametrize("learner", LEARNERS)
def test_one_class_only(rng, learner):
    forest = small(learner).fit(rng.standard_normal((30, 4)), np.zeros(30, int))
    np.testing.assert_array_equal(forest.predict(rng.standard_normal((5, 4))), 0)
    np.testing.assert_array_equal(forest.n_nodes_, 1)


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("update", UPDATES)
def test_one_example_per_class(rng, learner, update):
    X = 5.0 * rng.standard_normal((12, 6))
    forest = small(learner, update=update).fit(X[:6], np.arange(6))
    np.testing.assert_array_equal(forest.predict(X[:6]), np.arange(6))
    forest.partial_fit(X[6:], np.arange(6, 12))
    if update != "uls":
        assert np.mean(forest.predict(X) == np.arange(12)) > 0.8
    require_consistent(forest)


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("update", UPDATES)
def test_duplicates_of_one_point(learner, update):
    X, y = np.ones((60, 3)), np.arange(60) % 3
    forest = small(learner, update=update).fit(X, y).partial_fit(X, y + 3)
    np.testing.assert_allclose(forest.predict_proba(X), 1.0 / 6.0)


@pytest.mark.parametrize("learner", LEARNERS)
def test_constant_features_do_not_matter(rng, learner):
    y = np.repeat([0, 1, 2], 20)
    X = 4.0 * rng.standard_normal((3, 2))[y] + rng.standard_normal((60, 2))
    constant = np.column_stack([X, np.full(60, 1e6), np.zeros(60)])
    forest = small(learner).fit(constant, y)
    assert np.mean(forest.predict(constant) == y) > 0.9


def test_a_node_with_more_partitions_than_candidates(rng):
    y = np.repeat(np.arange(90), 6)
    X = 4.0 * rng.standard_normal((90, 8))[y] + rng.standard_normal((len(y), 8))
    forest = small(NCMForest, class_subset=1.0, n_candidates=50).fit(X, y)
    require_consistent(forest)
    assert np.mean(forest.predict(X) == y) > 0.5


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("update", UPDATES)
def test_rust_removes_leaves_that_it_empties(rng, learner, update):
    """Batches that move examples back and forth, with leaves of one example allowed."""
    forest = small(learner, update=update, update_fraction=1.0, min_samples=0)
    for step in range(6):
        X = rng.standard_normal((20, 2)) * (step + 1)
        forest.partial_fit(X, rng.integers(3 * step, 3 * step + 3, 20))
        require_consistent(forest)
    for tree in forest._trees():
        heads = tree.nodes[: tree.used["nodes"][0]]
        live = (heads["left"] == -1) & (heads["parent"] != -2)
        if update != "uls":
            assert np.all(heads["head"][live] != -1)


@pytest.mark.parametrize("learner", LEARNERS)
def test_huge_values_stay_finite(rng, learner):
    y = np.repeat([0, 1], 20)
    X = rng.standard_normal((40, 3)) + 3.0 * y[:, None]
    forest = small(learner).fit(X, y)
    assert np.isfinite(forest.predict_proba(X * 1e100)).all()
    forest.partial_fit(X * 1e100, y + 2)
    assert np.isfinite(forest.predict_proba(X)).all()


@pytest.mark.parametrize(
    ("parameters", "complaint"),
    [
        ({"n_estimators": 0}, "n_estimators must be an integer from 1 to"),
        ({"n_estimators": 2.5}, "n_estimators must be an integer"),
        ({"update": "grow"}, "update must be 'uls', 'igt'"),
        ({"update_fraction": 1.5}, "update_fraction must be a number at least 0 and at most 1"),
        ({"node_sampling": "best"}, "node_sampling must be 'quality'"),
        ({"min_samples": -1}, "min_samples must be a number at least 0"),
        ({"n_exemplars": 0}, "n_exemplars must be an integer from 1"),
        ({"n_candidates": 0}, "n_candidates must be an integer from 1"),
        ({"class_subset": "all"}, "class_subset must be"),
        ({"n_jobs": 0}, "n_jobs must be an integer from 1"),
        ({"class_subset": 0.0}, "class_subset must be"),
    ],
)
def test_bad_parameters_raise_a_named_error(parameters, complaint):
    with pytest.raises(InvalidParameter, match=complaint):
        NCMForest(**parameters).fit([[0.0], [1.0]], [0, 1])


@pytest.mark.parametrize(
    "parameters", [{"epochs": 0}, {"regularization": 0}, {"regularization": -1}]
)
def test_bad_parameters_of_svm_forests_raise_a_named_error(parameters):
    with pytest.raises(InvalidParameter, match=next(iter(parameters))):
        SVMForest(**parameters).fit([[0.0], [1.0]], [0, 1])


@pytest.mark.parametrize("learner", LEARNERS)
def test_asking_while_being_taught(rng, learner):
    """An answer comes from the forest before or after a batch, never from one in between."""
    y = np.repeat(np.arange(30), 8)
    X = 4.0 * rng.standard_normal((30, 6))[y] + rng.standard_normal((len(y), 6))
    batches = [y == label for label in range(2, 30)]

    def taught(n_batches):
        forest = small(learner).fit(X[y < 2], y[y < 2])
        for batch in batches[:n_batches]:
            forest.partial_fit(X[batch], y[batch])
        return forest

    allowed = {taught(n).predict_proba(X).tobytes() for n in range(len(batches) + 1)}
    forest, answers, failures = taught(0), [], []
    done = threading.Event()

    def ask():
        while not done.is_set():
            try:
                answers.append(forest.predict_proba(X))
                assert set(forest.predict(X).tolist()) <= set(range(30))
                forest.predict_one(X[0])
            except Exception as failure:
                failures.append(failure)

    thread = threading.Thread(target=ask)
    thread.start()
    for batch in batches:
        forest.partial_fit(X[batch], y[batch])
    done.set()
    thread.join()
    assert not failures
    assert answers
    assert all(answer.tobytes() in allowed for answer in answers)


def test_the_conventional_forest_passes_scikit_learns_checks():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(small(ConventionalForest), on_fail=None, on_skip=None)
    failed = [r["check_name"] for r in results if r["status"] not in ("passed", "skipped")]
    assert not failed


def test_memory_is_bounded_only_with_a_budget():
    assert Promise.BOUNDED_MEMORY not in NCMForest().promises
    assert Promise.BOUNDED_MEMORY in NCMForest(n_exemplars=5).promises


def test_the_typed_literals_are_the_accepted_values():
    assert [way.name.lower() for way in Update] == list(get_args(UpdateWord))
    assert [way.name.lower() for way in NodeSampling] == list(get_args(NodeSamplingWord))
