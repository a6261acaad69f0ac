"""The weights of prior models, against scipy's optimisers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize

from everlearn.transfer.prior_weights import ball_weights, ridge_weights
from tests.transfer.oracles import hinge_loss


def problem(seed, n, k, scale=1.0):
    rng = np.random.default_rng(seed)
    return rng.normal(1.0, 1.0, size=n), scale * rng.normal(size=(n, k)), rng.uniform(0.5, 2.0, n)


def by_slsqp(c, D, s, ridge, radius=None):
    """The same minimum as a smooth programme in (β, ξ), by scipy."""
    n, k = D.shape
    constraints = [
        {
            "type": "ineq",
            "fun": lambda v: v[k:] - c + D @ v[:k],
            "jac": lambda v: np.hstack([D, np.eye(n)]),
        }
    ]
    if radius is not None:
        constraints.append(
            {
                "type": "ineq",
                "fun": lambda v: radius**2 - v[:k] @ v[:k],
                "jac": lambda v: np.append(-2 * v[:k], np.zeros(n)),
            }
        )
    start = np.append(np.zeros(k), np.maximum(0.0, c) + 0.1)
    found = minimize(
        lambda v: s @ v[k:] + 0.5 * ridge * v[:k] @ v[:k],
        start,
        jac=lambda v: np.append(ridge * v[:k], s),
        bounds=[(None, None)] * k + [(0, None)] * n,
        constraints=constraints,
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-13},
    )
    return found.x[:k]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("n", "k"), [(6, 1), (6, 3), (6, 20), (30, 3)])
def test_ridge_reaches_scipys_minimum(seed, n, k):
    c, D, s = problem(seed, n, k)
    ours, theirs = ridge_weights(c, D, s, 2.0), by_slsqp(c, D, s, 2.0)
    value = hinge_loss(ours, c, D, s) + ours @ ours
    assert value <= hinge_loss(theirs, c, D, s) + theirs @ theirs + 1e-9
    np.testing.assert_allclose(ours, theirs, atol=1e-4)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("n", "k"), [(6, 1), (6, 3), (6, 20), (30, 3)])
def test_ball_reaches_scipys_minimum_inside_the_ball(seed, n, k):
    c, D, s = problem(seed, n, k)
    ours, theirs = ball_weights(c, D, s), by_slsqp(c, D, s, 0.0, radius=1.0)
    assert np.linalg.norm(ours) <= 1.0 + 1e-12
    inside = theirs / max(1.0, np.linalg.norm(theirs))
    assert hinge_loss(ours, c, D, s) <= hinge_loss(inside, c, D, s) + 1e-7


def test_ball_reaches_the_linear_programme_where_it_does_not_bind():
    c, D, s = problem(3, 12, 2, scale=20.0)
    n, k = D.shape
    programme = linprog(
        np.concatenate([np.zeros(k), s]),
        A_ub=-np.hstack([D, np.eye(n)]),
        b_ub=-c,
        bounds=[(None, None)] * k + [(0, None)] * n,
    )
    assert np.linalg.norm(programme.x[:k]) < 1.0
    assert hinge_loss(ball_weights(c, D, s), c, D, s) == pytest.approx(programme.fun, abs=1e-3)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 10_000),
    st.integers(1, 25),
    st.integers(1, 40),
    st.sampled_from([1e-3, 1.0, 30.0]),
)
def test_the_dual_bound_certifies_the_minimum(seed, n, k, ridge):
    c, D, s = problem(seed, n, k)
    beta = ridge_weights(c, D, s, ridge)
    value = hinge_loss(beta, c, D, s) + 0.5 * ridge * beta @ beta
    # Any λ in the box bounds the minimum from below; β tells which: where the hinge is open.
    slack = c - D @ beta
    tight = np.abs(slack) < 1e-6 * (1 + np.abs(c))
    lam = np.where(slack > 0, s, 0.0)
    if tight.any():
        rest = ridge * beta - D[~tight].T @ lam[~tight]
        lam[tight] = np.clip(np.linalg.lstsq(D[tight].T, rest, rcond=None)[0], 0.0, s[tight])
    bound = c @ lam - np.sum((D.T @ lam) ** 2) / (2 * ridge)
    assert value - bound <= 1e-5 * (1 + value)


@pytest.mark.parametrize("solve", [ball_weights, lambda *p: ridge_weights(*p, 1.0)])
def test_degenerate_problems_have_an_answer(solve):
    n = 5
    same = np.ones((n, 2))
    for D in (np.zeros((n, 2)), same, 1e-8 * same, 1e4 * same):
        for c in (np.zeros(n), np.ones(n), -np.ones(n)):
            beta = solve(c, D, np.ones(n))
            assert np.all(np.isfinite(beta))
            assert hinge_loss(beta, c, D, np.ones(n)) <= np.maximum(c, 0).sum() + 1e-6
