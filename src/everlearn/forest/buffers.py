"""Allocates arrays in compiled code, with one function per type, so that each is compiled once."""

import numpy as np
from numpy.typing import NDArray

from everlearn.compiled import inner

Floats32 = NDArray[np.float32]
Floats64 = NDArray[np.float64]
Ints = NDArray[np.int32]
Bytes = NDArray[np.uint8]


@inner
def ints(n: int, value: int) -> Ints:
    """An array of ``n`` equal integers."""
    fresh = np.empty(n, np.int32)
    for i in range(n):
        fresh[i] = value
    return fresh


@inner
def zeros(n: int) -> Floats64:
    """An array of ``n`` zeros."""
    fresh = np.empty(n)
    for i in range(n):
        fresh[i] = 0.0
    return fresh


@inner
def zero_table(n: int, k: int) -> Floats64:
    """An array of ``n`` rows of ``k`` zeros."""
    fresh = np.empty((n, k))
    for i in range(n):
        for j in range(k):
            fresh[i, j] = 0.0
    return fresh


@inner
def flags(n: int, k: int) -> Bytes:
    """An array of ``n`` rows of ``k`` flags, none of them set."""
    fresh = np.empty((n, k), np.uint8)
    for i in range(n):
        for j in range(k):
            fresh[i, j] = 0
    return fresh


@inner
def vectors(n: int, d: int) -> Floats32:
    """An array of ``n`` float32 vectors of ``d`` zeros."""
    fresh = np.empty((n, d), np.float32)
    for i in range(n):
        for j in range(d):
            fresh[i, j] = 0.0
    return fresh
