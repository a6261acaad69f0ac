"""Compares carrying V = R⁻ᵀ b along with the factor against solving twice, asking then learning.

If it is carried, the Givens rotations that update R also rotate V, O(K d) per example, and a
question needs one triangular solve instead of two. Otherwise a question needs the second solve,
O(d²), and uses the statistics b themselves.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np
from numba import njit
from scipy.linalg.blas import dtrsv

from benchmarks.side_by_side import Line, best_seconds
from everlearn.statistics.factor_kernels import solve_backward, update_and_solve_forward

N_FEATURES = 512


@njit(cache=True, fastmath={"reassoc", "contract", "nsz"})
def update_with_rhs(R: np.ndarray, x: np.ndarray, V: np.ndarray, v: np.ndarray) -> None:
    for i in range(x.shape[0]):
        radius = np.sqrt(R[i, i] * R[i, i] + x[i] * x[i])
        c, s = R[i, i] / radius, x[i] / radius
        R[i, i] = radius
        tail, rest, row = R[i, i + 1 :], x[i + 1 :], V[i]
        for j in range(tail.shape[0]):
            above, below = tail[j], rest[j]
            tail[j], rest[j] = c * above + s * below, c * below - s * above
        for k in range(row.shape[0]):
            above, below = row[k], v[k]
            row[k], v[k] = c * above + s * below, c * below - s * above


def carried(X: np.ndarray, R: np.ndarray, V: np.ndarray) -> None:
    for x in X:
        half = dtrsv(R.T, x, lower=1)
        half @ V
        target = np.zeros(V.shape[1])
        target[0] = 1.0
        update_with_rhs(R, x.copy(), V, target)


def not_carried(X: np.ndarray, R: np.ndarray, b: np.ndarray) -> None:
    for x in X:
        solved = x[None].copy()
        update_and_solve_forward(R, x.copy(), solved)
        solve_backward(R, solved)
        b @ solved[0]


def lines() -> Iterator[Line]:
    rng = np.random.default_rng(0)
    for n_classes in (10, 100, 1000):
        X = rng.normal(size=(200, N_FEATURES))
        R = np.linalg.cholesky(X.T @ X + np.eye(N_FEATURES)).T.copy()
        V = rng.normal(size=(N_FEATURES, n_classes))
        b = np.ascontiguousarray(V.T)
        twin = R.copy()
        ways = {
            "carried": partial(carried, X, R, V),
            "not carried": partial(not_carried, X, twin, b),
        }
        for way in ways.values():
            way()  # compile
        best = best_seconds(ways)
        yield Line(
            f"carrying V = R⁻ᵀb against solving twice, d=512, K={n_classes}",
            f"{1e6 * best['carried'] / 200:.0f} µs against "
            f"{1e6 * best['not carried'] / 200:.0f} µs a step",
            "the learners do what is faster for many classes",
        )
