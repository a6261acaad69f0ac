"""Compiled steps of many detectors, true class against best rival (Crammer et al. 2006, Sec. 8)."""

import numpy as np
from numpy.typing import NDArray

from everlearn.compiled import Array, compiled
from everlearn.transfer.steps import step_size

IntArray = NDArray[np.int64]


@compiled
def rival_step(
    W: Array, b: Array, x: Array, slot: int, constant: float, C: float, rule: int
) -> bool:
    """One step for an example of many classes: the true class k against its best rival r.

    f_j = w_j·x + b_j,  ℓ = max(0, 1 − f_k + f_r),  γ as in :func:`step_size` with the norm
    2 (‖x‖² + constant);  w_k += γ x,  w_r −= γ x,  b_k += γ constant,  b_r −= γ constant.
    C is in units of 1 / ‖x‖². Returns whether something was learned.
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
    """A :func:`rival_step` for each of the next ``rounds`` exemplars, in turn; returns the cursor.

    Position p of the cycle is exemplar p // K of class p mod K; empty positions are skipped.
    """
    n_classes = W.shape[0]
    n_positions = n_classes * exemplars.shape[1]
    stored = 0
    for k in range(n_classes):
        stored += counts[k]
    for _ in range(min(rounds, stored)):
        cursor %= n_positions
        while cursor // n_classes >= counts[cursor % n_classes]:
            cursor = (cursor + 1) % n_positions
        index, k = cursor // n_classes, cursor % n_classes
        rival_step(W, b, exemplars[k, index], k, constant, C * weights[k, index], rule)
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
