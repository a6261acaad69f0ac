"""Random numbers for compiled code: splitmix64, with its state in an array of one number."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from everlearn.compiled import Array, compiled, inner
from everlearn.forest.buffers import Ints, ints, zeros

Generator = NDArray[np.uint64]


@inner
def next_random(random: Generator) -> Any:
    """The next 62-bit number."""
    random[0] += np.uint64(0x9E3779B97F4A7C15)
    z = random[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.int64((z ^ (z >> np.uint64(31))) >> np.uint64(2))


@inner
def random_below(random: Generator, n: int) -> Any:
    """An integer in [0, n)."""
    return next_random(random) % n


@inner
def random_unit(random: Generator) -> Any:
    """A number in (0, 1)."""
    return (next_random(random) + 0.5) / 4611686018427387904.0


@compiled
def random_units(random: Generator, n: int) -> Array:
    """``n`` numbers in (0, 1)."""
    units = zeros(n)
    for i in range(n):
        units[i] = random_unit(random)
    return units


@inner
def random_subset(n: int, k: int, random: Generator) -> Ints:
    """A random choice of ``k`` different numbers below ``n``, ascending."""
    numbers, drawn = ints(n, 0), ints(n, 0)
    for i in range(n):
        numbers[i] = i
    for i in range(k):
        j = i + random_below(random, n - i)
        numbers[i], numbers[j] = numbers[j], numbers[i]
    for i in range(k):
        drawn[numbers[i]] = 1
    count = 0
    for number in range(n):
        if drawn[number]:
            numbers[count] = number
            count += 1
    return numbers[:k]


@inner
def random_index(cumulative: Array, random: Generator) -> Any:
    """A random index, with probability proportional to its weight; takes cumulative weights."""
    u = random_unit(random) * cumulative[-1]
    low, high = 0, cumulative.shape[0] - 1
    while low < high:
        middle = (low + high) // 2
        if cumulative[middle] <= u:
            low = middle + 1
        else:
            high = middle
    return low
