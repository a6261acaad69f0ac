"""Passive-Aggressive steps."""

import numpy as np
from numpy.typing import NDArray

from everlearn.kernels.compile import Array, compiled

IntArray = NDArray[np.int64]


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
    w: Array, u: Array, x: Array, extra: Array, sign: float, offset: float, C: float, rule: int
) -> float:
    """One example (x, e, y): f = w·x + u·e + offset, w += γ y x, u += γ y e; returns f.

    γ is :func:`step_size` of ℓ = max(0, 1 − y f) and ‖x‖² + ‖e‖².
    """
    score = offset
    norm = 0.0
    for j in range(x.shape[0]):
        score += w[j] * x[j]
        norm += x[j] * x[j]
    for j in range(extra.shape[0]):
        score += u[j] * extra[j]
        norm += extra[j] * extra[j]
    gamma = step_size(1.0 - sign * score, norm, C, rule)
    if gamma > 0.0:
        change = gamma * sign
        for j in range(x.shape[0]):
            w[j] += change * x[j]
        for j in range(extra.shape[0]):
            u[j] += change * extra[j]
    return score


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


@compiled
def rival_step(
    W: Array, b: Array, x: Array, slot: int, constant: float, C: float, rule: int
) -> bool:
    """One example of many classes: the true class k against its best rival r.

    f_j = w_j·x + b_j,  ℓ = max(0, 1 − f_k + f_r),  γ as in :func:`step_size` with the norm
    2 (‖x‖² + constant);  w_k += γ x,  w_r −= γ x,  b_k += γ constant,  b_r −= γ constant.
    C is in units of 1 / ‖x‖². True if something was learned.
    """
    norm = 0.0
    for j in range(x.shape[0]):
        norm += x[j] * x[j]
    own = 0.0
    best = -np.inf
    rival = -1
    for k in range(W.shape[0]):
        w = W[k]
        score = b[k]
        for j in range(x.shape[0]):
            score += w[j] * x[j]
        if k == slot:
            own = score
        elif score > best:
            best = score
            rival = k
    if rival < 0 or not norm > 0.0:
        return False
    gamma = step_size(1.0 - own + best, 2.0 * (norm + constant), C / norm, rule)
    if not gamma > 0.0:
        return False
    w = W[slot]
    other = W[rival]
    for j in range(x.shape[0]):
        change = gamma * x[j]
        w[j] += change
        other[j] -= change
    b[slot] += gamma * constant
    b[rival] -= gamma * constant
    return True


@compiled
def replay(
    W: Array,
    b: Array,
    exemplars: Array,
    weights: Array,
    counts: IntArray,
    cursor: int,
    rounds: int,
    constant: float,
    C: float,
    rule: int,
) -> int:
    """A :func:`rival_step` for each of the next ``rounds`` exemplars, in turn; the new cursor.

    Place p of the cycle is exemplar p // K of class p mod K; places without one are passed over.
    """
    n_classes = W.shape[0]
    places = n_classes * exemplars.shape[1]
    stored = 0
    for k in range(n_classes):
        stored += counts[k]
    for _ in range(min(rounds, stored)):
        cursor %= places
        while cursor // n_classes >= counts[cursor % n_classes]:
            cursor = (cursor + 1) % places
        place, k = cursor // n_classes, cursor % n_classes
        rival_step(W, b, exemplars[k, place], k, constant, C * weights[k, place], rule)
        cursor += 1
    return cursor


@compiled
def move_average(average: Array, values: Array, rates: Array) -> None:
    """average_k += rate_k (values_k − average_k) for every row k."""
    for k in range(average.shape[0]):
        row = average[k]
        target = values[k]
        rate = rates[k]
        for j in range(row.shape[0]):
            row[j] += rate * (target[j] - row[j])
