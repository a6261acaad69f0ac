"""The numpy and BLAS kernels against the compiled ones."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everlearn.statistics import plain_kernels as plain

compiled = pytest.importorskip(
    "everlearn.compiler", reason="numba is not installed, so there is nothing to compare with"
)
from everlearn.statistics import (  # noqa: E402
    factor_kernels,
    moments_kernels,
    next_factor_kernels,
    products_kernels,
    screening_kernels,
)


def factor(d: int, rng) -> np.ndarray:
    X = rng.normal(size=(2 * d + 3, d))
    return np.ascontiguousarray(np.linalg.cholesky(X.T @ X / d + np.eye(d)).T)


def close(one, other, share=1e-12):
    return np.allclose(one, other, rtol=share, atol=share * max(1.0, np.abs(other).max(initial=0)))


WIDTHS = st.integers(1, 40)
SEEDS = st.integers(0, 1000)


@settings(deadline=None, max_examples=40)
@given(WIDTHS, SEEDS, st.sampled_from(["none", "first half", "every other", "all"]))
def test_factor_updates_agree(d, seed, zeros):
    rng = np.random.default_rng(seed)
    R, x = factor(d, rng), rng.normal(size=d)
    x[
        {"none": slice(0), "first half": slice(d // 2), "every other": slice(0, None, 2)}.get(
            zeros, slice(None)
        )
    ] = 0.0
    ours, theirs = R.copy(), R.copy()
    nothing = np.empty((0, d))
    plain.update_and_solve_forward(ours, x.copy(), nothing)
    factor_kernels.update_and_solve_forward(theirs, x.copy(), nothing)
    assert close(ours, theirs)
    assert close(ours.T @ ours, R.T @ R + np.outer(x, x))
    assert plain.downdate_factor(ours, x.copy(), 1e-8)
    assert factor_kernels.downdate_factor(theirs, x.copy(), 1e-8)
    assert close(ours, theirs, 1e-10)
    assert close(ours, R, 1e-10)


def test_a_row_that_was_never_added_is_not_removed():
    R = np.eye(5)
    assert not plain.downdate_factor(R, np.full(5, 2.0), 1e-8)
    np.testing.assert_array_equal(R, np.eye(5))


@settings(deadline=None, max_examples=40)
@given(WIDTHS, st.integers(1, 5), SEEDS)
def test_solves_agree(d, n, seed):
    rng = np.random.default_rng(seed)
    R, x, B = factor(d, rng), rng.normal(size=d), rng.normal(size=(n, d))
    ours, theirs = B.copy(), B.copy()
    plain.solve_backward(R, ours)
    factor_kernels.solve_backward(R, theirs)
    assert close(ours, theirs)
    assert close(theirs @ R.T, B, 1e-10)
    one, other = (R.copy(), x.copy(), B.copy()), (R.copy(), x.copy(), B.copy())
    plain.update_and_solve_forward(*one)
    factor_kernels.update_and_solve_forward(*other)
    assert all(close(a, b) for a, b in zip(one, other, strict=True))
    assert close(np.vstack([other[1], other[2]]) @ other[0], np.vstack([x, B]), 1e-10)
    assert all(
        close(a, b)
        for a, b in zip(
            plain.two_products(B, x, -x), factor_kernels.two_products(B, x, -x), strict=True
        )
    )


@settings(deadline=None, max_examples=40)
@given(WIDTHS, st.integers(0, 4), SEEDS)
def test_solves_with_pairs_of_rows_are_those_with_one(d, n_pairs, seed):
    rng = np.random.default_rng(seed)
    R, B = factor(d, rng), rng.normal(size=(2 * n_pairs, d))
    ours, theirs = B.copy(), B.copy()
    plain.solve_pairs(R, ours)
    next_factor_kernels.solve_pairs(R + np.triu(R, 1).T, theirs)
    assert close(ours, theirs)
    assert close(theirs @ R, B, 1e-10)


@settings(deadline=None, max_examples=40)
@given(WIDTHS, st.integers(1, 20), st.booleans(), SEEDS)
def test_means_and_products_agree(d, n, weighted, seed):
    rng = np.random.default_rng(seed)
    X, slots = rng.normal(size=(n, d)) + 1e3, rng.integers(0, 3, n)
    weights = rng.uniform(0.5, 2.0, n) if weighted else np.zeros(0)
    results = []
    for kernels in (plain, moments_kernels):
        counts, means, mean = np.array([0.0, 2.0, 1.0]), np.zeros((3, d)), np.zeros(d)
        rows, scores = np.empty((n, d)), np.empty(3)
        square = kernels.absorb_rows(X, slots, weights, counts, means, mean, 3.0, rows)
        kernels.nearest_mean(X[0], means, scores)
        results.append((square, counts, means, mean, rows, scores))
    assert all(close(a, b) for a, b in zip(*results, strict=True))
    one, few = np.empty(n), np.empty((n, n))
    one_theirs, few_theirs = np.empty(n), np.empty((n, n))
    plain.one_product(X, X[0], one)
    products_kernels.one_product(X, X[0], one_theirs)
    plain.few_products(X, X, few)
    products_kernels.few_products(X, X, few_theirs)
    assert close(one, one_theirs)
    assert close(few, few_theirs)


@settings(deadline=None, max_examples=40)
@given(WIDTHS, st.integers(0, 12), st.integers(0, 12), st.integers(0, 40), SEEDS)
def test_outer_products_agree_and_parts_give_the_same_bits(d, eights, rest, slice_at, seed):
    rows = np.random.default_rng(seed).normal(size=(8 * eights + rest, d))
    whole, theirs, parts = (np.zeros((d, d)) for _ in range(3))
    plain.add_outer_products(whole, rows, 0, d)
    moments_kernels.add_outer_products(theirs, rows, 0, d)
    assert close(np.triu(whole), np.triu(theirs))
    cut, edge = 8 * (eights // 2), min(slice_at, d)
    plain.add_outer_products(parts, rows[:cut], 0, edge)
    plain.add_outer_products(parts, rows[:cut], edge, d)
    plain.add_outer_products(parts, rows[cut:].copy(), 0, d)
    np.testing.assert_array_equal(parts, whole)
    parts[:] = 0.0
    moments_kernels.add_outer_products(parts, rows[:cut], 0, edge)
    moments_kernels.add_outer_products(parts, rows[:cut], edge, d)
    moments_kernels.add_outer_products(parts, rows[cut:].copy(), 0, d)
    np.testing.assert_array_equal(parts, theirs)
    plain.subtract_outer_products(whole, rows)
    moments_kernels.subtract_outer_products(theirs, rows)
    assert np.abs(whole).max(initial=0.0) < 1e-10
    assert np.abs(theirs).max(initial=0.0) < 1e-10


@settings(deadline=None, max_examples=40)
@given(WIDTHS, st.integers(0, 40), SEEDS)
def test_factors_built_a_few_rows_at_a_time_agree(d, edge, seed):
    R = factor(d, np.random.default_rng(seed))
    A = np.triu(R.T @ R)
    ours, theirs, edge = A.copy(), A.copy(), min(edge, d)
    assert plain.factor_rows(ours, 0, edge)
    assert plain.factor_rows(ours, edge, d)
    assert next_factor_kernels.factor_rows(theirs, 0, d)
    assert close(ours, theirs)
    assert close(ours, R, 1e-9)
    assert not plain.factor_rows(-np.eye(d), 0, d)


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 30), st.integers(1, 60), st.integers(1, 4), st.booleans(), SEEDS)
def test_bounds_of_quantized_rows_agree(d, n, best, scaled, seed):
    rng = np.random.default_rng(seed)
    rows, centre, z = rng.normal(size=(n, d)), rng.normal(size=d), rng.normal(size=d)
    rows[0] = centre
    query = np.rint(1000 * z).astype(np.int16)
    scale, bias = (rng.uniform(0.5, 2, n), rng.normal(size=n)) if scaled else (np.zeros(0),) * 2
    counts = np.ones(n)
    counts[-1] = 0.0
    results = []
    for kernels in (plain, screening_kernels):
        codes, facts = np.zeros((n + 2, d), np.int8), np.zeros((5, n + 2))
        fine = np.zeros((n + 2 if scaled else 0, d), np.int8)
        kernels.encode_rows(rows, 1, centre, codes, *facts[:4], fine, 254.0, facts[4])
        sums = np.zeros(n, np.int32)
        kernels.code_products(codes[1 : n + 1], query, sums)
        near = sums.astype(np.float64)
        lowest, upper = np.empty(best), np.empty(n)
        steps, gaps, lengths, *_ = facts[:, 1 : n + 1]
        kernels.bound_scores(
            near, steps, gaps, lengths, counts, 1e-3, 2.0, 0.1, scale, 0.5, bias, 1e-12, 0.1,
            lowest, upper,
        )  # fmt: skip
        results.append((codes, facts, sums, lowest, upper, fine))
    for place in (0, 2, 5):
        np.testing.assert_array_equal(results[0][place], results[1][place])
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-13)
