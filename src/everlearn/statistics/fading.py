"""Examples that count for less the longer ago they were learned.

After ``half_life`` further examples an example counts for half as much, after twice as many for a
quarter. Shrinking everything at every example would cost O(d²) and leave no factor to follow by a
rank-one step. So nothing old is touched: what counts is the weight of an example beside the others,
and the unit in which the next one is weighed grows instead (*forward decay*, Cormode, Shkapenyuk,
Srivastava and Xu, ICDE 2009),

    weight of example t = w 2^(t / half_life),        counted now as  w 2^(−(now − t) / half_life)

Statistics so weighted are everybody's as they are; what has a unit of its own, a penalty λ beside
X'X, is multiplied by :attr:`Fading.unit`. Before the unit grows out of range, everything is divided
by it.
"""

import numpy as np

from everlearn.arrays import Array

# The unit is brought back to one when it has doubled this often.
MOST_DOUBLINGS = 64


class Fading:
    """How much the next examples weigh."""

    def __init__(self, half_life: float) -> None:
        self.half_life = half_life
        self._ticks = 0

    @property
    def unit(self) -> float:
        """What the latest example weighs."""
        return float(2.0 ** (self._ticks / self.half_life))

    @property
    def most_rows(self) -> int:
        """How many examples may be weighed before the next look at :attr:`is_large`."""
        return max(1, int(min(MOST_DOUBLINGS * self.half_life, 1 << 62)))

    @property
    def is_large(self) -> bool:
        return self._ticks > MOST_DOUBLINGS * self.half_life

    def weights(self, n: int, given: Array | None) -> Array:
        """What the next n examples will weigh, each times the weight it is given."""
        ages = np.arange(self._ticks + 1, self._ticks + n + 1)
        grown: Array = 2.0 ** (ages / self.half_life)
        return grown if given is None else grown * given

    def advance(self, n: int) -> None:
        """So many examples were learned."""
        self._ticks += n

    def start_again(self) -> None:
        """Everything was divided by the unit."""
        self._ticks = 0
