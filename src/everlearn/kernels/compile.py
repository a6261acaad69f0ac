"""How functions are compiled here."""

from collections.abc import Callable
from typing import TypeVar, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[np.float64]
F = TypeVar("F", bound=Callable[..., object])

# Reductions may be reordered (that is what makes them fast); NaN and infinity keep their meaning.
REORDER = {"reassoc", "contract", "nsz"}


def compiled(function: F) -> F:
    """Compile at first use, keep the result on disk, release the interpreter lock while running."""
    return cast(F, njit(cache=True, fastmath=REORDER, nogil=True)(function))
