"""Sparse rows give the same results as the same rows made dense."""

import numpy as np
import pytest
import scipy.sparse as sp

from everlearn import (
    AutoClassifier,
    FixedCovarianceLDA,
    NCMForest,
    NearestClassMean,
    PassiveAggressive,
    RecursiveRLSC,
    StreamingLDA,
)
from everlearn.errors import WrongKind
from everlearn.learners.closed_form import sparse

TAKERS = [
    NearestClassMean(),
    NearestClassMean(metric="cosine"),
    NearestClassMean(half_life=20),
    StreamingLDA(),
    StreamingLDA(class_scatter=True, priors="empirical"),
    StreamingLDA(half_life=20),
    RecursiveRLSC(fit_intercept=True),
    RecursiveRLSC(regularization="auto", validation_size=10),
]
FORMATS = [sp.csr_array, sp.csr_matrix, sp.csc_array, sp.coo_matrix, sp.lil_array]


@pytest.fixture
def examples(rng):
    X = rng.normal(size=(60, 8)) * (rng.random((60, 8)) < 0.3)
    y = np.array(["cup", "pen", "key"])[np.arange(60) % 3]
    X[:, 0] += y == "cup"
    return X, y


@pytest.fixture(params=TAKERS, ids=repr)
def learner(request):
    from sklearn.base import clone

    return clone(request.param)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(sparse, "BLOCK_ROWS", 7)


@pytest.mark.parametrize("kind", FORMATS, ids=lambda kind: kind.__name__)
def test_sparse_teaches_and_asks_what_dense_does(learner, examples, kind):
    from sklearn.base import clone

    X, y = examples
    weights = np.arange(60) % 4.0
    dense = clone(learner).fit(X[:40], y[:40], weights[:40]).partial_fit(X[40:], y[40:])
    learner.fit(kind(X[:40]), y[:40], weights[:40]).partial_fit(kind(X[40:]), y[40:])
    expected = dense.decision_function(X)
    for asked in (X, kind(X)):
        np.testing.assert_allclose(learner.decision_function(asked), expected, atol=1e-9)
        assert learner.predict(asked).tolist() == dense.predict(X).tolist()
    np.testing.assert_allclose(
        learner.predict_proba(kind(X), among=["pen", "key"]),
        dense.predict_proba(X, among=["pen", "key"]),
        atol=1e-9,
    )


def test_what_was_taught_sparse_can_be_forgotten_dense_and_the_other_way_round(examples):
    X, y = examples
    for learner in (NearestClassMean(), StreamingLDA(), RecursiveRLSC()):
        rest = type(learner)().fit(X[20:], y[20:]).decision_function(X)
        learner.fit(sp.csr_array(X), y).forget(X[:20], y[:20])
        np.testing.assert_allclose(learner.decision_function(X), rest, atol=1e-9)
        learner.fit(X, y).forget(sp.csr_array(X[:20]), y[:20])
        np.testing.assert_allclose(learner.decision_function(X), rest, atol=1e-9)


def test_numbers_given_twice_are_added_and_the_callers_matrix_stays(examples):
    X, y = examples
    halved = sp.csr_array(0.5 * X)
    twice = sp.csr_array(
        (np.repeat(halved.data, 2), np.repeat(halved.indices, 2), 2 * halved.indptr), shape=X.shape
    )
    before = twice.data.copy()
    learner = NearestClassMean().fit(twice, y)
    np.testing.assert_allclose(learner.centroids_, NearestClassMean().fit(X, y).centroids_)
    np.testing.assert_array_equal(twice.data, before)


def test_lda_transforms_sparse_rows(examples):
    X, y = examples
    learner = StreamingLDA().fit(X, y)
    np.testing.assert_allclose(learner.transform(sp.csr_array(X)), learner.transform(X), atol=1e-9)


def test_a_hundred_thousand_words_need_no_dense_table(rng):
    """Dense, these rows would take 16 GB."""
    n, width = 20_000, 100_000
    y = np.arange(n) % 4
    words = rng.integers(0, 1000, size=(n, 5)) + y[:, None] * (width // 4)
    rows = sp.csr_array(
        (np.ones(5 * n), (np.repeat(np.arange(n), 5), words.ravel())), shape=(n, width)
    )
    half = n // 2
    learner = NearestClassMean(metric="cosine").fit(rows[:half], y[:half])
    assert learner.score(rows[half:], y[half:]) == 1.0
    counted = np.asarray(rows[:half][y[:half] == 2].mean(axis=0)).ravel()
    np.testing.assert_allclose(learner.centroids_[2], counted, atol=1e-12)


@pytest.mark.parametrize(
    "learner",
    [
        NearestClassMean(metric="learned"),
        FixedCovarianceLDA(),
        AutoClassifier(),
        NCMForest(),
        PassiveAggressive(),
    ],
    ids=repr,
)
def test_other_learners_refuse_sparse_rows_with_a_named_error(learner, examples):
    X, y = examples
    keep = np.array([label != "key" for label in y])
    with pytest.raises(WrongKind, match="toarray"):
        learner.fit(sp.csr_array(X[keep]), y[keep])
    assert not learner.__sklearn_is_fitted__()
