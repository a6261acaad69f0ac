"""Exponential decay of the weights of examples (half-life).

After ``half_life`` further examples an example counts for half as much, after twice as many for a
quarter. Scaling everything down at every example would cost O(d²) and could not be followed by a
rank-one update of a factor. So old weights are not touched: only relative weights matter, and the
weight of the next example grows instead (*forward decay*, Cormode, Shkapenyuk, Srivastava and Xu,
ICDE 2009),

    weight of example t = w 2^(t / half_life),        counted now as  w 2^(−(now − t) / half_life)

Statistics with such weights can be used unchanged; a quantity with its own unit, such as a penalty
λ beside XᵀX, is multiplied by :attr:`Fading.unit`. Before the unit overflows, everything is divided
by it.
"""

import numpy as np

from everlearn.arrays import Array

# The unit is reset to one when it has doubled this often.
MOST_DOUBLINGS = 64


class Fading:
    """The weights of the next examples."""

    def __init__(self, half_life: float) -> None:
        self.half_life = half_life
        self._ticks = 0

    @property
    def unit(self) -> float:
        """Weight of the latest example."""
        return float(2.0 ** (self._ticks / self.half_life))

    @property
    def most_rows(self) -> int:
        """Number of examples that may be weighted before :attr:`is_large` is checked again."""
        return max(1, int(min(MOST_DOUBLINGS * self.half_life, 1 << 62)))

    @property
    def is_large(self) -> bool:
        return self._ticks > MOST_DOUBLINGS * self.half_life

    def weights(self, n: int, given: Array | None) -> Array:
        """Weights of the next n examples, multiplied by the given weights."""
        ages = np.arange(self._ticks + 1, self._ticks + n + 1)
        grown: Array = 2.0 ** (ages / self.half_life)
        return grown if given is None else grown * given

    def advance(self, n: int) -> None:
        """Record that n examples were learned."""
        self._ticks += n

    def start_again(self) -> None:
        """Record that everything was divided by the unit."""
        self._ticks = 0
