"""The weights β of prior models in Multi-KT.

The leave-one-out prediction of example i is affine in β (see ``least_squares_svm``), so its hinge
loss is convex, and β solves

    penalty="ball"    min_β Σ s_i max(0, c_i − D_i·β)               with ‖β‖₂ ≤ 1     (Sec. 2.2)
    penalty="ridge"   min_β Σ s_i max(0, c_i − D_i·β) + ρ/2 ‖β‖²

with c_i = 1 − y_i a_i and D_i = y_i B_i for predictions a + Bβ; s_i are the examples' weights. The
second is solved in its dual, a quadratic in one variable λ_i ∈ [0, s_i] per example, by a
primal-dual interior-point method, and β = Dᵀλ / ρ. The first equals the second at the ρ for which
‖β‖ = 1, found as the root of a decreasing function; if ‖β‖ < 1 at a negligible ρ, the constraint is
not active. A step costs O(n³ + n² k) for n examples and k models, and about ten are needed.
"""

from typing import Literal, get_args

import numpy as np
from scipy.linalg import cho_solve
from scipy.optimize import brentq

from everlearn.arrays import Array
from everlearn.statistics.definite import definite_factor
from everlearn.validation import require_one_of, require_positive

Penalty = Literal["ridge", "ball"]
# Below this share of the largest useful ρ the ball constraint is not active.
SMALLEST_RIDGE = 1e-7
MOST_STEPS = 100
TOLERANCE = 1e-13
ROUNDING = 1e-13
# Whatever λ gains, s − λ loses.
OPPOSITE = np.array([[1.0], [-1.0]])


def check_penalty(penalty: Penalty, ridge: float | None) -> None:
    """Require a known penalty, and a positive ridge if one is given."""
    require_one_of("penalty", penalty, get_args(Penalty))
    require_positive("ridge", ridge, or_none=True)


def prior_weights(c: Array, D: Array, s: Array, penalty: Penalty, ridge: float | None) -> Array:
    """β under either penalty; a ridge of None means 3 √k."""
    if penalty == "ball":
        return ball_weights(c, D, s)
    return ridge_weights(c, D, s, 3.0 * np.sqrt(D.shape[1]) if ridge is None else ridge)


def ridge_weights(c: Array, D: Array, s: Array, ridge: float) -> Array:
    """β of least hinge loss plus ridge/2 ‖β‖²."""
    beta: Array = D.T @ _dual_optimum(c, D, s, ridge) / ridge
    return beta


def ball_weights(c: Array, D: Array, s: Array) -> Array:
    """β of least hinge loss with ‖β‖ ≤ 1."""
    # ‖β‖ = ‖Dᵀλ‖ / ρ ≤ Σ s_i ‖D_i‖ / ρ, so at this ρ the ball constraint cannot be active.
    largest = float(s @ np.linalg.norm(D, axis=1))
    if largest == 0.0:
        return np.zeros(D.shape[1])

    def excess(log_ridge: float) -> float:
        return float(np.linalg.norm(ridge_weights(c, D, s, float(np.exp(log_ridge))))) - 1.0

    low, high = np.log(largest * SMALLEST_RIDGE), np.log(largest)
    if excess(low) <= 0.0:
        return ridge_weights(c, D, s, float(np.exp(low)))
    root = brentq(excess, low, high, xtol=1e-13, rtol=1e-14)
    beta = ridge_weights(c, D, s, float(np.exp(root)))
    return beta / max(1.0, float(np.linalg.norm(beta)))


def _dual_optimum(c: Array, D: Array, s: Array, ridge: float) -> Array:
    """λ of greatest c·λ − ‖Dᵀλ‖² / 2ρ in the box 0 ≤ λ ≤ s.

    Newton steps on Qλ − c − z + t = 0, λ z = μ, (s − λ) t = μ with μ → 0, each a Cholesky
    factorisation of Q + diag(z/λ + t/(s − λ)), Q = D Dᵀ / ρ.
    """
    n = len(c)
    Q = D @ D.T / ridge
    # With fewer models than examples Q is singular. Only the factorised matrix is regularised, so
    # steps are slightly inexact but the solution is not.
    regularized = Q + ROUNDING * float(Q.diagonal().max(initial=0.0)) * np.eye(n)
    # (λ, s − λ), stored separately so that neither rounds to zero, and their multipliers (z, t).
    slack = np.stack([0.5 * s, 0.5 * s])
    largest_loss = max(1.0, float(np.abs(c).max()))
    scale = max(largest_loss, float(np.abs(Q @ slack[0]).max()))
    multipliers = np.full((2, n), scale)
    for _ in range(MOST_STEPS):
        gradient = Q @ slack[0] - c - multipliers[0] + multipliers[1]
        mu = float((slack * multipliers).mean())
        if mu <= TOLERANCE * largest_loss and float(np.abs(gradient).max()) <= TOLERANCE * scale:
            break
        factor = definite_factor(
            regularized + np.diag((multipliers / slack).sum(axis=0)),
            "the weights of the prior models cannot be computed: their scores on the examples "
            "are too large; scale the features",
        )
        # Predictor-corrector: a full step first, then a step corrected for its error.
        step, change = _newton(factor, gradient, slack, multipliers, 0.0)
        length = _longest(slack, multipliers, step, change, 1.0)
        predicted_mu = float(((slack + length * step) * (multipliers + length * change)).mean())
        target = (predicted_mu / mu) ** 3 * mu - step * change
        step, change = _newton(factor, gradient, slack, multipliers, target)
        length = _longest(slack, multipliers, step, change, 0.995)
        slack = slack + length * step
        multipliers = multipliers + length * change
    return slack[0]


def _newton(
    factor: tuple[Array, bool],
    gradient: Array,
    slack: Array,
    multipliers: Array,
    target: Array | float,
) -> tuple[Array, Array]:
    """The steps of (λ, s − λ) and of their multipliers towards slack · multipliers = target."""
    ends = target / slack - multipliers
    step = OPPOSITE * cho_solve(factor, ends[0] - ends[1] - gradient, check_finite=False)
    return step, ends - multipliers / slack * step


def _longest(slack: Array, multipliers: Array, step: Array, change: Array, share: float) -> float:
    """The longest step, at most 1, that keeps everything positive, times a share."""
    values, changes = np.stack([slack, multipliers]), np.stack([step, change])
    shrinking = changes < 0
    if not shrinking.any():
        return 1.0
    return min(1.0, share * float((values[shrinking] / -changes[shrinking]).min()))
