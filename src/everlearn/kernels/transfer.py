"""Passive-Aggressive steps."""

import numpy as np

from everlearn.kernels.compile import Array, compiled


@compiled
def step_size(loss: float, norm: float, C: float, rule: int) -> float:
    """How far to go along y x (Crammer et al. 2006):

    PA (rule 0)  γ = ℓ / ‖x‖²,   PA-I (1)  γ = min(C, ℓ / ‖x‖²),   PA-II (2)  γ = ℓ / (‖x‖² + 1/2C)

    Zero where there is nothing to gain: no loss, or no direction.
    """
    if not loss > 0.0 or not norm > 0.0:
        return 0.0
    if rule == 2:
        return loss / (norm + 0.5 / C)
    gamma = loss / norm
    if rule == 1 and gamma > C:
        return C
    return gamma


@compiled
def linear_step(
    w: Array, x: Array, sign: float, offset: float, extra_norm: float, C: float, rule: int
) -> tuple[float, float]:
    """One example (x, y): f = w·x + offset, ℓ = max(0, 1 − y f), w += γ y x; returns f and γ."""
    score = offset
    norm = extra_norm
    for j in range(x.shape[0]):
        score += w[j] * x[j]
        norm += x[j] * x[j]
    gamma = step_size(1.0 - sign * score, norm, C, rule)
    if gamma > 0.0:
        change = gamma * sign
        for j in range(x.shape[0]):
            w[j] += change * x[j]
    return score, gamma


@compiled
def gaussian_score(
    x: Array, supports: Array, coefficients: Array, count: int, bandwidth: float
) -> float:
    """Σ_i c_i exp(−‖x − s_i‖² / δ) over the first ``count`` supports, by differences."""
    score = 0.0
    for i in range(count):
        support = supports[i]
        distance = 0.0
        for j in range(x.shape[0]):
            delta = x[j] - support[j]
            distance += delta * delta
        score += coefficients[i] * np.exp(-distance / bandwidth)
    return score
