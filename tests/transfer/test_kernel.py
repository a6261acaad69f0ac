"""Kernels by their definitions, and learners under each kernel."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics.pairwise import chi2_kernel

from everlearn import LeastSquaresSVM, MultiKT, PassiveAggressive
from everlearn.errors import CannotSave, InvalidInput, InvalidParameter
from everlearn.persistence import load, save
from everlearn.transfer.kernel import (
    Kernel,
    chi2_distances,
    mean_chi2_distance,
    mean_squared_distance,
    rbf,
)
from tests.transfer import oracles


def test_rbf_kernel_by_its_definition(rng):
    A, B = rng.normal(size=(7, 4)), rng.normal(size=(5, 4))
    np.testing.assert_allclose(rbf(A, B, 1 / 3.0), oracles.rbf(A, B, 1 / 3.0), rtol=1e-12)


def test_a_common_offset_loses_no_precision(rng):
    A, B = rng.normal(size=(7, 4)), rng.normal(size=(5, 4))
    np.testing.assert_allclose(
        rbf(A + 1e6, B + 1e6, 1 / 3.0), oracles.rbf(A, B, 1 / 3.0), rtol=1e-7
    )


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 12), st.integers(1, 5), st.integers(0, 1000))
def test_mean_distance_over_all_pairs(n, d, seed):
    rng = np.random.default_rng(seed)
    X, weights = rng.normal(size=(n, d)), rng.integers(1, 4, size=n)
    expected = oracles.mean_pairwise_squared_distance(X)
    assert mean_squared_distance(X) == pytest.approx(expected, rel=1e-9)
    copied = oracles.mean_pairwise_squared_distance(X.repeat(weights, axis=0))
    assert mean_squared_distance(X, weights.astype(float)) == pytest.approx(copied, rel=1e-9)


def test_with_identical_examples_the_distance_is_one():
    assert mean_squared_distance(np.ones((1, 3))) == 1.0
    assert mean_squared_distance(np.ones((4, 3))) == 1.0


LEARNERS = [PassiveAggressive, LeastSquaresSVM, MultiKT]


def histograms(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Word counts of two kinds of documents, as shares; one word never occurs."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    rates = np.where(y[:, None] == 1, [4, 1, 2, 0, 0.5, 3], [1, 4, 2, 0, 0.5, 2])
    X = rng.poisson(rates).astype(float) + np.array([1, 0, 0, 0, 0, 0])
    return X / X.sum(axis=1, keepdims=True), y


def test_kernels_equal_their_formulas():
    X, _ = histograms(12)
    Z, _ = histograms(7, seed=1)
    assert Kernel("chi2", 0.7).between(X, Z) == pytest.approx(chi2_kernel(X, Z, gamma=0.7))
    naive = [[sum(map(min, x, z)) for z in Z.tolist()] for x in X.tolist()]
    assert Kernel("intersection").between(X, Z) == pytest.approx(np.array(naive))
    for name in ("chi2", "intersection"):
        kernel = Kernel(name, 0.7)
        assert kernel.diagonal(X) == pytest.approx(np.diag(kernel.between(X, X)))


def test_gamma_is_one_over_the_mean_distance_and_weights_are_copies():
    X, _ = histograms(9)
    pairs = [chi2_distances(X[[i]], X[[j]])[0, 0] for i in range(9) for j in range(9) if i != j]
    assert 1.0 / Kernel("chi2").for_examples(X).gamma == pytest.approx(np.mean(pairs))
    counts = np.array([1, 2, 1, 1, 3, 1, 1, 1, 1])
    copies = mean_chi2_distance(np.repeat(X, counts, axis=0))
    assert mean_chi2_distance(X, counts.astype(float)) == pytest.approx(copies)
    assert mean_chi2_distance(X[:1]) == mean_chi2_distance(X[[0, 0]]) == 1.0


@pytest.mark.parametrize("make", LEARNERS)
@pytest.mark.parametrize(("name", "gamma"), [("chi2", 0.9), ("intersection", None)])
def test_a_kernel_equals_its_precomputed_matrix(make, name, gamma):
    X, y = histograms(40)
    X_new, _ = histograms(15, seed=2)
    kernel = Kernel(name, gamma)
    own = make(kernel=name, gamma=gamma).fit(X, y)
    given = make(kernel="precomputed").fit(kernel.between(X, X), y)
    expected = given.margin(kernel.between(X_new, X))
    assert own.margin(X_new) == pytest.approx(expected, abs=1e-9)
    assert np.mean(own.predict(X_new) == histograms(15, seed=2)[1]) > 0.6


@pytest.mark.parametrize("name", ["chi2", "intersection"])
def test_negative_features_are_refused_and_change_nothing(name):
    X, y = histograms(20)
    learner = PassiveAggressive(kernel=name).fit(X, y)
    before = learner.margin(X)
    for call in (
        lambda: learner.partial_fit(-X, y),
        lambda: learner.learn_one(-X[0], y[0]),
        lambda: learner.predict(-X),
        lambda: learner.margin(-X),
        lambda: PassiveAggressive(kernel=name).fit(-X, y),
    ):
        with pytest.raises(InvalidInput, match="histograms"):
            call()
    assert np.array_equal(learner.margin(X), before)


@pytest.mark.parametrize("name", ["chi2", "intersection"])
def test_with_a_budget_batch_equals_loop_and_a_file_keeps_it(name, tmp_path):
    X, y = histograms(60)
    batch = PassiveAggressive(kernel=name, budget=8, drop="smallest").fit(X, y)
    loop = PassiveAggressive(kernel=name, budget=8, drop="smallest")
    for x, label in zip(X, y, strict=True):
        loop.learn_one(x, label)
    assert loop.margin(X) == pytest.approx(batch.margin(X))
    save(batch, tmp_path / "kernel.everlearn")
    again = load(tmp_path / "kernel.everlearn")
    assert np.array_equal(again.margin(X), batch.margin(X))
    again.partial_fit(X, y)
    assert np.array_equal(again.margin(X), batch.partial_fit(X, y).margin(X))


def quadratic(A, B):
    return (1.0 + A @ B.T) ** 2


@pytest.mark.parametrize("make", LEARNERS)
def test_a_custom_function_is_a_kernel(make):
    X, y = histograms(40)
    X_new, _ = histograms(15, seed=2)
    own = make(kernel=quadratic).fit(X, y)
    given = make(kernel="precomputed").fit(quadratic(X, X), y)
    assert own.margin(X_new) == pytest.approx(given.margin(quadratic(X_new, X)), abs=1e-9)
    named = make(kernel="rbf", gamma=0.9).fit(X, y)
    function = make(kernel=lambda A, B: rbf(A, B, 0.9)).fit(X, y)
    assert function.margin(X_new) == pytest.approx(named.margin(X_new), abs=1e-9)


@pytest.mark.parametrize("make", LEARNERS)
def test_a_function_is_never_written_to_a_file(make, tmp_path):
    X, y = histograms(20)
    learner = make(kernel=quadratic).fit(X, y)
    with pytest.raises(CannotSave, match="kernel is a function"):
        save(learner, tmp_path / "kernel.everlearn")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("make", LEARNERS)
@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda A, B: np.ones(len(A)), "returned shape"),
        (lambda A, B: np.full((len(A), len(B)), np.nan), "not finite"),
        (lambda A, B: "none", "not a matrix"),
    ],
)
def test_an_invalid_kernel_function_is_refused(make, function, message):
    X, y = histograms(20)
    with pytest.raises(InvalidParameter, match=message):
        make(kernel=function).fit(X, y).margin(X)


@pytest.mark.parametrize("make", LEARNERS)
def test_a_failing_kernel_function_leaves_the_learner_unchanged(make):
    X, y = histograms(40)

    def failing(A, B):
        if np.any(A[:, 0] > 5.0) or np.any(B[:, 0] > 5.0):
            raise ArithmeticError("too large")
        return A @ B.T

    learner = make(kernel=failing).fit(X[:20], y[:20])
    before = learner.margin(X)
    odd = X[20:].copy()
    odd[10, 0] = 9.0
    with pytest.raises(ArithmeticError):
        learner.partial_fit(odd, y[20:]).margin(X)
    with pytest.raises(ArithmeticError):
        learner.learn_one(odd[10], y[30]).margin(X)
    assert np.array_equal(learner.margin(X), before)


def test_gamma_is_refused_for_a_kernel_function():
    X, y = histograms(20)
    with pytest.raises(InvalidParameter, match=r"functools\.partial"):
        PassiveAggressive(kernel=quadratic, gamma=0.5).fit(X, y)
